//! The backward passes of what is not attention alone, as methods of [`Context`].
use crate::error::check;
use crate::operations::pointer;
use crate::tensor::sealed::Raw;
use crate::*;

impl Context {
    /// The backward pass of [`Context::activation`]: `grad_x = grad_out` times the derivative at `x`.
    pub fn activation_backward<'a>(
        &self,
        activation: Activation,
        x: impl Into<Tensor<'a>>,
        grad_out: impl Into<Tensor<'a>>,
        grad_x: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (x, grad_out, grad_x) = (x.into(), grad_out.into(), grad_x.into());
        self.back_through_activation(activation, x.raw(), grad_out.raw(), grad_x.raw())
    }

    /// [`Context::activation_backward`] in place of what the loss changes by.
    pub fn activation_backward_in_place<'a>(
        &self,
        activation: Activation,
        x: impl Into<Tensor<'a>>,
        grad: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (x, grad) = (x.into(), grad.into());
        self.back_through_activation(activation, x.raw(), grad.raw(), grad.raw())
    }

    fn back_through_activation(
        &self,
        activation: Activation,
        x: &sys::fovea_tensor,
        grad_out: &sys::fovea_tensor,
        grad_x: &sys::fovea_tensor,
    ) -> Result<()> {
        check(unsafe { sys::fovea_activation_backward(self.raw(), activation as i32, x, grad_out, grad_x) })
    }

    /// The backward pass of [`Context::masked_softmax`], of its `out` and `valid_lens`.
    pub fn masked_softmax_backward<'a>(
        &self,
        out: impl Into<Tensor<'a>>,
        valid_lens: Option<Tensor<'a>>,
        grad_out: impl Into<Tensor<'a>>,
        grad_x: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (out, grad_out, grad_x) = (out.into(), grad_out.into(), grad_x.into());
        self.back_through_masked(out.raw(), valid_lens, grad_out.raw(), grad_x.raw())
    }

    /// [`Context::masked_softmax_backward`] in place of what the loss changes by.
    pub fn masked_softmax_backward_in_place<'a>(
        &self,
        out: impl Into<Tensor<'a>>,
        valid_lens: Option<Tensor<'a>>,
        grad: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (out, grad) = (out.into(), grad.into());
        self.back_through_masked(out.raw(), valid_lens, grad.raw(), grad.raw())
    }

    fn back_through_masked(
        &self,
        out: &sys::fovea_tensor,
        valid_lens: Option<Tensor<'_>>,
        grad_out: &sys::fovea_tensor,
        grad_x: &sys::fovea_tensor,
    ) -> Result<()> {
        check(unsafe { sys::fovea_masked_softmax_backward(self.raw(), out, pointer(&valid_lens), grad_out, grad_x) })
    }

    /// The backward pass of [`Context::softmax`], of its `out`, over its axis.
    pub fn softmax_backward<'a>(
        &self,
        out: impl Into<Tensor<'a>>,
        axis: i32,
        grad_out: impl Into<Tensor<'a>>,
        grad_x: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (out, grad_out, grad_x) = (out.into(), grad_out.into(), grad_x.into());
        check(unsafe { sys::fovea_softmax_backward(self.raw(), out.raw(), axis, grad_out.raw(), grad_x.raw()) })
    }

    /// [`Context::softmax_backward`] in place of what the loss changes by.
    pub fn softmax_backward_in_place<'a>(
        &self,
        out: impl Into<Tensor<'a>>,
        axis: i32,
        grad: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (out, grad) = (out.into(), grad.into());
        check(unsafe { sys::fovea_softmax_backward(self.raw(), out.raw(), axis, grad.raw(), grad.raw()) })
    }

    /// The backward pass of [`Context::log_softmax`], of its `out`, over its axis.
    pub fn log_softmax_backward<'a>(
        &self,
        out: impl Into<Tensor<'a>>,
        axis: i32,
        grad_out: impl Into<Tensor<'a>>,
        grad_x: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (out, grad_out, grad_x) = (out.into(), grad_out.into(), grad_x.into());
        check(unsafe { sys::fovea_log_softmax_backward(self.raw(), out.raw(), axis, grad_out.raw(), grad_x.raw()) })
    }

    /// [`Context::log_softmax_backward`] in place of what the loss changes by.
    pub fn log_softmax_backward_in_place<'a>(
        &self,
        out: impl Into<Tensor<'a>>,
        axis: i32,
        grad: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (out, grad) = (out.into(), grad.into());
        check(unsafe { sys::fovea_log_softmax_backward(self.raw(), out.raw(), axis, grad.raw(), grad.raw()) })
    }

    /// The backward pass of [`Context::layer_norm`]: `x` and `options` as there, but for what it returned beside `out`,
    /// which is not looked at.
    pub fn layer_norm_backward<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        options: LayerNormOptions<'_>,
        gradients: NormGradients<'_>,
    ) -> Result<()> {
        let (x, options, gradients) = (x.into(), options.raw(), gradients.raw());
        check(unsafe { sys::fovea_layer_norm_backward(self.raw(), x.raw(), &options, &gradients) })
    }

    /// [`Context::layer_norm_backward`] in place: `grad` is the gradient of `out`, and becomes that of `x`.
    pub fn layer_norm_backward_in_place<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        grad: impl Into<TensorMut<'a>>,
        options: LayerNormOptions<'_>,
        gradients: NormGradients<'_>,
    ) -> Result<()> {
        let (x, grad, options) = (x.into(), grad.into(), options.raw());
        let gradients = sys::fovea_norm_gradients { out: grad.raw(), x: grad.raw(), ..gradients.raw() };
        check(unsafe { sys::fovea_layer_norm_backward(self.raw(), x.raw(), &options, &gradients) })
    }

    /// [`Context::layer_norm_backward`] added up: `grad` is the gradient of `options.sum`, and becomes that of `x`, as on the
    /// way back along a residual stream.
    pub fn layer_norm_backward_add<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        grad: impl Into<TensorMut<'a>>,
        options: LayerNormOptions<'_>,
        gradients: NormGradients<'_>,
    ) -> Result<()> {
        let (x, grad, options) = (x.into(), grad.into(), options.raw());
        let gradients = sys::fovea_norm_gradients { sum: grad.raw(), x: grad.raw(), ..gradients.raw() };
        check(unsafe { sys::fovea_layer_norm_backward(self.raw(), x.raw(), &options, &gradients) })
    }

    /// The backward pass of [`Context::rms_norm`], as [`Context::layer_norm_backward`] is of its own.
    pub fn rms_norm_backward<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        options: RmsNormOptions<'_>,
        gradients: NormGradients<'_>,
    ) -> Result<()> {
        let (x, options, gradients) = (x.into(), options.raw(), gradients.raw());
        check(unsafe { sys::fovea_rms_norm_backward(self.raw(), x.raw(), &options, &gradients) })
    }

    /// [`Context::rms_norm_backward`] in place: `grad` is the gradient of `out`, and becomes that of `x`.
    pub fn rms_norm_backward_in_place<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        grad: impl Into<TensorMut<'a>>,
        options: RmsNormOptions<'_>,
        gradients: NormGradients<'_>,
    ) -> Result<()> {
        let (x, grad, options) = (x.into(), grad.into(), options.raw());
        let gradients = sys::fovea_norm_gradients { out: grad.raw(), x: grad.raw(), ..gradients.raw() };
        check(unsafe { sys::fovea_rms_norm_backward(self.raw(), x.raw(), &options, &gradients) })
    }

    /// [`Context::rms_norm_backward`] added up: `grad` is the gradient of `options.sum`, and becomes that of `x`.
    pub fn rms_norm_backward_add<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        grad: impl Into<TensorMut<'a>>,
        options: RmsNormOptions<'_>,
        gradients: NormGradients<'_>,
    ) -> Result<()> {
        let (x, grad, options) = (x.into(), grad.into(), options.raw());
        let gradients = sys::fovea_norm_gradients { sum: grad.raw(), x: grad.raw(), ..gradients.raw() };
        check(unsafe { sys::fovea_rms_norm_backward(self.raw(), x.raw(), &options, &gradients) })
    }

    /// The backward pass of [`Context::linear`], with the weight as the model has it; the residual's gradient is that of
    /// `out`.
    ///
    /// ```
    /// use fovea::{Context, LinearGradients, LinearOptions, Tensor, TensorMut, WeightLayout};
    ///
    /// let (x, weight, ones) = ([1.0f32, 2.0], [3.0f32, 4.0, 5.0, 6.0], [1.0f32, 1.0]);
    /// let (mut grad_x, mut grad_weight) = ([0.0f32; 2], [0.0f32; 4]);
    /// let gradients = LinearGradients::new()
    ///     .out(Tensor::new(&ones, [1, 2])?)
    ///     .x(TensorMut::new(&mut grad_x, [1, 2])?)
    ///     .weight(TensorMut::new(&mut grad_weight, [2, 2])?);
    /// let (x, weight) = (Tensor::new(&x, [1, 2])?, Tensor::new(&weight, [2, 2])?);
    /// Context::default().linear_backward(x, weight, WeightLayout::OutIn, LinearOptions::new(), gradients)?;
    /// assert_eq!(grad_x, [8.0, 10.0]);
    /// assert_eq!(grad_weight, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), fovea::Error>(())
    /// ```
    pub fn linear_backward<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        weight: impl Into<Tensor<'a>>,
        layout: WeightLayout,
        options: LinearOptions<'_>,
        gradients: LinearGradients<'_>,
    ) -> Result<()> {
        let (x, weight, options, gradients) = (x.into(), weight.into(), options.raw(), gradients.raw());
        check(unsafe {
            sys::fovea_linear_backward(self.raw(), x.raw(), weight.raw(), layout as i32, &options, &gradients)
        })
    }

    /// The backward pass of [`Context::merge_states`].
    pub fn merge_states_backward<'a>(
        &self,
        outs: impl Into<Tensor<'a>>,
        lses: impl Into<Tensor<'a>>,
        gradients: MergeGradients<'_>,
    ) -> Result<()> {
        let (outs, lses) = (outs.into(), lses.into());
        check(unsafe { sys::fovea_merge_states_backward(self.raw(), outs.raw(), lses.raw(), &gradients.raw()) })
    }

    /// The backward pass of [`Context::multi_head_attention`], with the weights as the model has them. The forward pass is
    /// computed again: nothing of it needs to be kept.
    pub fn multi_head_attention_backward<'a>(
        &self,
        parameters: &MhaParameters<'_>,
        query: impl Into<Tensor<'a>>,
        key: Option<Tensor<'a>>,
        value: Option<Tensor<'a>>,
        options: MhaOptions<'_>,
        gradients: MhaGradients<'_>,
    ) -> Result<()> {
        let (query, parameters) = (query.into(), parameters.raw()?);
        let (key, value) = (pointer(&key), pointer(&value));
        options.with_raw(|options| {
            gradients.with_raw(|gradients| {
                check(unsafe {
                    let query = query.raw();
                    sys::fovea_multi_head_attention_backward(
                        self.raw(),
                        &parameters,
                        query,
                        key,
                        value,
                        options,
                        gradients,
                    )
                })
            })
        })
    }
}
