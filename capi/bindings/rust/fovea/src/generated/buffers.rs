// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

use crate::options::{AttentionOptions, Score};
use crate::sys;
use crate::tensor::sealed::Raw;
use crate::tensor::{Data, DataMut, Layout, View};
use crate::Result;

/// Where the tensors of a planned call lie in the slices of a run.
#[derive(Default)]
pub(crate) struct Layouts {
    query: Option<Layout>,
    key: Option<Layout>,
    value: Option<Layout>,
    out: Option<Layout>,
    valid_lens: Option<Layout>,
    mask: Option<Layout>,
    bias: Option<Layout>,
    alibi_slopes: Option<Layout>,
    sinks: Option<Layout>,
    log_sum_exp: Option<Layout>,
    weights: Option<Layout>,
    query_weight: Option<Layout>,
    key_weight: Option<Layout>,
    weight: Option<Layout>,
    score_bias: Option<Layout>,
    score_vector: Option<Layout>,
    sigmas: Option<Layout>,
    query_offsets: Option<Layout>,
    scores: Option<Layout>,
    key_scales: Option<Layout>,
    value_scales: Option<Layout>,
}

impl Layouts {
    pub(crate) fn new(
        query: &dyn View,
        key: Option<&dyn View>,
        value: &dyn View,
        out: &dyn View,
        score: Option<&Score<'_>>,
        options: &AttentionOptions<'_>,
    ) -> Self {
        Layouts {
            query: Some(query.layout()),
            key: key.map(|key| key.layout()),
            value: Some(value.layout()),
            out: Some(out.layout()),
            ..Layouts::of_options(score, options)
        }
    }

    /// Of the tensors in options and score alone.
    pub(crate) fn of_options(score: Option<&Score<'_>>, options: &AttentionOptions<'_>) -> Self {
        Layouts {
            query: None,
            key: None,
            value: None,
            out: None,
            valid_lens: options.valid_lens.as_ref().map(|tensor| tensor.layout()),
            mask: options.mask.as_ref().map(|tensor| tensor.layout()),
            bias: options.bias.as_ref().map(|tensor| tensor.layout()),
            alibi_slopes: options.alibi_slopes.as_ref().map(|tensor| tensor.layout()),
            sinks: options.sinks.as_ref().map(|tensor| tensor.layout()),
            log_sum_exp: options.log_sum_exp.as_ref().map(|tensor| tensor.layout()),
            weights: options.weights.as_ref().map(|tensor| tensor.layout()),
            query_weight: score.and_then(|score| score.query_weight.as_ref()).map(|tensor| tensor.layout()),
            key_weight: score.and_then(|score| score.key_weight.as_ref()).map(|tensor| tensor.layout()),
            weight: score.and_then(|score| score.weight.as_ref()).map(|tensor| tensor.layout()),
            score_bias: score.and_then(|score| score.bias.as_ref()).map(|tensor| tensor.layout()),
            score_vector: score.and_then(|score| score.score_vector.as_ref()).map(|tensor| tensor.layout()),
            sigmas: score.and_then(|score| score.sigmas.as_ref()).map(|tensor| tensor.layout()),
            query_offsets: options.query_offsets.as_ref().map(|tensor| tensor.layout()),
            scores: options.scores.as_ref().map(|tensor| tensor.layout()),
            key_scales: options.key_scales.as_ref().map(|tensor| tensor.layout()),
            value_scales: options.value_scales.as_ref().map(|tensor| tensor.layout()),
        }
    }
}

