/* The numbers a compiled caller depends on: values of constants, sizes and offsets of structs (LP64). They may grow at
 * the end, and never change. */
#include <fovea/fovea.h>

#define VALUE(name, number) _Static_assert((name) == (number), #name " changed")
#define OFFSET(type, member, number) _Static_assert(offsetof(type, member) == (number), #type "." #member " moved")
#define SIZE(type, number) _Static_assert(sizeof(type) == (number), #type " changed its size")

SIZE(fovea_status, 4);
VALUE(FOVEA_OK, 0);
VALUE(FOVEA_NULL_POINTER, 1);
VALUE(FOVEA_BAD_RANK, 2);
VALUE(FOVEA_BAD_SHAPE, 3);
VALUE(FOVEA_BAD_STRIDE, 4);
VALUE(FOVEA_BAD_DTYPE, 5);
VALUE(FOVEA_BAD_VALUE, 6);
VALUE(FOVEA_BAD_OPTION, 7);
VALUE(FOVEA_OVERLAP, 8);
VALUE(FOVEA_SIZE_OVERFLOW, 9);
VALUE(FOVEA_WORKSPACE_TOO_SMALL, 10);
VALUE(FOVEA_OUT_OF_MEMORY, 11);
VALUE(FOVEA_UNKNOWN_ISA, 12);
VALUE(FOVEA_INTERNAL_ERROR, 13);
VALUE(FOVEA_POOL_EXHAUSTED, 14);

SIZE(fovea_dtype, 4);
VALUE(FOVEA_F32, 1);
VALUE(FOVEA_F16, 2);
VALUE(FOVEA_BF16, 3);
VALUE(FOVEA_I32, 5);
VALUE(FOVEA_I64, 6);
VALUE(FOVEA_BOOL, 7);
VALUE(FOVEA_I8, 8);
VALUE(FOVEA_U8, 9);
VALUE(FOVEA_F8_E4M3, 10);
VALUE(FOVEA_F8_E5M2, 11);
VALUE(FOVEA_MAX_RANK, 6);

VALUE(FOVEA_EMPTY_ROWS_ZERO, 0);
VALUE(FOVEA_EMPTY_ROWS_UNIFORM, 1);
VALUE(FOVEA_EMPTY_ROWS_NAN, 2);
VALUE(FOVEA_SCORES_RAW, 0);
VALUE(FOVEA_SCORES_CAPPED, 1);
VALUE(FOVEA_SCORES_LOGITS, 2);

VALUE(FOVEA_CAUSAL, 1);
VALUE(FOVEA_TOP_LEFT, 2);
VALUE(FOVEA_QUERY_OFFSET, 4);
VALUE(FOVEA_WINDOW_LEFT, 8);
VALUE(FOVEA_WINDOW_RIGHT, 16);
VALUE(FOVEA_LEAVE_ONE_OUT, 32);
VALUE(FOVEA_AVERAGE_WEIGHTS, 64);

VALUE(FOVEA_SCORE_DOT, 0);
VALUE(FOVEA_SCORE_BILINEAR, 1);
VALUE(FOVEA_SCORE_ADDITIVE, 2);
VALUE(FOVEA_SCORE_CONCAT, 3);
VALUE(FOVEA_SCORE_GAUSSIAN, 4);

VALUE(FOVEA_ROTARY_INTERLEAVED, 1);
VALUE(FOVEA_ROTARY_INVERSE, 2);
VALUE(FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN, 32);
VALUE(FOVEA_FREQUENCIES_PLAIN, 0);
VALUE(FOVEA_FREQUENCIES_LINEAR, 1);
VALUE(FOVEA_FREQUENCIES_DYNAMIC, 2);
VALUE(FOVEA_FREQUENCIES_YARN, 3);
VALUE(FOVEA_FREQUENCIES_LONGROPE, 4);
VALUE(FOVEA_FREQUENCIES_LLAMA3, 5);
VALUE(FOVEA_YARN_UNROUNDED, 1);

