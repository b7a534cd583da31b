//! Attention and the building blocks, as methods of [`Context`].
use crate::error::check;
use crate::tensor::sealed::Raw;
use crate::*;
use std::ptr::null;

/// A view that outlives the expression it is handed over in.
pub(crate) fn pointer(tensor: &Option<Tensor<'_>>) -> *const sys::fovea_tensor {
    tensor.as_ref().map_or(null(), |tensor| tensor.raw())
}

impl Context {
    /// Scaled dot-product attention, `softmax(score) value`.
    pub fn sdpa<'a>(
        &self,
        query: impl Into<Tensor<'a>>,
        key: impl Into<Tensor<'a>>,
        value: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: AttentionOptions<'_>,
    ) -> Result<()> {
        let (query, key, value, out) = (query.into(), key.into(), value.into(), out.into());
        check(unsafe { sys::fovea_sdpa(self.raw(), query.raw(), key.raw(), value.raw(), out.raw(), &options.raw()) })
    }

    /// Attention with any score function.
    pub fn attention<'a>(
        &self,
        score: &Score<'_>,
        query: impl Into<Tensor<'a>>,
        key: impl Into<Tensor<'a>>,
        value: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: AttentionOptions<'_>,
    ) -> Result<()> {
        let (query, key, value, out) = (query.into(), key.into(), value.into(), out.into());
        check(unsafe {
            let (query, key, value, out) = (query.raw(), key.raw(), value.raw(), out.raw());
            sys::fovea_attention(self.raw(), &score.raw(), query, key, value, out, &options.raw())
        })
    }

    /// The backward pass of [`Context::attention`]: `out` and `options.log_sum_exp` are what that call gave, and stay as they
    /// are; `gradients` has what the loss changes by for each element of `out`, and what is wanted.
    ///
    /// ```
    /// use fovea::{AttentionGradients, AttentionOptions, Context, Score, Tensor, TensorMut};
    ///
    /// let context = Context::default();
    /// let (x, ones) = (vec![1.0f32; 40], vec![1.0f32; 40]);
    /// let (mut out, mut lse, mut grad) = (vec![0.0f32; 40], vec![0.0f32; 10], vec![0.0f32; 40]);
    /// let input = || Tensor::new(&x, [1, 2, 5, 4]);
    /// context.attention(&Score::new(), input()?, input()?, input()?, TensorMut::new(&mut out, [1, 2, 5, 4])?,
    ///     AttentionOptions::new().log_sum_exp(TensorMut::new(&mut lse, [1, 2, 5])?))?;
    /// let gradients = AttentionGradients::new()
    ///     .out(Tensor::new(&ones, [1, 2, 5, 4])?)
    ///     .value(TensorMut::new(&mut grad, [1, 2, 5, 4])?);
    /// let options = AttentionOptions::new().log_sum_exp(TensorMut::new(&mut lse, [1, 2, 5])?);
    /// context.attention_backward(&Score::new(), input()?, input()?, input()?, Tensor::new(&out, [1, 2, 5, 4])?, options,
    ///     gradients)?;
    /// assert!(grad.iter().all(|x| (x - 1.0).abs() < 1e-6));
    /// # Ok::<(), fovea::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)] // those of the forward call, and the gradients
    pub fn attention_backward<'a>(
        &self,
        score: &Score<'_>,
        query: impl Into<Tensor<'a>>,
        key: impl Into<Tensor<'a>>,
        value: impl Into<Tensor<'a>>,
        out: impl Into<Tensor<'a>>,
        options: AttentionOptions<'_>,
        gradients: AttentionGradients<'_>,
    ) -> Result<()> {
        let (query, key, value, out) = (query.into(), key.into(), value.into(), out.into());
        check(unsafe {
            let (query, key, value, out) = (query.raw(), key.raw(), value.raw(), out.raw());
            let (score, options, gradients) = (score.raw(), options.raw(), gradients.raw());
            sys::fovea_attention_backward(self.raw(), &score, query, key, value, out, &options, &gradients)
        })
    }

    /// Attention over prepared keys: `value` has as many rows as they hold.
    pub fn attention_prepared<'a>(
        &self,
        query: impl Into<Tensor<'a>>,
        keys: &PreparedKeys,
        value: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: AttentionOptions<'_>,
    ) -> Result<()> {
        let (query, value, out) = (query.into(), value.into(), out.into());
        keys.read(|keys| {
            check(unsafe {
                let (query, value, out) = (query.raw(), value.raw(), out.raw());
                sys::fovea_attention_prepared(self.raw(), query, keys, value, out, &options.raw())
            })
        })
    }

    /// Nadaraya-Watson regression with a Gaussian kernel.
    pub fn kernel_regression<'a>(
        &self,
        queries: impl Into<Tensor<'a>>,
        inputs: impl Into<Tensor<'a>>,
        targets: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: KernelRegressionOptions<'_>,
    ) -> Result<()> {
        let (queries, inputs, targets, out) = (queries.into(), inputs.into(), targets.into(), out.into());
        check(unsafe {
            let (queries, inputs, targets, out) = (queries.raw(), inputs.raw(), targets.raw(), out.raw());
            sys::fovea_kernel_regression(self.raw(), queries, inputs, targets, out, &options.raw())
        })
    }

    /// Attention over all keys from attention over disjoint parts of them.
    pub fn merge_states<'a>(
        &self,
        outs: impl Into<Tensor<'a>>,
        lses: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        log_sum_exp: Option<TensorMut<'a>>,
    ) -> Result<()> {
        let (outs, lses, out) = (outs.into(), lses.into(), out.into());
        let log_sum_exp = log_sum_exp.as_ref().map_or(null(), |tensor| tensor.raw() as *const _);
        check(unsafe { sys::fovea_merge_states(self.raw(), outs.raw(), lses.raw(), out.raw(), log_sum_exp) })
    }

    /// Softmax over the last axis, of the first `valid_lens` keys of each row; the others are exactly 0.
    pub fn masked_softmax<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        valid_lens: Option<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: MaskedSoftmaxOptions,
    ) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        self.masked(x.raw(), valid_lens, out.raw(), options)
    }

    /// [`Context::masked_softmax`] in place.
    pub fn masked_softmax_in_place<'a>(
        &self,
        x: impl Into<TensorMut<'a>>,
        valid_lens: Option<Tensor<'a>>,
        options: MaskedSoftmaxOptions,
    ) -> Result<()> {
        let x = x.into();
        self.masked(x.raw(), valid_lens, x.raw(), options)
    }

    fn masked(
        &self,
        x: &sys::fovea_tensor,
        valid_lens: Option<Tensor<'_>>,
        out: &sys::fovea_tensor,
        options: MaskedSoftmaxOptions,
    ) -> Result<()> {
        check(unsafe { sys::fovea_masked_softmax(self.raw(), x, pointer(&valid_lens), out, &options.raw()) })
    }

    /// `out = a b`.
    pub fn matmul<'a>(
        &self,
        a: impl Into<Tensor<'a>>,
        b: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (a, b, out) = (a.into(), b.into(), out.into());
        check(unsafe { sys::fovea_matmul(self.raw(), a.raw(), b.raw(), out.raw()) })
    }

    /// `out = alpha a b + beta c`.
    pub fn gemm<'a>(
        &self,
        a: impl Into<Tensor<'a>>,
        b: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: GemmOptions<'_>,
    ) -> Result<()> {
        let (a, b, out) = (a.into(), b.into(), out.into());
        check(unsafe { sys::fovea_gemm(self.raw(), a.raw(), b.raw(), out.raw(), &options.raw()) })
    }

    /// `out = alpha a b + beta out`: [`Context::gemm`] with the output itself as c.
    pub fn gemm_add<'a>(
        &self,
        a: impl Into<Tensor<'a>>,
        b: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        options: GemmOptions<'_>,
    ) -> Result<()> {
        let (a, b, out) = (a.into(), b.into(), out.into());
        let mut options = options.raw();
        options.c = out.raw();
        check(unsafe { sys::fovea_gemm(self.raw(), a.raw(), b.raw(), out.raw(), &options) })
    }

    /// `out = a b` with b packed before.
    pub fn matmul_packed<'a>(
        &self,
        a: impl Into<Tensor<'a>>,
        b: &PackedMatrix,
        out: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (a, out) = (a.into(), out.into());
        check(unsafe { sys::fovea_matmul_packed(self.raw(), a.raw(), b.raw(), out.raw()) })
    }

    /// Softmax over an axis, counted from 0, or from -1 for the last one backwards.
    pub fn softmax<'a>(&self, x: impl Into<Tensor<'a>>, axis: i32, out: impl Into<TensorMut<'a>>) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_softmax(self.raw(), x.raw(), axis, out.raw()) })
    }

    /// [`Context::softmax`] in place.
    pub fn softmax_in_place<'a>(&self, x: impl Into<TensorMut<'a>>, axis: i32) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_softmax(self.raw(), x.raw(), axis, x.raw()) })
    }

    /// The logarithm of [`Context::softmax`].
    pub fn log_softmax<'a>(&self, x: impl Into<Tensor<'a>>, axis: i32, out: impl Into<TensorMut<'a>>) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_log_softmax(self.raw(), x.raw(), axis, out.raw()) })
    }

    /// [`Context::log_softmax`] in place.
    pub fn log_softmax_in_place<'a>(&self, x: impl Into<TensorMut<'a>>, axis: i32) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_log_softmax(self.raw(), x.raw(), axis, x.raw()) })
    }

    /// Rows as 8-bit numbers with a scale of 16 bits for each group of features, as many as `scales` has in a row; or, into
    /// [`FourBits`](crate::FourBits), as 4-bit numbers, with a scale and a least number for each group.
    pub fn quantize<'a>(
        &self,
        x: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
        scales: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (x, out, scales) = (x.into(), out.into(), scales.into());
        check(unsafe { sys::fovea_quantize(self.raw(), x.raw(), out.raw(), scales.raw()) })
    }

    /// What [`Context::quantize`] made, as numbers: `out = q scale`, of 4 bits `out = q scale + least`.
    pub fn dequantize<'a>(
        &self,
        q: impl Into<Tensor<'a>>,
        scales: impl Into<Tensor<'a>>,
        out: impl Into<TensorMut<'a>>,
    ) -> Result<()> {
        let (q, scales, out) = (q.into(), scales.into(), out.into());
        check(unsafe { sys::fovea_dequantize(self.raw(), q.raw(), scales.raw(), out.raw()) })
    }

    /// `out = e^x`, element by element.
    pub fn exp<'a>(&self, x: impl Into<Tensor<'a>>, out: impl Into<TensorMut<'a>>) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_exp(self.raw(), x.raw(), out.raw()) })
    }

    /// [`Context::exp`] in place.
    pub fn exp_in_place<'a>(&self, x: impl Into<TensorMut<'a>>) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_exp(self.raw(), x.raw(), x.raw()) })
    }

    /// `out = tanh x`, element by element.
    pub fn tanh<'a>(&self, x: impl Into<Tensor<'a>>, out: impl Into<TensorMut<'a>>) -> Result<()> {
        let (x, out) = (x.into(), out.into());
        check(unsafe { sys::fovea_tanh(self.raw(), x.raw(), out.raw()) })
    }

    /// [`Context::tanh`] in place.
    pub fn tanh_in_place<'a>(&self, x: impl Into<TensorMut<'a>>) -> Result<()> {
        let x = x.into();
        check(unsafe { sys::fovea_tanh(self.raw(), x.raw(), x.raw()) })
    }
}

/// The slopes of ALiBi, one for each of `out`'s heads.
pub fn alibi_slopes<'a>(out: impl Into<TensorMut<'a>>) -> Result<()> {
    let out = out.into();
    check(unsafe { sys::fovea_alibi_slopes(out.raw()) })
}

/// Writes the frequencies that a model's configuration asks for, what [`RotaryOptions::frequencies`] takes, one for each
/// pair, and gives its attention factor.
pub fn rotary_frequencies<'a>(
    frequencies: impl Into<TensorMut<'a>>,
    options: RotaryFrequenciesOptions<'_>,
) -> Result<f32> {
    let (frequencies, options, mut factor) = (frequencies.into(), options.raw()?, [1.0f32]);
    let view = TensorMut::from(&mut factor);
    check(unsafe { sys::fovea_rotary_frequencies(frequencies.raw(), view.raw(), &options) })?;
    Ok(factor[0])
}