/// The data of a planned run: a slice for every tensor that was planned, beginning with the first element of it in
/// memory. The default has none, for [`crate::MhaBuffers::attention`].
#[derive(Default)]
pub struct Buffers<'a> {
    query: Option<Data<'a>>,
    key: Option<Data<'a>>,
    value: Option<Data<'a>>,
    out: Option<DataMut<'a>>,
    valid_lens: Option<Data<'a>>,
    mask: Option<Data<'a>>,
    bias: Option<Data<'a>>,
    alibi_slopes: Option<Data<'a>>,
    sinks: Option<Data<'a>>,
    log_sum_exp: Option<DataMut<'a>>,
    weights: Option<DataMut<'a>>,
    query_weight: Option<Data<'a>>,
    key_weight: Option<Data<'a>>,
    weight: Option<Data<'a>>,
    score_bias: Option<Data<'a>>,
    score_vector: Option<Data<'a>>,
    sigmas: Option<Data<'a>>,
    query_offsets: Option<Data<'a>>,
    scores: Option<DataMut<'a>>,
    key_scales: Option<Data<'a>>,
    value_scales: Option<Data<'a>>,
}

impl<'a> Buffers<'a> {
    /// Of a call that was planned without optional tensors.
    pub fn new(
        query: impl Into<Data<'a>>,
        key: impl Into<Data<'a>>,
        value: impl Into<Data<'a>>,
        out: impl Into<DataMut<'a>>,
    ) -> Self {
        Buffers {
            query: Some(query.into()),
            key: Some(key.into()),
            value: Some(value.into()),
            out: Some(out.into()),
            valid_lens: None,
            mask: None,
            bias: None,
            alibi_slopes: None,
            sinks: None,
            log_sum_exp: None,
            weights: None,
            query_weight: None,
            key_weight: None,
            weight: None,
            score_bias: None,
            score_vector: None,
            sigmas: None,
            query_offsets: None,
            scores: None,
            key_scales: None,
            value_scales: None,
        }
    }

    /// Of a call over prepared keys, which takes none.
    pub fn prepared(
        query: impl Into<Data<'a>>,
        value: impl Into<Data<'a>>,
        out: impl Into<DataMut<'a>>,
    ) -> Self {
        Buffers {
            query: Some(query.into()),
            key: None,
            value: Some(value.into()),
            out: Some(out.into()),
            valid_lens: None,
            mask: None,
            bias: None,
            alibi_slopes: None,
            sinks: None,
            log_sum_exp: None,
            weights: None,
            query_weight: None,
            key_weight: None,
            weight: None,
            score_bias: None,
            score_vector: None,
            sigmas: None,
            query_offsets: None,
            scores: None,
            key_scales: None,
            value_scales: None,
        }
    }

    /// The data of `options.valid_lens`.
    pub fn valid_lens(mut self, valid_lens: impl Into<Data<'a>>) -> Self {
        self.valid_lens = Some(valid_lens.into());
        self
    }

    /// The data of `options.mask`.
    pub fn mask(mut self, mask: impl Into<Data<'a>>) -> Self {
        self.mask = Some(mask.into());
        self
    }

