// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

use crate::options::{AttentionGradients, AttentionOptions, Score};
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
    grad_out: Option<Layout>,
    grad_log_sum_exp: Option<Layout>,
    grad_weights: Option<Layout>,
    grad_query: Option<Layout>,
    grad_key: Option<Layout>,
    grad_value: Option<Layout>,
    grad_bias: Option<Layout>,
    grad_alibi_slopes: Option<Layout>,
    grad_sinks: Option<Layout>,
    grad_query_weight: Option<Layout>,
    grad_key_weight: Option<Layout>,
    grad_weight: Option<Layout>,
    grad_score_bias: Option<Layout>,
    grad_score_vector: Option<Layout>,
    grad_sigmas: Option<Layout>,
    projected_query: Option<Layout>,
    projected_key: Option<Layout>,
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
            grad_out: None,
            grad_log_sum_exp: None,
            grad_weights: None,
            grad_query: None,
            grad_key: None,
            grad_value: None,
            grad_bias: None,
            grad_alibi_slopes: None,
            grad_sinks: None,
            grad_query_weight: None,
            grad_key_weight: None,
            grad_weight: None,
            grad_score_bias: None,
            grad_score_vector: None,
            grad_sigmas: None,
            projected_query: options.projected_query.as_ref().map(|tensor| tensor.layout()),
            projected_key: options.projected_key.as_ref().map(|tensor| tensor.layout()),
        }
    }

    /// And of a backward pass.
    pub(crate) fn add_gradients(mut self, gradients: &AttentionGradients<'_>) -> Self {
        self.grad_out = gradients.out.as_ref().map(|tensor| tensor.layout());
        self.grad_log_sum_exp = gradients.log_sum_exp.as_ref().map(|tensor| tensor.layout());
        self.grad_weights = gradients.weights.as_ref().map(|tensor| tensor.layout());
        self.grad_query = gradients.query.as_ref().map(|tensor| tensor.layout());
        self.grad_key = gradients.key.as_ref().map(|tensor| tensor.layout());
        self.grad_value = gradients.value.as_ref().map(|tensor| tensor.layout());
        self.grad_bias = gradients.bias.as_ref().map(|tensor| tensor.layout());
        self.grad_alibi_slopes = gradients.alibi_slopes.as_ref().map(|tensor| tensor.layout());
        self.grad_sinks = gradients.sinks.as_ref().map(|tensor| tensor.layout());
        self.grad_query_weight = gradients.query_weight.as_ref().map(|tensor| tensor.layout());
        self.grad_key_weight = gradients.key_weight.as_ref().map(|tensor| tensor.layout());
        self.grad_weight = gradients.weight.as_ref().map(|tensor| tensor.layout());
        self.grad_score_bias = gradients.score_bias.as_ref().map(|tensor| tensor.layout());
        self.grad_score_vector = gradients.score_vector.as_ref().map(|tensor| tensor.layout());
        self.grad_sigmas = gradients.sigmas.as_ref().map(|tensor| tensor.layout());
        self
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
    grad_out: Option<Data<'a>>,
    grad_log_sum_exp: Option<Data<'a>>,
    grad_weights: Option<Data<'a>>,
    grad_query: Option<DataMut<'a>>,
    grad_key: Option<DataMut<'a>>,
    grad_value: Option<DataMut<'a>>,
    grad_bias: Option<DataMut<'a>>,
    grad_alibi_slopes: Option<DataMut<'a>>,
    grad_sinks: Option<DataMut<'a>>,
    grad_query_weight: Option<DataMut<'a>>,
    grad_key_weight: Option<DataMut<'a>>,
    grad_weight: Option<DataMut<'a>>,
    grad_score_bias: Option<DataMut<'a>>,
    grad_score_vector: Option<DataMut<'a>>,
    grad_sigmas: Option<DataMut<'a>>,
    projected_query: Option<DataMut<'a>>,
    projected_key: Option<DataMut<'a>>,
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
            grad_out: None,
            grad_log_sum_exp: None,
            grad_weights: None,
            grad_query: None,
            grad_key: None,
            grad_value: None,
            grad_bias: None,
            grad_alibi_slopes: None,
            grad_sinks: None,
            grad_query_weight: None,
            grad_key_weight: None,
            grad_weight: None,
            grad_score_bias: None,
            grad_score_vector: None,
            grad_sigmas: None,
            projected_query: None,
            projected_key: None,
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
            grad_out: None,
            grad_log_sum_exp: None,
            grad_weights: None,
            grad_query: None,
            grad_key: None,
            grad_value: None,
            grad_bias: None,
            grad_alibi_slopes: None,
            grad_sinks: None,
            grad_query_weight: None,
            grad_key_weight: None,
            grad_weight: None,
            grad_score_bias: None,
            grad_score_vector: None,
            grad_sigmas: None,
            projected_query: None,
            projected_key: None,
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

    /// The data of `gradients.out`.
    pub fn grad_out(mut self, grad_out: impl Into<Data<'a>>) -> Self {
        self.grad_out = Some(grad_out.into());
        self
    }

    /// The data of `gradients.log_sum_exp`.
    pub fn grad_log_sum_exp(mut self, grad_log_sum_exp: impl Into<Data<'a>>) -> Self {
        self.grad_log_sum_exp = Some(grad_log_sum_exp.into());
        self
    }

    /// The data of `gradients.weights`.
    pub fn grad_weights(mut self, grad_weights: impl Into<Data<'a>>) -> Self {
        self.grad_weights = Some(grad_weights.into());
        self
    }

    /// The data of `gradients.query`.
    pub fn grad_query(mut self, grad_query: impl Into<DataMut<'a>>) -> Self {
        self.grad_query = Some(grad_query.into());
        self
    }

    /// The data of `gradients.key`.
    pub fn grad_key(mut self, grad_key: impl Into<DataMut<'a>>) -> Self {
        self.grad_key = Some(grad_key.into());
        self
    }

    /// The data of `gradients.value`.
    pub fn grad_value(mut self, grad_value: impl Into<DataMut<'a>>) -> Self {
        self.grad_value = Some(grad_value.into());
        self
    }

    /// The data of `gradients.bias`.
    pub fn grad_bias(mut self, grad_bias: impl Into<DataMut<'a>>) -> Self {
        self.grad_bias = Some(grad_bias.into());
        self
    }

    /// The data of `gradients.alibi_slopes`.
    pub fn grad_alibi_slopes(mut self, grad_alibi_slopes: impl Into<DataMut<'a>>) -> Self {
        self.grad_alibi_slopes = Some(grad_alibi_slopes.into());
        self
    }

    /// The data of `gradients.sinks`.
    pub fn grad_sinks(mut self, grad_sinks: impl Into<DataMut<'a>>) -> Self {
        self.grad_sinks = Some(grad_sinks.into());
        self
    }

    /// The data of `gradients.query_weight`.
    pub fn grad_query_weight(mut self, grad_query_weight: impl Into<DataMut<'a>>) -> Self {
        self.grad_query_weight = Some(grad_query_weight.into());
        self
    }

    /// The data of `gradients.key_weight`.
    pub fn grad_key_weight(mut self, grad_key_weight: impl Into<DataMut<'a>>) -> Self {
        self.grad_key_weight = Some(grad_key_weight.into());
        self
    }

    /// The data of `gradients.weight`.
    pub fn grad_weight(mut self, grad_weight: impl Into<DataMut<'a>>) -> Self {
        self.grad_weight = Some(grad_weight.into());
        self
    }

    /// The data of `gradients.score_bias`.
    pub fn grad_score_bias(mut self, grad_score_bias: impl Into<DataMut<'a>>) -> Self {
        self.grad_score_bias = Some(grad_score_bias.into());
        self
    }

    /// The data of `gradients.score_vector`.
    pub fn grad_score_vector(mut self, grad_score_vector: impl Into<DataMut<'a>>) -> Self {
        self.grad_score_vector = Some(grad_score_vector.into());
        self
    }

    /// The data of `gradients.sigmas`.
    pub fn grad_sigmas(mut self, grad_sigmas: impl Into<DataMut<'a>>) -> Self {
        self.grad_sigmas = Some(grad_sigmas.into());
        self
    }

    /// The data of `options.projected_query`.
    pub fn projected_query(mut self, projected_query: impl Into<DataMut<'a>>) -> Self {
        self.projected_query = Some(projected_query.into());
        self
    }

    /// The data of `options.projected_key`.
    pub fn projected_key(mut self, projected_key: impl Into<DataMut<'a>>) -> Self {
        self.projected_key = Some(projected_key.into());
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
            grad_out: Data::pointer(self.grad_out, &planned.grad_out, "grad_out")?,
            grad_log_sum_exp: Data::pointer(self.grad_log_sum_exp, &planned.grad_log_sum_exp, "grad_log_sum_exp")?,
            grad_weights: Data::pointer(self.grad_weights, &planned.grad_weights, "grad_weights")?,
            grad_query: DataMut::pointer(self.grad_query, &planned.grad_query, "grad_query")?,
            grad_key: DataMut::pointer(self.grad_key, &planned.grad_key, "grad_key")?,
            grad_value: DataMut::pointer(self.grad_value, &planned.grad_value, "grad_value")?,
            grad_bias: DataMut::pointer(self.grad_bias, &planned.grad_bias, "grad_bias")?,
            grad_alibi_slopes: DataMut::pointer(self.grad_alibi_slopes, &planned.grad_alibi_slopes, "grad_alibi_slopes")?,
            grad_sinks: DataMut::pointer(self.grad_sinks, &planned.grad_sinks, "grad_sinks")?,
            grad_query_weight: DataMut::pointer(self.grad_query_weight, &planned.grad_query_weight, "grad_query_weight")?,
            grad_key_weight: DataMut::pointer(self.grad_key_weight, &planned.grad_key_weight, "grad_key_weight")?,
            grad_weight: DataMut::pointer(self.grad_weight, &planned.grad_weight, "grad_weight")?,
            grad_score_bias: DataMut::pointer(self.grad_score_bias, &planned.grad_score_bias, "grad_score_bias")?,
            grad_score_vector: DataMut::pointer(self.grad_score_vector, &planned.grad_score_vector, "grad_score_vector")?,
            grad_sigmas: DataMut::pointer(self.grad_sigmas, &planned.grad_sigmas, "grad_sigmas")?,
            projected_query: DataMut::pointer(self.projected_query, &planned.projected_query, "projected_query")?,
            projected_key: DataMut::pointer(self.projected_key, &planned.projected_key, "projected_key")?,
        })
    }
}
