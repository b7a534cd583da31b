// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0

#![cfg_attr(rustfmt, rustfmt_skip)]

use fovea_sys::*;
use std::mem::{align_of, size_of, MaybeUninit};
use std::ptr::addr_of;

macro_rules! offset {
    ($type:ty, $member:ident) => {{
        let place = MaybeUninit::<$type>::uninit();
        let base = place.as_ptr();
        unsafe { addr_of!((*base).$member) as usize - base as usize }
    }};
}

#[test]
#[cfg(target_pointer_width = "64")]
fn structs_are_laid_out_as_in_c() {
    assert_eq!((size_of::<fovea_tensor>(), align_of::<fovea_tensor>()), (112, 8));
    assert_eq!(offset!(fovea_tensor, data), 0);
    assert_eq!(offset!(fovea_tensor, dtype), 8);
    assert_eq!(offset!(fovea_tensor, rank), 12);
    assert_eq!(offset!(fovea_tensor, shape), 16);
    assert_eq!(offset!(fovea_tensor, strides), 64);
    assert_eq!((size_of::<fovea_context_options>(), align_of::<fovea_context_options>()), (40, 8));
    assert_eq!(offset!(fovea_context_options, struct_size), 0);
    assert_eq!(offset!(fovea_context_options, max_threads), 8);
    assert_eq!(offset!(fovea_context_options, reserved), 12);
    assert_eq!(offset!(fovea_context_options, max_isa), 16);
    assert_eq!(offset!(fovea_context_options, parallel_for), 24);
    assert_eq!(offset!(fovea_context_options, parallel_for_user), 32);
    assert_eq!((size_of::<fovea_attention_options>(), align_of::<fovea_attention_options>()), (128, 8));
    assert_eq!(offset!(fovea_attention_options, struct_size), 0);
    assert_eq!(offset!(fovea_attention_options, flags), 8);
    assert_eq!(offset!(fovea_attention_options, empty_rows), 12);
    assert_eq!(offset!(fovea_attention_options, scale), 16);
    assert_eq!(offset!(fovea_attention_options, softcap), 20);
    assert_eq!(offset!(fovea_attention_options, query_offset), 24);
    assert_eq!(offset!(fovea_attention_options, window_left), 32);
    assert_eq!(offset!(fovea_attention_options, window_right), 40);
    assert_eq!(offset!(fovea_attention_options, valid_lens), 48);
    assert_eq!(offset!(fovea_attention_options, mask), 56);
    assert_eq!(offset!(fovea_attention_options, bias), 64);
    assert_eq!(offset!(fovea_attention_options, alibi_slopes), 72);
    assert_eq!(offset!(fovea_attention_options, sinks), 80);
    assert_eq!(offset!(fovea_attention_options, log_sum_exp), 88);
    assert_eq!(offset!(fovea_attention_options, weights), 96);
    assert_eq!(offset!(fovea_attention_options, dropout), 104);
    assert_eq!(offset!(fovea_attention_options, reserved), 108);
    assert_eq!(offset!(fovea_attention_options, dropout_seed), 112);
    assert_eq!(offset!(fovea_attention_options, query_offsets), 120);
    assert_eq!((size_of::<fovea_attention_buffers>(), align_of::<fovea_attention_buffers>()), (152, 8));
    assert_eq!(offset!(fovea_attention_buffers, struct_size), 0);
    assert_eq!(offset!(fovea_attention_buffers, query), 8);
    assert_eq!(offset!(fovea_attention_buffers, key), 16);
    assert_eq!(offset!(fovea_attention_buffers, value), 24);
    assert_eq!(offset!(fovea_attention_buffers, out), 32);
    assert_eq!(offset!(fovea_attention_buffers, valid_lens), 40);
    assert_eq!(offset!(fovea_attention_buffers, mask), 48);
    assert_eq!(offset!(fovea_attention_buffers, bias), 56);
    assert_eq!(offset!(fovea_attention_buffers, alibi_slopes), 64);
    assert_eq!(offset!(fovea_attention_buffers, sinks), 72);
    assert_eq!(offset!(fovea_attention_buffers, log_sum_exp), 80);
    assert_eq!(offset!(fovea_attention_buffers, weights), 88);
    assert_eq!(offset!(fovea_attention_buffers, query_weight), 96);
    assert_eq!(offset!(fovea_attention_buffers, key_weight), 104);
    assert_eq!(offset!(fovea_attention_buffers, weight), 112);
    assert_eq!(offset!(fovea_attention_buffers, score_bias), 120);
    assert_eq!(offset!(fovea_attention_buffers, score_vector), 128);
    assert_eq!(offset!(fovea_attention_buffers, sigmas), 136);
    assert_eq!(offset!(fovea_attention_buffers, query_offsets), 144);
    assert_eq!((size_of::<fovea_score>(), align_of::<fovea_score>()), (64, 8));
    assert_eq!(offset!(fovea_score, struct_size), 0);
    assert_eq!(offset!(fovea_score, kind), 8);
    assert_eq!(offset!(fovea_score, sigma), 12);
    assert_eq!(offset!(fovea_score, query_weight), 16);
    assert_eq!(offset!(fovea_score, key_weight), 24);
    assert_eq!(offset!(fovea_score, weight), 32);
    assert_eq!(offset!(fovea_score, bias), 40);
    assert_eq!(offset!(fovea_score, score_vector), 48);
    assert_eq!(offset!(fovea_score, sigmas), 56);
    assert_eq!((size_of::<fovea_kernel_regression_options>(), align_of::<fovea_kernel_regression_options>()), (24, 8));
    assert_eq!(offset!(fovea_kernel_regression_options, struct_size), 0);
    assert_eq!(offset!(fovea_kernel_regression_options, flags), 8);
    assert_eq!(offset!(fovea_kernel_regression_options, sigma), 12);
    assert_eq!(offset!(fovea_kernel_regression_options, weights), 16);
    assert_eq!((size_of::<fovea_masked_softmax_options>(), align_of::<fovea_masked_softmax_options>()), (16, 8));
    assert_eq!(offset!(fovea_masked_softmax_options, struct_size), 0);
    assert_eq!(offset!(fovea_masked_softmax_options, empty_rows), 8);
    assert_eq!(offset!(fovea_masked_softmax_options, reserved), 12);
    assert_eq!((size_of::<fovea_positional_encoding_options>(), align_of::<fovea_positional_encoding_options>()), (32, 8));
    assert_eq!(offset!(fovea_positional_encoding_options, struct_size), 0);
    assert_eq!(offset!(fovea_positional_encoding_options, base), 8);
    assert_eq!(offset!(fovea_positional_encoding_options, dropout), 12);
    assert_eq!(offset!(fovea_positional_encoding_options, offset), 16);
    assert_eq!(offset!(fovea_positional_encoding_options, dropout_seed), 24);
    assert_eq!((size_of::<fovea_rotary_options>(), align_of::<fovea_rotary_options>()), (48, 8));
    assert_eq!(offset!(fovea_rotary_options, struct_size), 0);
    assert_eq!(offset!(fovea_rotary_options, flags), 8);
    assert_eq!(offset!(fovea_rotary_options, base), 12);
    assert_eq!(offset!(fovea_rotary_options, position_scale), 16);
    assert_eq!(offset!(fovea_rotary_options, reserved), 20);
    assert_eq!(offset!(fovea_rotary_options, rotary_dim), 24);
    assert_eq!(offset!(fovea_rotary_options, offset), 32);
    assert_eq!(offset!(fovea_rotary_options, positions), 40);
    assert_eq!((size_of::<fovea_linear_options>(), align_of::<fovea_linear_options>()), (32, 8));
    assert_eq!(offset!(fovea_linear_options, struct_size), 0);
    assert_eq!(offset!(fovea_linear_options, activation), 8);
    assert_eq!(offset!(fovea_linear_options, reserved), 12);
    assert_eq!(offset!(fovea_linear_options, bias), 16);
    assert_eq!(offset!(fovea_linear_options, residual), 24);
    assert_eq!((size_of::<fovea_layer_norm_options>(), align_of::<fovea_layer_norm_options>()), (40, 8));
    assert_eq!(offset!(fovea_layer_norm_options, struct_size), 0);
    assert_eq!(offset!(fovea_layer_norm_options, epsilon), 8);
    assert_eq!(offset!(fovea_layer_norm_options, reserved), 12);
    assert_eq!(offset!(fovea_layer_norm_options, weight), 16);
    assert_eq!(offset!(fovea_layer_norm_options, bias), 24);
    assert_eq!(offset!(fovea_layer_norm_options, residual), 32);
    assert_eq!((size_of::<fovea_kv_cache_sizes>(), align_of::<fovea_kv_cache_sizes>()), (48, 8));
    assert_eq!(offset!(fovea_kv_cache_sizes, struct_size), 0);
    assert_eq!(offset!(fovea_kv_cache_sizes, batch), 8);
    assert_eq!(offset!(fovea_kv_cache_sizes, kv_heads), 16);
    assert_eq!(offset!(fovea_kv_cache_sizes, capacity), 24);
    assert_eq!(offset!(fovea_kv_cache_sizes, head_dim), 32);
    assert_eq!(offset!(fovea_kv_cache_sizes, value_dim), 40);
    assert_eq!((size_of::<fovea_mha_parameters>(), align_of::<fovea_mha_parameters>()), (112, 8));
    assert_eq!(offset!(fovea_mha_parameters, struct_size), 0);
    assert_eq!(offset!(fovea_mha_parameters, layout), 8);
    assert_eq!(offset!(fovea_mha_parameters, reserved), 12);
    assert_eq!(offset!(fovea_mha_parameters, heads), 16);
    assert_eq!(offset!(fovea_mha_parameters, kv_heads), 24);
    assert_eq!(offset!(fovea_mha_parameters, query_weight), 32);
    assert_eq!(offset!(fovea_mha_parameters, key_weight), 40);
    assert_eq!(offset!(fovea_mha_parameters, value_weight), 48);
    assert_eq!(offset!(fovea_mha_parameters, in_weight), 56);
    assert_eq!(offset!(fovea_mha_parameters, out_weight), 64);
    assert_eq!(offset!(fovea_mha_parameters, query_bias), 72);
    assert_eq!(offset!(fovea_mha_parameters, key_bias), 80);
    assert_eq!(offset!(fovea_mha_parameters, value_bias), 88);
    assert_eq!(offset!(fovea_mha_parameters, in_bias), 96);
    assert_eq!(offset!(fovea_mha_parameters, out_bias), 104);
    assert_eq!((size_of::<fovea_mha_options>(), align_of::<fovea_mha_options>()), (48, 8));
    assert_eq!(offset!(fovea_mha_options, struct_size), 0);
    assert_eq!(offset!(fovea_mha_options, flags), 8);
    assert_eq!(offset!(fovea_mha_options, reserved), 12);
    assert_eq!(offset!(fovea_mha_options, attention), 16);
    assert_eq!(offset!(fovea_mha_options, score), 24);
    assert_eq!(offset!(fovea_mha_options, rotary), 32);
    assert_eq!(offset!(fovea_mha_options, cache), 40);
}