    /// The data of `options.bias`.
    pub fn bias(mut self, bias: impl Into<Data<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// The data of `options.alibi_slopes`.
    pub fn alibi_slopes(mut self, alibi_slopes: impl Into<Data<'a>>) -> Self {
        self.alibi_slopes = Some(alibi_slopes.into());
        self
    }

    /// The data of `options.sinks`.
    pub fn sinks(mut self, sinks: impl Into<Data<'a>>) -> Self {
        self.sinks = Some(sinks.into());
        self
    }

    /// The data of `options.log_sum_exp`.
    pub fn log_sum_exp(mut self, log_sum_exp: impl Into<DataMut<'a>>) -> Self {
        self.log_sum_exp = Some(log_sum_exp.into());
        self
    }

    /// The data of `options.weights`.
    pub fn weights(mut self, weights: impl Into<DataMut<'a>>) -> Self {
        self.weights = Some(weights.into());
        self
    }

    /// The data of `score.query_weight`.
    pub fn query_weight(mut self, query_weight: impl Into<Data<'a>>) -> Self {
        self.query_weight = Some(query_weight.into());
        self
    }

    /// The data of `score.key_weight`.
    pub fn key_weight(mut self, key_weight: impl Into<Data<'a>>) -> Self {
        self.key_weight = Some(key_weight.into());
        self
    }

    /// The data of `score.weight`.
    pub fn weight(mut self, weight: impl Into<Data<'a>>) -> Self {
        self.weight = Some(weight.into());
        self
    }

    /// The data of `score.bias`.
    pub fn score_bias(mut self, score_bias: impl Into<Data<'a>>) -> Self {
        self.score_bias = Some(score_bias.into());
        self
    }

    /// The data of `score.score_vector`.
    pub fn score_vector(mut self, score_vector: impl Into<Data<'a>>) -> Self {
        self.score_vector = Some(score_vector.into());
        self
    }

    /// The data of `score.sigmas`.
    pub fn sigmas(mut self, sigmas: impl Into<Data<'a>>) -> Self {
        self.sigmas = Some(sigmas.into());
        self
    }

    /// The data of `options.query_offsets`.
    pub fn query_offsets(mut self, query_offsets: impl Into<Data<'a>>) -> Self {
        self.query_offsets = Some(query_offsets.into());
        self
    }

    /// The data of `options.scores`.
    pub fn scores(mut self, scores: impl Into<DataMut<'a>>) -> Self {
        self.scores = Some(scores.into());
        self
    }

    /// The data of `options.key_scales`.
    pub fn key_scales(mut self, key_scales: impl Into<Data<'a>>) -> Self {
        self.key_scales = Some(key_scales.into());
        self
    }

    /// The data of `options.value_scales`.
    pub fn value_scales(mut self, value_scales: impl Into<Data<'a>>) -> Self {
        self.value_scales = Some(value_scales.into());
        self
    }

    /// Refuses what is shorter than was planned, or of another element type.
    #[inline]
    pub(crate) fn raw(self, planned: &Layouts) -> Result<sys::fovea_attention_buffers> {
        Ok(sys::fovea_attention_buffers {
            struct_size: std::mem::size_of::<sys::fovea_attention_buffers>(),
            query: Data::pointer(self.query, &planned.query, "query")?,
            key: Data::pointer(self.key, &planned.key, "key")?,
            value: Data::pointer(self.value, &planned.value, "value")?,
            out: DataMut::pointer(self.out, &planned.out, "out")?,
            valid_lens: Data::pointer(self.valid_lens, &planned.valid_lens, "valid_lens")?,
            mask: Data::pointer(self.mask, &planned.mask, "mask")?,
            bias: Data::pointer(self.bias, &planned.bias, "bias")?,
            alibi_slopes: Data::pointer(self.alibi_slopes, &planned.alibi_slopes, "alibi_slopes")?,
            sinks: Data::pointer(self.sinks, &planned.sinks, "sinks")?,
            log_sum_exp: DataMut::pointer(self.log_sum_exp, &planned.log_sum_exp, "log_sum_exp")?,
            weights: DataMut::pointer(self.weights, &planned.weights, "weights")?,
            query_weight: Data::pointer(self.query_weight, &planned.query_weight, "query_weight")?,
            key_weight: Data::pointer(self.key_weight, &planned.key_weight, "key_weight")?,
            weight: Data::pointer(self.weight, &planned.weight, "weight")?,
            score_bias: Data::pointer(self.score_bias, &planned.score_bias, "score_bias")?,
            score_vector: Data::pointer(self.score_vector, &planned.score_vector, "score_vector")?,
            sigmas: Data::pointer(self.sigmas, &planned.sigmas, "sigmas")?,
            query_offsets: Data::pointer(self.query_offsets, &planned.query_offsets, "query_offsets")?,
            scores: DataMut::pointer(self.scores, &planned.scores, "scores")?,
            key_scales: Data::pointer(self.key_scales, &planned.key_scales, "key_scales")?,
            value_scales: Data::pointer(self.value_scales, &planned.value_scales, "value_scales")?,
        })
    }
}
