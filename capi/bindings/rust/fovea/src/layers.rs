//! Positions, linear layers, activations, normalisation and multi-head attention, as methods of [`Context`].
use crate::error::check;
use crate::operations::pointer;
use crate::tensor::sealed::Raw;
use crate::*;

impl Context {
    /// The sinusoidal encoding, positions x features.
    pub fn positional_encoding<'a>(
        &self,
        out: impl Into<TensorMut<'a>>,
        options: PositionalEncodingOptions,
    ) -> Result<()> {
        let out = out.into();
        check(unsafe { sys::fovea_positional_encoding(self.raw(), out.raw(), &options.raw()) })
    }

    /// `out = dropout(x + P)`, P being the sinusoidal encoding.
    pub fn add_positional_encoding<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: PositionalEncodingOptions,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_add_positional_encoding(self.raw(), x.raw(), out.raw(), &options.raw()) })
    }

    /// [`Context::add_positional_encoding`] in place.
    pub fn add_positional_encoding_in_place<'a>(
        &self,
        x: impl Into<TensorMut<'a>>,
        options: PositionalEncodingOptions,
    ) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_add_positional_encoding(self.raw(), x.raw(), x.raw(), &options.raw()) })
    }

    /// Rotary position embedding.
    pub fn rotary<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: RotaryOptions<'_>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_rotary(self.raw(), x.raw(), out.raw(), &options.raw()) })
    }

    /// [`Context::rotary`] in place.
    pub fn rotary_in_place<'a>(&self, x: impl Into<TensorMut<'a>>, options: RotaryOptions<'_>) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_rotary(self.raw(), x.raw(), x.raw(), &options.raw()) })
    }

    /// `out = activation(x W + bias) * multiplier + residual`.
    pub fn linear<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        weight: &PackedMatrix,
        out: impl Into<TensorMut<'a>>,
        options: LinearOptions<'_>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_linear(self.raw(), x.raw(), weight.raw(), out.raw(), &options.raw()) })
    }

    /// `out = activation(x W + bias) + out`: [`Context::linear`] with the output itself as residual.
    pub fn linear_add<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        weight: &PackedMatrix,
        out: impl Into<TensorMut<'a>>,
        options: LinearOptions<'_>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        let mut options = options.raw();
        options.residual = out.raw();
        check(unsafe { sys::fovea_linear(self.raw(), x.raw(), weight.raw(), out.raw(), &options) })
    }

    /// `out = activation(x W + bias) * out + residual`: [`Context::linear`] with the output itself as multiplier, as in a
    /// gated pair.
    pub fn linear_multiply<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        weight: &PackedMatrix,
        out: impl Into<TensorMut<'a>>,
        options: LinearOptions<'_>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        let mut options = options.raw();
        options.multiplier = out.raw();
        check(unsafe { sys::fovea_linear(self.raw(), x.raw(), weight.raw(), out.raw(), &options) })
    }

    /// Layer normalisation over the last axis.
    pub fn layer_norm<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: LayerNormOptions<'_>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_layer_norm(self.raw(), x.raw(), out.raw(), &options.raw()) })
    }

    /// [`Context::layer_norm`] in place.
    pub fn layer_norm_in_place<'a>(&self, x: impl Into<TensorMut<'a>>, options: LayerNormOptions<'_>) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_layer_norm(self.raw(), x.raw(), x.raw(), &options.raw()) })
    }

    /// Normalisation by the root of the mean square over the last axis.
    pub fn rms_norm<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: RmsNormOptions<'_>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_rms_norm(self.raw(), x.raw(), out.raw(), &options.raw()) })
    }

    /// [`Context::rms_norm`] in place.
    pub fn rms_norm_in_place<'a>(&self, x: impl Into<TensorMut<'a>>, options: RmsNormOptions<'_>) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_rms_norm(self.raw(), x.raw(), x.raw(), &options.raw()) })
    }

    /// `out = activation(x)`, element by element.
    pub fn activation<'a>(
        &self,
        activation: Activation,
        x: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_activation(self.raw(), activation as i32, x.raw(), out.raw()) })
    }

    /// [`Context::activation`] in place.
    pub fn activation_in_place<'a>(&self, activation: Activation, x: impl Into<TensorMut<'a>>) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_activation(self.raw(), activation as i32, x.raw(), x.raw()) })
    }

    /// Multi-head attention. `key` left out is `query`, `value` left out is `key`.
    pub fn multi_head_attention<'a>(
        &self,
        weights: &MhaWeights,
        query: impl Into<Tensor<'a>>,
        key: Option<Tensor<'a>>,
        value: Option<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: MhaOptions<'_>,
    ) -> Result<()> {
        let (query, out) = (query.into(), out.into());
        let (key, value) = (pointer(&key), pointer(&value));
        options.with_raw(|options| {
            check(unsafe {
                let (weights, query, out) = (weights.raw(), query.raw(), out.raw());
                sys::fovea_multi_head_attention(self.raw(), weights, query, key, value, out, options)
            })
        })
    }

    /// The same with weights that are used once: packs them, computes, forgets them.
    pub fn multi_head_attention_once<'a>(
        &self,
        parameters: &MhaParameters<'_>,
        query: impl Into<Tensor<'a>>,
        key: Option<Tensor<'a>>,
        value: Option<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: MhaOptions<'_>,
    ) -> Result<()> {
        let (query, out) = (query.into(), out.into());
        let (key, value) = (pointer(&key), pointer(&value));
        options.with_raw(|options| {
            check(unsafe {
                let (parameters, query, out) = (parameters.raw()?, query.raw(), out.raw());
                sys::fovea_multi_head_attention_once(self.raw(), &parameters, query, key, value, out, options)
            })
        })
    }
}
