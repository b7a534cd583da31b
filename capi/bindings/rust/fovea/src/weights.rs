//! Weights packed once, in the order the kernels read them: immutable, shareable between threads.
use crate::error::check;
use crate::tensor::sealed::Raw;
use crate::*;
use std::ptr::null_mut;
use std::sync::Arc;

/// A right-hand side of products, packed once.
pub struct PackedMatrix(*mut sys::fovea_packed_matrix);

/// The weights of a multi-head attention layer, packed once. Clones are the same weights.
#[derive(Clone)]
pub struct MhaWeights(Arc<Packed>);

struct Packed(*mut sys::fovea_mha_weights);

// Immutable once made.
unsafe impl Send for PackedMatrix {}
unsafe impl Sync for PackedMatrix {}
unsafe impl Send for Packed {}
unsafe impl Sync for Packed {}

impl PackedMatrix {
    /// Packs b `[K, N]` for [`Context::matmul_packed`].
    pub fn new<'a>(context: &Context, b: impl Into<Tensor<'a>>, options: MatmulPackOptions) -> Result<Self> {
        let (b, mut packed) = (b.into(), null_mut());
        check(unsafe { sys::fovea_matmul_pack(context.raw(), b.raw(), &options.raw(), &mut packed) })?;
        Ok(PackedMatrix(packed))
    }

    /// Packs a weight, `[out, in]` unless the options say otherwise, for [`Context::linear`].
    pub fn linear<'a>(context: &Context, weight: impl Into<Tensor<'a>>, options: LinearPackOptions) -> Result<Self> {
        let (weight, mut packed) = (weight.into(), null_mut());
        check(unsafe { sys::fovea_linear_pack(context.raw(), weight.raw(), &options.raw(), &mut packed) })?;
        Ok(PackedMatrix(packed))
    }

    pub(crate) fn raw(&self) -> *const sys::fovea_packed_matrix {
        self.0
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        unsafe { sys::fovea_packed_matrix_size(self.0) }
    }
}

impl Drop for PackedMatrix {
    fn drop(&mut self) {
        unsafe { sys::fovea_packed_matrix_destroy(self.0) }
    }
}

impl MhaWeights {
    pub fn new(context: &Context, parameters: &MhaParameters<'_>) -> Result<Self> {
        let mut weights = null_mut();
        check(unsafe { sys::fovea_mha_weights_create(context.raw(), &parameters.raw()?, &mut weights) })?;
        Ok(MhaWeights(Arc::new(Packed(weights))))
    }

    pub(crate) fn raw(&self) -> *const sys::fovea_mha_weights {
        self.0 .0
    }

    /// Bytes held.
    pub fn size(&self) -> usize {
        unsafe { sys::fovea_mha_weights_size(self.raw()) }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        unsafe { sys::fovea_mha_weights_destroy(self.0) }
    }
}
