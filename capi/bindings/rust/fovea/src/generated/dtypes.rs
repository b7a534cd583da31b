// Written by tools/bindings.py from the headers in include/fovea.
// SPDX-License-Identifier: Apache-2.0

use crate::sys;
use crate::tensor::Element;

unsafe impl Element for f32 {
    const DTYPE: i32 = sys::FOVEA_F32;
}

#[cfg(feature = "half")]
unsafe impl Element for half::f16 {
    const DTYPE: i32 = sys::FOVEA_F16;
}

#[cfg(feature = "half")]
unsafe impl Element for half::bf16 {
    const DTYPE: i32 = sys::FOVEA_BF16;
}

unsafe impl Element for i32 {
    const DTYPE: i32 = sys::FOVEA_I32;
}

unsafe impl Element for i64 {
    const DTYPE: i32 = sys::FOVEA_I64;
}

unsafe impl Element for bool {
    const DTYPE: i32 = sys::FOVEA_BOOL;
}

unsafe impl Element for u8 {
    const DTYPE: i32 = sys::FOVEA_BOOL;
}

unsafe impl Element for i8 {
    const DTYPE: i32 = sys::FOVEA_I8;
}

unsafe impl Element for crate::tensor::FourBits {
    const DTYPE: i32 = sys::FOVEA_U8;
}