#if defined(__LP64__)
SIZE(fovea_tensor, 112);
OFFSET(fovea_tensor, data, 0);
OFFSET(fovea_tensor, dtype, 8);
OFFSET(fovea_tensor, rank, 12);
OFFSET(fovea_tensor, shape, 16);
OFFSET(fovea_tensor, strides, 64);

SIZE(fovea_context_options, 40);
OFFSET(fovea_context_options, struct_size, 0);
OFFSET(fovea_context_options, max_threads, 8);
OFFSET(fovea_context_options, precision, 12);
OFFSET(fovea_context_options, max_isa, 16);
OFFSET(fovea_context_options, parallel_for, 24);
OFFSET(fovea_context_options, parallel_for_user, 32);

SIZE(fovea_attention_options, 176);
OFFSET(fovea_attention_options, struct_size, 0);
OFFSET(fovea_attention_options, flags, 8);
OFFSET(fovea_attention_options, empty_rows, 12);
OFFSET(fovea_attention_options, scale, 16);
OFFSET(fovea_attention_options, softcap, 20);
OFFSET(fovea_attention_options, query_offset, 24);
OFFSET(fovea_attention_options, window_left, 32);
OFFSET(fovea_attention_options, window_right, 40);
OFFSET(fovea_attention_options, valid_lens, 48);
OFFSET(fovea_attention_options, mask, 56);
OFFSET(fovea_attention_options, bias, 64);
OFFSET(fovea_attention_options, alibi_slopes, 72);
OFFSET(fovea_attention_options, sinks, 80);
OFFSET(fovea_attention_options, log_sum_exp, 88);
OFFSET(fovea_attention_options, weights, 96);
OFFSET(fovea_attention_options, dropout, 104);
OFFSET(fovea_attention_options, reserved, 108);
OFFSET(fovea_attention_options, dropout_seed, 112);
OFFSET(fovea_attention_options, query_offsets, 120);
OFFSET(fovea_attention_options, scores, 128);
OFFSET(fovea_attention_options, scores_kind, 136);
OFFSET(fovea_attention_options, precision, 140);
OFFSET(fovea_attention_options, key_scales, 144);
OFFSET(fovea_attention_options, value_scales, 152);
OFFSET(fovea_attention_options, projected_query, 160);
OFFSET(fovea_attention_options, projected_key, 168);

SIZE(fovea_score, 64);
OFFSET(fovea_score, struct_size, 0);
OFFSET(fovea_score, kind, 8);
OFFSET(fovea_score, sigma, 12);
OFFSET(fovea_score, query_weight, 16);
OFFSET(fovea_score, key_weight, 24);
OFFSET(fovea_score, weight, 32);
OFFSET(fovea_score, bias, 40);
OFFSET(fovea_score, score_vector, 48);
OFFSET(fovea_score, sigmas, 56);

SIZE(fovea_prepared_keys_sizes, 56);
OFFSET(fovea_prepared_keys_sizes, struct_size, 0);
OFFSET(fovea_prepared_keys_sizes, batch, 8);
OFFSET(fovea_prepared_keys_sizes, kv_heads, 16);
OFFSET(fovea_prepared_keys_sizes, capacity, 24);
OFFSET(fovea_prepared_keys_sizes, query_dim, 32);
OFFSET(fovea_prepared_keys_sizes, key_dim, 40);
OFFSET(fovea_prepared_keys_sizes, dtype, 48);
OFFSET(fovea_prepared_keys_sizes, reserved, 52);

