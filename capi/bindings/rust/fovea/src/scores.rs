//! How a query and a key are compared: the kinds of [`Score`], each with the parameters it must have.
use crate::{Score, ScoreKind, Tensor};

impl<'a> Score<'a> {
    fn of(kind: ScoreKind) -> Self {
        Score::new().kind(kind)
    }

    /// q . k, the default
    pub fn dot() -> Self {
        Self::of(ScoreKind::Dot)
    }

    /// qᵀ W k, weight of shape `[Dq, Dk]`
    pub fn bilinear(weight: impl Into<Tensor<'a>>) -> Self {
        Self::of(ScoreKind::Bilinear).weight(weight)
    }

    /// v . tanh(Wq q + Wk k), of shapes `[h, Dq]`, `[h, Dk]` and `[h]`
    pub fn additive(
        query_weight: impl Into<Tensor<'a>>,
        key_weight: impl Into<Tensor<'a>>,
        score_vector: impl Into<Tensor<'a>>,
    ) -> Self {
        Self::of(ScoreKind::Additive).query_weight(query_weight).key_weight(key_weight).score_vector(score_vector)
    }

    /// v . tanh(W [q; k] + b), of shapes `[h, Dq + Dk]` and `[h]`; b, if any, is set with [`Score::bias`]
    pub fn concat(weight: impl Into<Tensor<'a>>, score_vector: impl Into<Tensor<'a>>) -> Self {
        Self::of(ScoreKind::Concat).weight(weight).score_vector(score_vector)
    }

    /// -|q - k|² / (2 sigma²)
    pub fn gaussian(sigma: f32) -> Self {
        Self::of(ScoreKind::Gaussian).sigma(sigma)
    }

    /// The same with a width for each query head
    pub fn gaussian_of_heads(sigmas: impl Into<Tensor<'a>>) -> Self {
        Self::of(ScoreKind::Gaussian).sigmas(sigmas)
    }
}
