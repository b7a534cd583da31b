// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.StructLayout;

/** The C structs, under their names there. */
final class Layouts {
  static final int MAX_RANK = 6;

  private Layouts() {}

  static final class fovea_tensor {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        ADDRESS.withName("data"),
        JAVA_INT.withName("dtype"),
        JAVA_INT.withName("rank"),
        MemoryLayout.sequenceLayout(6, JAVA_LONG).withName("shape"),
        MemoryLayout.sequenceLayout(6, JAVA_LONG).withName("strides"));
    static final long SIZE = LAYOUT.byteSize();
    static final long data = place("data");
    static final long dtype = place("dtype");
    static final long rank = place("rank");
    static final long shape = place("shape");
    static final long strides = place("strides");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_context_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("max_threads"),
        JAVA_INT.withName("precision"),
        ADDRESS.withName("max_isa"),
        ADDRESS.withName("parallel_for"),
        ADDRESS.withName("parallel_for_user"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long max_threads = place("max_threads");
    static final long precision = place("precision");
    static final long max_isa = place("max_isa");
    static final long parallel_for = place("parallel_for");
    static final long parallel_for_user = place("parallel_for_user");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_attention_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("empty_rows"),
        JAVA_FLOAT.withName("scale"),
        JAVA_FLOAT.withName("softcap"),
        JAVA_LONG.withName("query_offset"),
        JAVA_LONG.withName("window_left"),
        JAVA_LONG.withName("window_right"),
        ADDRESS.withName("valid_lens"),
        ADDRESS.withName("mask"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("alibi_slopes"),
        ADDRESS.withName("sinks"),
        ADDRESS.withName("log_sum_exp"),
        ADDRESS.withName("weights"),
        JAVA_FLOAT.withName("dropout"),
        JAVA_INT.withName("reserved"),
        JAVA_LONG.withName("dropout_seed"),
        ADDRESS.withName("query_offsets"),
        ADDRESS.withName("scores"),
        JAVA_INT.withName("scores_kind"),
        JAVA_INT.withName("precision"),
        ADDRESS.withName("key_scales"),
        ADDRESS.withName("value_scales"),
        ADDRESS.withName("projected_query"),
        ADDRESS.withName("projected_key"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long empty_rows = place("empty_rows");
    static final long scale = place("scale");
    static final long softcap = place("softcap");
    static final long query_offset = place("query_offset");
    static final long window_left = place("window_left");
    static final long window_right = place("window_right");
    static final long valid_lens = place("valid_lens");
    static final long mask = place("mask");
    static final long bias = place("bias");
    static final long alibi_slopes = place("alibi_slopes");
    static final long sinks = place("sinks");
    static final long log_sum_exp = place("log_sum_exp");
    static final long weights = place("weights");
    static final long dropout = place("dropout");
    static final long reserved = place("reserved");
    static final long dropout_seed = place("dropout_seed");
    static final long query_offsets = place("query_offsets");
    static final long scores = place("scores");
    static final long scores_kind = place("scores_kind");
    static final long precision = place("precision");
    static final long key_scales = place("key_scales");
    static final long value_scales = place("value_scales");
    static final long projected_query = place("projected_query");
    static final long projected_key = place("projected_key");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_attention_buffers {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("query"),
        ADDRESS.withName("key"),
        ADDRESS.withName("value"),
        ADDRESS.withName("out"),
        ADDRESS.withName("valid_lens"),
        ADDRESS.withName("mask"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("alibi_slopes"),
        ADDRESS.withName("sinks"),
        ADDRESS.withName("log_sum_exp"),
        ADDRESS.withName("weights"),
        ADDRESS.withName("query_weight"),
        ADDRESS.withName("key_weight"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("score_bias"),
        ADDRESS.withName("score_vector"),
        ADDRESS.withName("sigmas"),
        ADDRESS.withName("query_offsets"),
        ADDRESS.withName("scores"),
        ADDRESS.withName("key_scales"),
        ADDRESS.withName("value_scales"),
        ADDRESS.withName("grad_out"),
        ADDRESS.withName("grad_log_sum_exp"),
        ADDRESS.withName("grad_weights"),
        ADDRESS.withName("grad_query"),
        ADDRESS.withName("grad_key"),
        ADDRESS.withName("grad_value"),
        ADDRESS.withName("grad_bias"),
        ADDRESS.withName("grad_alibi_slopes"),
        ADDRESS.withName("grad_sinks"),
        ADDRESS.withName("grad_query_weight"),
        ADDRESS.withName("grad_key_weight"),
        ADDRESS.withName("grad_weight"),
        ADDRESS.withName("grad_score_bias"),
        ADDRESS.withName("grad_score_vector"),
        ADDRESS.withName("grad_sigmas"),
        ADDRESS.withName("projected_query"),
        ADDRESS.withName("projected_key"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long query = place("query");
    static final long key = place("key");
    static final long value = place("value");
    static final long out = place("out");
    static final long valid_lens = place("valid_lens");
    static final long mask = place("mask");
    static final long bias = place("bias");
    static final long alibi_slopes = place("alibi_slopes");
    static final long sinks = place("sinks");
    static final long log_sum_exp = place("log_sum_exp");
    static final long weights = place("weights");
    static final long query_weight = place("query_weight");
    static final long key_weight = place("key_weight");
    static final long weight = place("weight");
    static final long score_bias = place("score_bias");
    static final long score_vector = place("score_vector");
    static final long sigmas = place("sigmas");
    static final long query_offsets = place("query_offsets");
    static final long scores = place("scores");
    static final long key_scales = place("key_scales");
    static final long value_scales = place("value_scales");
    static final long grad_out = place("grad_out");
    static final long grad_log_sum_exp = place("grad_log_sum_exp");
    static final long grad_weights = place("grad_weights");
    static final long grad_query = place("grad_query");
    static final long grad_key = place("grad_key");
    static final long grad_value = place("grad_value");
    static final long grad_bias = place("grad_bias");
    static final long grad_alibi_slopes = place("grad_alibi_slopes");
    static final long grad_sinks = place("grad_sinks");
    static final long grad_query_weight = place("grad_query_weight");
    static final long grad_key_weight = place("grad_key_weight");
    static final long grad_weight = place("grad_weight");
    static final long grad_score_bias = place("grad_score_bias");
    static final long grad_score_vector = place("grad_score_vector");
    static final long grad_sigmas = place("grad_sigmas");
    static final long projected_query = place("projected_query");
    static final long projected_key = place("projected_key");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_masked_softmax_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("empty_rows"),
        JAVA_INT.withName("reserved"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long empty_rows = place("empty_rows");
    static final long reserved = place("reserved");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_gemm_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_FLOAT.withName("alpha"),
        JAVA_FLOAT.withName("beta"),
        JAVA_INT.withName("reserved"),
        ADDRESS.withName("c"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long alpha = place("alpha");
    static final long beta = place("beta");
    static final long reserved = place("reserved");
    static final long c = place("c");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_matmul_pack_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("precision"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long precision = place("precision");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_score {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("kind"),
        JAVA_FLOAT.withName("sigma"),
        ADDRESS.withName("query_weight"),
        ADDRESS.withName("key_weight"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("score_vector"),
        ADDRESS.withName("sigmas"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long kind = place("kind");
    static final long sigma = place("sigma");
    static final long query_weight = place("query_weight");
    static final long key_weight = place("key_weight");
    static final long weight = place("weight");
    static final long bias = place("bias");
    static final long score_vector = place("score_vector");
    static final long sigmas = place("sigmas");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_prepared_keys_sizes {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_LONG.withName("batch"),
        JAVA_LONG.withName("kv_heads"),
        JAVA_LONG.withName("capacity"),
        JAVA_LONG.withName("query_dim"),
        JAVA_LONG.withName("key_dim"),
        JAVA_INT.withName("dtype"),
        JAVA_INT.withName("reserved"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long batch = place("batch");
    static final long kv_heads = place("kv_heads");
    static final long capacity = place("capacity");
    static final long query_dim = place("query_dim");
    static final long key_dim = place("key_dim");
    static final long dtype = place("dtype");
    static final long reserved = place("reserved");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_kernel_regression_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_FLOAT.withName("sigma"),
        ADDRESS.withName("weights"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long sigma = place("sigma");
    static final long weights = place("weights");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_schedule_limits {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_LONG.withName("sequences"),
        JAVA_LONG.withName("key_len"),
        JAVA_LONG.withName("page_ids"),
        JAVA_LONG.withName("workers"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long sequences = place("sequences");
    static final long key_len = place("key_len");
    static final long page_ids = place("page_ids");
    static final long workers = place("workers");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_step {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("query_starts"),
        ADDRESS.withName("key_starts"),
        ADDRESS.withName("key_lens"),
        ADDRESS.withName("page_ids"),
        ADDRESS.withName("page_starts"),
        ADDRESS.withName("tree"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long query_starts = place("query_starts");
    static final long key_starts = place("key_starts");
    static final long key_lens = place("key_lens");
    static final long page_ids = place("page_ids");
    static final long page_starts = place("page_starts");
    static final long tree = place("tree");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_append_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("rotary"),
        ADDRESS.withName("key_scales"),
        ADDRESS.withName("value_scales"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long rotary = place("rotary");
    static final long key_scales = place("key_scales");
    static final long value_scales = place("value_scales");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_kv_pool_sizes {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_LONG.withName("layers"),
        JAVA_LONG.withName("kv_heads"),
        JAVA_LONG.withName("head_dim"),
        JAVA_LONG.withName("value_dim"),
        JAVA_LONG.withName("positions"),
        JAVA_LONG.withName("page_size"),
        JAVA_LONG.withName("sequences"),
        JAVA_INT.withName("key_dtype"),
        JAVA_INT.withName("value_dtype"),
        JAVA_LONG.withName("scale_group"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long layers = place("layers");
    static final long kv_heads = place("kv_heads");
    static final long head_dim = place("head_dim");
    static final long value_dim = place("value_dim");
    static final long positions = place("positions");
    static final long page_size = place("page_size");
    static final long sequences = place("sequences");
    static final long key_dtype = place("key_dtype");
    static final long value_dtype = place("value_dtype");
    static final long scale_group = place("scale_group");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_positional_encoding_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_FLOAT.withName("base"),
        JAVA_FLOAT.withName("dropout"),
        JAVA_LONG.withName("offset"),
        JAVA_LONG.withName("dropout_seed"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("reserved"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long base = place("base");
    static final long dropout = place("dropout");
    static final long offset = place("offset");
    static final long dropout_seed = place("dropout_seed");
    static final long flags = place("flags");
    static final long reserved = place("reserved");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_rotary_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_FLOAT.withName("base"),
        JAVA_FLOAT.withName("position_scale"),
        JAVA_INT.withName("reserved"),
        JAVA_LONG.withName("rotary_dim"),
        JAVA_LONG.withName("offset"),
        ADDRESS.withName("positions"),
        ADDRESS.withName("frequencies"),
        ADDRESS.withName("sections"),
        ADDRESS.withName("cosines"),
        ADDRESS.withName("sines"),
        JAVA_FLOAT.withName("attention_factor"),
        JAVA_INT.withName("reserved_tail"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long base = place("base");
    static final long position_scale = place("position_scale");
    static final long reserved = place("reserved");
    static final long rotary_dim = place("rotary_dim");
    static final long offset = place("offset");
    static final long positions = place("positions");
    static final long frequencies = place("frequencies");
    static final long sections = place("sections");
    static final long cosines = place("cosines");
    static final long sines = place("sines");
    static final long attention_factor = place("attention_factor");
    static final long reserved_tail = place("reserved_tail");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_rotary_frequencies_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("kind"),
        JAVA_FLOAT.withName("base"),
        JAVA_FLOAT.withName("factor"),
        JAVA_LONG.withName("original_length"),
        JAVA_LONG.withName("length"),
        JAVA_FLOAT.withName("low_frequency_factor"),
        JAVA_FLOAT.withName("high_frequency_factor"),
        JAVA_FLOAT.withName("fast_rotations"),
        JAVA_FLOAT.withName("slow_rotations"),
        JAVA_FLOAT.withName("mscale"),
        JAVA_FLOAT.withName("mscale_all_dim"),
        ADDRESS.withName("short_factors"),
        ADDRESS.withName("long_factors"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long kind = place("kind");
    static final long base = place("base");
    static final long factor = place("factor");
    static final long original_length = place("original_length");
    static final long length = place("length");
    static final long low_frequency_factor = place("low_frequency_factor");
    static final long high_frequency_factor = place("high_frequency_factor");
    static final long fast_rotations = place("fast_rotations");
    static final long slow_rotations = place("slow_rotations");
    static final long mscale = place("mscale");
    static final long mscale_all_dim = place("mscale_all_dim");
    static final long short_factors = place("short_factors");
    static final long long_factors = place("long_factors");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_linear_pack_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("layout"),
        JAVA_INT.withName("precision"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long layout = place("layout");
    static final long precision = place("precision");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_linear_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("activation"),
        JAVA_INT.withName("precision"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("residual"),
        ADDRESS.withName("multiplier"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long activation = place("activation");
    static final long precision = place("precision");
    static final long bias = place("bias");
    static final long residual = place("residual");
    static final long multiplier = place("multiplier");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_layer_norm_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_FLOAT.withName("epsilon"),
        JAVA_INT.withName("flags"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("residual"),
        ADDRESS.withName("sum"),
        ADDRESS.withName("mean"),
        ADDRESS.withName("inverse_deviation"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long epsilon = place("epsilon");
    static final long flags = place("flags");
    static final long weight = place("weight");
    static final long bias = place("bias");
    static final long residual = place("residual");
    static final long sum = place("sum");
    static final long mean = place("mean");
    static final long inverse_deviation = place("inverse_deviation");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_rms_norm_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_FLOAT.withName("epsilon"),
        JAVA_INT.withName("flags"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("residual"),
        ADDRESS.withName("sum"),
        ADDRESS.withName("inverse_deviation"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long epsilon = place("epsilon");
    static final long flags = place("flags");
    static final long weight = place("weight");
    static final long residual = place("residual");
    static final long sum = place("sum");
    static final long inverse_deviation = place("inverse_deviation");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_mha_parameters {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("layout"),
        JAVA_INT.withName("precision"),
        JAVA_LONG.withName("heads"),
        JAVA_LONG.withName("kv_heads"),
        ADDRESS.withName("query_weight"),
        ADDRESS.withName("key_weight"),
        ADDRESS.withName("value_weight"),
        ADDRESS.withName("in_weight"),
        ADDRESS.withName("out_weight"),
        ADDRESS.withName("query_bias"),
        ADDRESS.withName("key_bias"),
        ADDRESS.withName("value_bias"),
        ADDRESS.withName("in_bias"),
        ADDRESS.withName("out_bias"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long layout = place("layout");
    static final long precision = place("precision");
    static final long heads = place("heads");
    static final long kv_heads = place("kv_heads");
    static final long query_weight = place("query_weight");
    static final long key_weight = place("key_weight");
    static final long value_weight = place("value_weight");
    static final long in_weight = place("in_weight");
    static final long out_weight = place("out_weight");
    static final long query_bias = place("query_bias");
    static final long key_bias = place("key_bias");
    static final long value_bias = place("value_bias");
    static final long in_bias = place("in_bias");
    static final long out_bias = place("out_bias");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_mha_options {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        JAVA_INT.withName("flags"),
        JAVA_INT.withName("precision"),
        ADDRESS.withName("attention"),
        ADDRESS.withName("score"),
        ADDRESS.withName("rotary"),
        ADDRESS.withName("schedule"),
        ADDRESS.withName("key_pages"),
        ADDRESS.withName("value_pages"),
        ADDRESS.withName("key_scales"),
        ADDRESS.withName("value_scales"),
        ADDRESS.withName("kept"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long flags = place("flags");
    static final long precision = place("precision");
    static final long attention = place("attention");
    static final long score = place("score");
    static final long rotary = place("rotary");
    static final long schedule = place("schedule");
    static final long key_pages = place("key_pages");
    static final long value_pages = place("value_pages");
    static final long key_scales = place("key_scales");
    static final long value_scales = place("value_scales");
    static final long kept = place("kept");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_mha_buffers {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("query"),
        ADDRESS.withName("key"),
        ADDRESS.withName("value"),
        ADDRESS.withName("out"),
        ADDRESS.withName("key_pages"),
        ADDRESS.withName("value_pages"),
        ADDRESS.withName("key_scales"),
        ADDRESS.withName("value_scales"),
        ADDRESS.withName("attention"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long query = place("query");
    static final long key = place("key");
    static final long value = place("value");
    static final long out = place("out");
    static final long key_pages = place("key_pages");
    static final long value_pages = place("value_pages");
    static final long key_scales = place("key_scales");
    static final long value_scales = place("value_scales");
    static final long attention = place("attention");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_attention_gradients {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("out"),
        ADDRESS.withName("log_sum_exp"),
        ADDRESS.withName("weights"),
        ADDRESS.withName("query"),
        ADDRESS.withName("key"),
        ADDRESS.withName("value"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("alibi_slopes"),
        ADDRESS.withName("sinks"),
        ADDRESS.withName("query_weight"),
        ADDRESS.withName("key_weight"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("score_bias"),
        ADDRESS.withName("score_vector"),
        ADDRESS.withName("sigmas"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long out = place("out");
    static final long log_sum_exp = place("log_sum_exp");
    static final long weights = place("weights");
    static final long query = place("query");
    static final long key = place("key");
    static final long value = place("value");
    static final long bias = place("bias");
    static final long alibi_slopes = place("alibi_slopes");
    static final long sinks = place("sinks");
    static final long query_weight = place("query_weight");
    static final long key_weight = place("key_weight");
    static final long weight = place("weight");
    static final long score_bias = place("score_bias");
    static final long score_vector = place("score_vector");
    static final long sigmas = place("sigmas");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_norm_gradients {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("out"),
        ADDRESS.withName("sum"),
        ADDRESS.withName("x"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("bias"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long out = place("out");
    static final long sum = place("sum");
    static final long x = place("x");
    static final long weight = place("weight");
    static final long bias = place("bias");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_linear_gradients {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("out"),
        ADDRESS.withName("x"),
        ADDRESS.withName("weight"),
        ADDRESS.withName("bias"),
        ADDRESS.withName("multiplier"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long out = place("out");
    static final long x = place("x");
    static final long weight = place("weight");
    static final long bias = place("bias");
    static final long multiplier = place("multiplier");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_merge_gradients {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("out"),
        ADDRESS.withName("log_sum_exp"),
        ADDRESS.withName("outs"),
        ADDRESS.withName("lses"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long out = place("out");
    static final long log_sum_exp = place("log_sum_exp");
    static final long outs = place("outs");
    static final long lses = place("lses");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }

  static final class fovea_mha_gradients {
    static final StructLayout LAYOUT = MemoryLayout.structLayout(
        JAVA_LONG.withName("struct_size"),
        ADDRESS.withName("out"),
        ADDRESS.withName("query"),
        ADDRESS.withName("key"),
        ADDRESS.withName("value"),
        ADDRESS.withName("query_weight"),
        ADDRESS.withName("key_weight"),
        ADDRESS.withName("value_weight"),
        ADDRESS.withName("in_weight"),
        ADDRESS.withName("out_weight"),
        ADDRESS.withName("query_bias"),
        ADDRESS.withName("key_bias"),
        ADDRESS.withName("value_bias"),
        ADDRESS.withName("in_bias"),
        ADDRESS.withName("out_bias"),
        ADDRESS.withName("attention"));
    static final long SIZE = LAYOUT.byteSize();
    static final long struct_size = place("struct_size");
    static final long out = place("out");
    static final long query = place("query");
    static final long key = place("key");
    static final long value = place("value");
    static final long query_weight = place("query_weight");
    static final long key_weight = place("key_weight");
    static final long value_weight = place("value_weight");
    static final long in_weight = place("in_weight");
    static final long out_weight = place("out_weight");
    static final long query_bias = place("query_bias");
    static final long key_bias = place("key_bias");
    static final long value_bias = place("value_bias");
    static final long in_bias = place("in_bias");
    static final long out_bias = place("out_bias");
    static final long attention = place("attention");

    private static long place(String member) {
      return LAYOUT.byteOffset(PathElement.groupElement(member));
    }
  }
}