SIZE(fovea_kv_pool_sizes, 80);
OFFSET(fovea_kv_pool_sizes, struct_size, 0);
OFFSET(fovea_kv_pool_sizes, layers, 8);
OFFSET(fovea_kv_pool_sizes, kv_heads, 16);
OFFSET(fovea_kv_pool_sizes, head_dim, 24);
OFFSET(fovea_kv_pool_sizes, value_dim, 32);
OFFSET(fovea_kv_pool_sizes, positions, 40);
OFFSET(fovea_kv_pool_sizes, page_size, 48);
OFFSET(fovea_kv_pool_sizes, sequences, 56);
OFFSET(fovea_kv_pool_sizes, key_dtype, 64);
OFFSET(fovea_kv_pool_sizes, value_dtype, 68);
OFFSET(fovea_kv_pool_sizes, scale_group, 72);

SIZE(fovea_step, 56);
OFFSET(fovea_step, struct_size, 0);
OFFSET(fovea_step, query_starts, 8);
OFFSET(fovea_step, key_starts, 16);
OFFSET(fovea_step, key_lens, 24);
OFFSET(fovea_step, page_ids, 32);
OFFSET(fovea_step, page_starts, 40);
OFFSET(fovea_step, tree, 48);

SIZE(fovea_matmul_pack_options, 16);
OFFSET(fovea_matmul_pack_options, struct_size, 0);
OFFSET(fovea_matmul_pack_options, flags, 8);
OFFSET(fovea_matmul_pack_options, precision, 12);

SIZE(fovea_linear_pack_options, 16);
OFFSET(fovea_linear_pack_options, struct_size, 0);
OFFSET(fovea_linear_pack_options, layout, 8);
OFFSET(fovea_linear_pack_options, precision, 12);

SIZE(fovea_kernel_regression_options, 24);
OFFSET(fovea_kernel_regression_options, flags, 8);
OFFSET(fovea_kernel_regression_options, sigma, 12);
OFFSET(fovea_kernel_regression_options, weights, 16);

SIZE(fovea_positional_encoding_options, 40);
OFFSET(fovea_positional_encoding_options, base, 8);
OFFSET(fovea_positional_encoding_options, dropout, 12);
OFFSET(fovea_positional_encoding_options, offset, 16);
OFFSET(fovea_positional_encoding_options, dropout_seed, 24);
OFFSET(fovea_positional_encoding_options, flags, 32);
OFFSET(fovea_positional_encoding_options, reserved, 36);

SIZE(fovea_rotary_options, 88);
OFFSET(fovea_rotary_options, flags, 8);
OFFSET(fovea_rotary_options, base, 12);
OFFSET(fovea_rotary_options, position_scale, 16);
OFFSET(fovea_rotary_options, reserved, 20);
OFFSET(fovea_rotary_options, rotary_dim, 24);
OFFSET(fovea_rotary_options, offset, 32);
OFFSET(fovea_rotary_options, positions, 40);
OFFSET(fovea_rotary_options, frequencies, 48);
OFFSET(fovea_rotary_options, sections, 56);
OFFSET(fovea_rotary_options, cosines, 64);
OFFSET(fovea_rotary_options, sines, 72);
OFFSET(fovea_rotary_options, attention_factor, 80);
OFFSET(fovea_rotary_options, reserved_tail, 84);

SIZE(fovea_rotary_frequencies_options, 80);
OFFSET(fovea_rotary_frequencies_options, flags, 8);
OFFSET(fovea_rotary_frequencies_options, kind, 12);
OFFSET(fovea_rotary_frequencies_options, base, 16);
OFFSET(fovea_rotary_frequencies_options, factor, 20);
OFFSET(fovea_rotary_frequencies_options, original_length, 24);
OFFSET(fovea_rotary_frequencies_options, length, 32);
OFFSET(fovea_rotary_frequencies_options, low_frequency_factor, 40);
OFFSET(fovea_rotary_frequencies_options, high_frequency_factor, 44);
OFFSET(fovea_rotary_frequencies_options, fast_rotations, 48);
OFFSET(fovea_rotary_frequencies_options, slow_rotations, 52);
OFFSET(fovea_rotary_frequencies_options, mscale, 56);
OFFSET(fovea_rotary_frequencies_options, mscale_all_dim, 60);
OFFSET(fovea_rotary_frequencies_options, short_factors, 64);
OFFSET(fovea_rotary_frequencies_options, long_factors, 72);

