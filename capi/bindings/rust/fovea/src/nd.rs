//! Tensors of ndarray's arrays and views, of any strides.
use crate::tensor::Element;
use crate::{sys, Tensor, TensorMut};
use ndarray::{ArrayBase, Data, DataMut, Dimension};
use std::os::raw::c_void;

// An array of more axes than a tensor can have gets a rank that every operation refuses.
fn describe(dtype: i32, data: *mut c_void, shape: &[usize], strides: &[isize]) -> sys::fovea_tensor {
    let mut raw = sys::fovea_tensor { data, dtype, rank: -1, shape: [0; 6], strides: [0; 6] };
    if shape.len() <= sys::FOVEA_MAX_RANK {
        raw.rank = shape.len() as i32;
        for axis in 0..shape.len() {
            raw.shape[axis] = shape[axis] as i64;
            raw.strides[axis] = strides[axis] as i64;
        }
    }
    raw
}

impl<'a, T: Element, S: Data<Elem = T>, D: Dimension> From<&'a ArrayBase<S, D>> for Tensor<'a> {
    fn from(array: &'a ArrayBase<S, D>) -> Self {
        unsafe { Tensor::from_raw(describe(T::DTYPE, array.as_ptr() as *mut c_void, array.shape(), array.strides())) }
    }
}

impl<'a, T: Element, S: DataMut<Elem = T>, D: Dimension> From<&'a mut ArrayBase<S, D>> for TensorMut<'a> {
    fn from(array: &'a mut ArrayBase<S, D>) -> Self {
        let data = array.as_mut_ptr() as *mut c_void;
        unsafe { TensorMut::from_raw(describe(T::DTYPE, data, array.shape(), array.strides())) }
    }
}