SIZE(fovea_schedule_limits, 40);
OFFSET(fovea_schedule_limits, struct_size, 0);
OFFSET(fovea_schedule_limits, sequences, 8);
OFFSET(fovea_schedule_limits, key_len, 16);
OFFSET(fovea_schedule_limits, page_ids, 24);
OFFSET(fovea_schedule_limits, workers, 32);

SIZE(fovea_append_options, 32);
OFFSET(fovea_append_options, struct_size, 0);
OFFSET(fovea_append_options, rotary, 8);
OFFSET(fovea_append_options, key_scales, 16);
OFFSET(fovea_append_options, value_scales, 24);

SIZE(fovea_mha_options, 88);
OFFSET(fovea_mha_options, struct_size, 0);
OFFSET(fovea_mha_options, flags, 8);
OFFSET(fovea_mha_options, precision, 12);
OFFSET(fovea_mha_options, attention, 16);
OFFSET(fovea_mha_options, score, 24);
OFFSET(fovea_mha_options, rotary, 32);
OFFSET(fovea_mha_options, schedule, 40);
OFFSET(fovea_mha_options, key_pages, 48);
OFFSET(fovea_mha_options, value_pages, 56);
OFFSET(fovea_mha_options, key_scales, 64);
OFFSET(fovea_mha_options, value_scales, 72);
OFFSET(fovea_mha_options, kept, 80);

VALUE(FOVEA_MHA_KEEP_PAGES, 1);

SIZE(fovea_attention_buffers, 312);
OFFSET(fovea_attention_buffers, struct_size, 0);
OFFSET(fovea_attention_buffers, query, 8);
OFFSET(fovea_attention_buffers, key, 16);
OFFSET(fovea_attention_buffers, value, 24);
OFFSET(fovea_attention_buffers, out, 32);
OFFSET(fovea_attention_buffers, valid_lens, 40);
OFFSET(fovea_attention_buffers, mask, 48);
OFFSET(fovea_attention_buffers, bias, 56);
OFFSET(fovea_attention_buffers, alibi_slopes, 64);
OFFSET(fovea_attention_buffers, sinks, 72);
OFFSET(fovea_attention_buffers, log_sum_exp, 80);
OFFSET(fovea_attention_buffers, weights, 88);
OFFSET(fovea_attention_buffers, query_weight, 96);
OFFSET(fovea_attention_buffers, key_weight, 104);
OFFSET(fovea_attention_buffers, weight, 112);
OFFSET(fovea_attention_buffers, score_bias, 120);
OFFSET(fovea_attention_buffers, score_vector, 128);
OFFSET(fovea_attention_buffers, sigmas, 136);
OFFSET(fovea_attention_buffers, query_offsets, 144);
OFFSET(fovea_attention_buffers, scores, 152);
OFFSET(fovea_attention_buffers, key_scales, 160);
OFFSET(fovea_attention_buffers, value_scales, 168);
OFFSET(fovea_attention_buffers, grad_out, 176);
OFFSET(fovea_attention_buffers, grad_log_sum_exp, 184);
OFFSET(fovea_attention_buffers, grad_weights, 192);
OFFSET(fovea_attention_buffers, grad_query, 200);
OFFSET(fovea_attention_buffers, grad_key, 208);
OFFSET(fovea_attention_buffers, grad_value, 216);
OFFSET(fovea_attention_buffers, grad_bias, 224);
OFFSET(fovea_attention_buffers, grad_alibi_slopes, 232);
OFFSET(fovea_attention_buffers, grad_sinks, 240);
OFFSET(fovea_attention_buffers, grad_query_weight, 248);
OFFSET(fovea_attention_buffers, grad_key_weight, 256);
OFFSET(fovea_attention_buffers, grad_weight, 264);
OFFSET(fovea_attention_buffers, grad_score_bias, 272);
OFFSET(fovea_attention_buffers, grad_score_vector, 280);
OFFSET(fovea_attention_buffers, grad_sigmas, 288);
OFFSET(fovea_attention_buffers, projected_query, 296);
OFFSET(fovea_attention_buffers, projected_key, 304);

SIZE(fovea_attention_gradients, 128);
OFFSET(fovea_attention_gradients, struct_size, 0);
OFFSET(fovea_attention_gradients, out, 8);
OFFSET(fovea_attention_gradients, log_sum_exp, 16);
OFFSET(fovea_attention_gradients, weights, 24);
OFFSET(fovea_attention_gradients, query, 32);
OFFSET(fovea_attention_gradients, key, 40);
OFFSET(fovea_attention_gradients, value, 48);
OFFSET(fovea_attention_gradients, bias, 56);
OFFSET(fovea_attention_gradients, alibi_slopes, 64);
OFFSET(fovea_attention_gradients, sinks, 72);
OFFSET(fovea_attention_gradients, query_weight, 80);
OFFSET(fovea_attention_gradients, key_weight, 88);
OFFSET(fovea_attention_gradients, weight, 96);
OFFSET(fovea_attention_gradients, score_bias, 104);
OFFSET(fovea_attention_gradients, score_vector, 112);
OFFSET(fovea_attention_gradients, sigmas, 120);

SIZE(fovea_norm_gradients, 48);
OFFSET(fovea_norm_gradients, struct_size, 0);
OFFSET(fovea_norm_gradients, out, 8);
OFFSET(fovea_norm_gradients, sum, 16);
OFFSET(fovea_norm_gradients, x, 24);
OFFSET(fovea_norm_gradients, weight, 32);
OFFSET(fovea_norm_gradients, bias, 40);

SIZE(fovea_linear_gradients, 48);
OFFSET(fovea_linear_gradients, struct_size, 0);
OFFSET(fovea_linear_gradients, out, 8);
OFFSET(fovea_linear_gradients, x, 16);
OFFSET(fovea_linear_gradients, weight, 24);
OFFSET(fovea_linear_gradients, bias, 32);
OFFSET(fovea_linear_gradients, multiplier, 40);

SIZE(fovea_merge_gradients, 40);
OFFSET(fovea_merge_gradients, struct_size, 0);
OFFSET(fovea_merge_gradients, out, 8);
OFFSET(fovea_merge_gradients, log_sum_exp, 16);
OFFSET(fovea_merge_gradients, outs, 24);
OFFSET(fovea_merge_gradients, lses, 32);

SIZE(fovea_mha_gradients, 128);
OFFSET(fovea_mha_gradients, struct_size, 0);
OFFSET(fovea_mha_gradients, out, 8);
OFFSET(fovea_mha_gradients, query, 16);
OFFSET(fovea_mha_gradients, key, 24);
OFFSET(fovea_mha_gradients, value, 32);
OFFSET(fovea_mha_gradients, query_weight, 40);
OFFSET(fovea_mha_gradients, key_weight, 48);
OFFSET(fovea_mha_gradients, value_weight, 56);
OFFSET(fovea_mha_gradients, in_weight, 64);
OFFSET(fovea_mha_gradients, out_weight, 72);
OFFSET(fovea_mha_gradients, query_bias, 80);
OFFSET(fovea_mha_gradients, key_bias, 88);
OFFSET(fovea_mha_gradients, value_bias, 96);
OFFSET(fovea_mha_gradients, in_bias, 104);
OFFSET(fovea_mha_gradients, out_bias, 112);
OFFSET(fovea_mha_gradients, attention, 120);

SIZE(fovea_masked_softmax_options, 16);
OFFSET(fovea_masked_softmax_options, struct_size, 0);
OFFSET(fovea_masked_softmax_options, empty_rows, 8);
OFFSET(fovea_masked_softmax_options, reserved, 12);
#endif
