// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/** The C functions. Each is looked up at its first call. */
final class Native {
  private Native() {}

  private static final class Version {
    static final MethodHandle CALL = Library.function(
        "fovea_version", FunctionDescriptor.of(ADDRESS));
  }

  static MemorySegment fovea_version() {
    try {
      return (MemorySegment) Version.CALL.invokeExact();
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class StatusName {
    static final MethodHandle CALL = Library.function(
        "fovea_status_name", FunctionDescriptor.of(ADDRESS, JAVA_INT));
  }

  static MemorySegment fovea_status_name(int status) {
    try {
      return (MemorySegment) StatusName.CALL.invokeExact(status);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LastErrorCopy {
    static final MethodHandle CALL = Library.function(
        "fovea_last_error_copy", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG));
  }

  static long fovea_last_error_copy(MemorySegment text, long size) {
    try {
      return (long) LastErrorCopy.CALL.invokeExact(text, size);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ContextCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_context_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
  }

  static int fovea_context_create(MemorySegment options, MemorySegment context) {
    try {
      return (int) ContextCreate.CALL.invokeExact(options, context);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ContextDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_context_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_context_destroy(MemorySegment context) {
    try {
      ContextDestroy.CALL.invokeExact(context);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class IsaName {
    static final MethodHandle CALL = Library.function(
        "fovea_isa_name", FunctionDescriptor.of(ADDRESS, ADDRESS));
  }

  static MemorySegment fovea_isa_name(MemorySegment context) {
    try {
      return (MemorySegment) IsaName.CALL.invokeExact(context);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ContextThreads {
    static final MethodHandle CALL = Library.function(
        "fovea_context_threads", FunctionDescriptor.of(JAVA_INT, ADDRESS));
  }

  static int fovea_context_threads(MemorySegment context) {
    try {
      return (int) ContextThreads.CALL.invokeExact(context);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class IsaAvailable {
    static final MethodHandle CALL = Library.function(
        "fovea_isa_available", FunctionDescriptor.of(ADDRESS, JAVA_INT));
  }

  static MemorySegment fovea_isa_available(int index) {
    try {
      return (MemorySegment) IsaAvailable.CALL.invokeExact(index);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PlanDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_plan_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_plan_destroy(MemorySegment plan) {
    try {
      PlanDestroy.CALL.invokeExact(plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PlanWorkspaceSize {
    static final MethodHandle CALL = Library.function(
        "fovea_plan_workspace_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_plan_workspace_size(MemorySegment plan) {
    try {
      return (long) PlanWorkspaceSize.CALL.invokeExact(plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PlanDescribe {
    static final MethodHandle CALL = Library.function(
        "fovea_plan_describe", FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG));
  }

  static long fovea_plan_describe(MemorySegment plan, MemorySegment text, long size) {
    try {
      return (long) PlanDescribe.CALL.invokeExact(plan, text, size);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Sdpa {
    static final MethodHandle CALL = Library.function(
        "fovea_sdpa", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_sdpa(MemorySegment context, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options) {
    try {
      return (int) Sdpa.CALL.invokeExact(context, query, key, value, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class SdpaPlanCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_sdpa_plan_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_sdpa_plan_create(MemorySegment context, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan) {
    try {
      return (int) SdpaPlanCreate.CALL.invokeExact(context, query, key, value, out, options, plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionRun {
    static final MethodHandle CALL = Library.function(
        "fovea_attention_run", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG));
  }

  static int fovea_attention_run(MemorySegment plan, MemorySegment buffers, MemorySegment workspace, long workspaceSize) {
    try {
      return (int) AttentionRun.CALL.invokeExact(plan, buffers, workspace, workspaceSize);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MergeStates {
    static final MethodHandle CALL = Library.function(
        "fovea_merge_states", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_merge_states(MemorySegment context, MemorySegment outs, MemorySegment lses, MemorySegment out, MemorySegment logSumExp) {
    try {
      return (int) MergeStates.CALL.invokeExact(context, outs, lses, out, logSumExp);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MaskedSoftmax {
    static final MethodHandle CALL = Library.function(
        "fovea_masked_softmax", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_masked_softmax(MemorySegment context, MemorySegment x, MemorySegment validLens, MemorySegment out, MemorySegment options) {
    try {
      return (int) MaskedSoftmax.CALL.invokeExact(context, x, validLens, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Softmax {
    static final MethodHandle CALL = Library.function(
        "fovea_softmax", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS));
  }

  static int fovea_softmax(MemorySegment context, MemorySegment x, int axis, MemorySegment out) {
    try {
      return (int) Softmax.CALL.invokeExact(context, x, axis, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LogSoftmax {
    static final MethodHandle CALL = Library.function(
        "fovea_log_softmax", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS));
  }

  static int fovea_log_softmax(MemorySegment context, MemorySegment x, int axis, MemorySegment out) {
    try {
      return (int) LogSoftmax.CALL.invokeExact(context, x, axis, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Matmul {
    static final MethodHandle CALL = Library.function(
        "fovea_matmul", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_matmul(MemorySegment context, MemorySegment a, MemorySegment b, MemorySegment out) {
    try {
      return (int) Matmul.CALL.invokeExact(context, a, b, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Gemm {
    static final MethodHandle CALL = Library.function(
        "fovea_gemm", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_gemm(MemorySegment context, MemorySegment a, MemorySegment b, MemorySegment out, MemorySegment options) {
    try {
      return (int) Gemm.CALL.invokeExact(context, a, b, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MatmulPack {
    static final MethodHandle CALL = Library.function(
        "fovea_matmul_pack", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_matmul_pack(MemorySegment context, MemorySegment b, MemorySegment options, MemorySegment packed) {
    try {
      return (int) MatmulPack.CALL.invokeExact(context, b, options, packed);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PackedMatrixDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_packed_matrix_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_packed_matrix_destroy(MemorySegment packed) {
    try {
      PackedMatrixDestroy.CALL.invokeExact(packed);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PackedMatrixSize {
    static final MethodHandle CALL = Library.function(
        "fovea_packed_matrix_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_packed_matrix_size(MemorySegment packed) {
    try {
      return (long) PackedMatrixSize.CALL.invokeExact(packed);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MatmulPacked {
    static final MethodHandle CALL = Library.function(
        "fovea_matmul_packed", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_matmul_packed(MemorySegment context, MemorySegment a, MemorySegment b, MemorySegment out) {
    try {
      return (int) MatmulPacked.CALL.invokeExact(context, a, b, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Exp {
    static final MethodHandle CALL = Library.function(
        "fovea_exp", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_exp(MemorySegment context, MemorySegment x, MemorySegment out) {
    try {
      return (int) Exp.CALL.invokeExact(context, x, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Tanh {
    static final MethodHandle CALL = Library.function(
        "fovea_tanh", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_tanh(MemorySegment context, MemorySegment x, MemorySegment out) {
    try {
      return (int) Tanh.CALL.invokeExact(context, x, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Attention {
    static final MethodHandle CALL = Library.function(
        "fovea_attention", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_attention(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options) {
    try {
      return (int) Attention.CALL.invokeExact(context, score, query, key, value, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionPlanCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_attention_plan_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_attention_plan_create(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan) {
    try {
      return (int) AttentionPlanCreate.CALL.invokeExact(context, score, query, key, value, out, options, plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_prepared_keys_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_prepared_keys_create(MemorySegment context, MemorySegment score, MemorySegment sizes, MemorySegment keys) {
    try {
      return (int) PreparedKeysCreate.CALL.invokeExact(context, score, sizes, keys);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysAppend {
    static final MethodHandle CALL = Library.function(
        "fovea_prepared_keys_append", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_prepared_keys_append(MemorySegment context, MemorySegment keys, MemorySegment key) {
    try {
      return (int) PreparedKeysAppend.CALL.invokeExact(context, keys, key);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysTruncate {
    static final MethodHandle CALL = Library.function(
        "fovea_prepared_keys_truncate", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG));
  }

  static int fovea_prepared_keys_truncate(MemorySegment keys, long length) {
    try {
      return (int) PreparedKeysTruncate.CALL.invokeExact(keys, length);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysLength {
    static final MethodHandle CALL = Library.function(
        "fovea_prepared_keys_length", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_prepared_keys_length(MemorySegment keys) {
    try {
      return (long) PreparedKeysLength.CALL.invokeExact(keys);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysSize {
    static final MethodHandle CALL = Library.function(
        "fovea_prepared_keys_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_prepared_keys_size(MemorySegment keys) {
    try {
      return (long) PreparedKeysSize.CALL.invokeExact(keys);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_prepared_keys_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_prepared_keys_destroy(MemorySegment keys) {
    try {
      PreparedKeysDestroy.CALL.invokeExact(keys);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionPrepared {
    static final MethodHandle CALL = Library.function(
        "fovea_attention_prepared", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_attention_prepared(MemorySegment context, MemorySegment query, MemorySegment keys, MemorySegment value, MemorySegment out, MemorySegment options) {
    try {
      return (int) AttentionPrepared.CALL.invokeExact(context, query, keys, value, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionPreparedPlanCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_attention_prepared_plan_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_attention_prepared_plan_create(MemorySegment context, MemorySegment query, MemorySegment keys, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan) {
    try {
      return (int) AttentionPreparedPlanCreate.CALL.invokeExact(context, query, keys, value, out, options, plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KernelRegression {
    static final MethodHandle CALL = Library.function(
        "fovea_kernel_regression", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_kernel_regression(MemorySegment context, MemorySegment queries, MemorySegment inputs, MemorySegment targets, MemorySegment out, MemorySegment options) {
    try {
      return (int) KernelRegression.CALL.invokeExact(context, queries, inputs, targets, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PositionalEncoding {
    static final MethodHandle CALL = Library.function(
        "fovea_positional_encoding", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_positional_encoding(MemorySegment context, MemorySegment out, MemorySegment options) {
    try {
      return (int) PositionalEncoding.CALL.invokeExact(context, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AddPositionalEncoding {
    static final MethodHandle CALL = Library.function(
        "fovea_add_positional_encoding", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_add_positional_encoding(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options) {
    try {
      return (int) AddPositionalEncoding.CALL.invokeExact(context, x, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Rotary {
    static final MethodHandle CALL = Library.function(
        "fovea_rotary", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_rotary(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options) {
    try {
      return (int) Rotary.CALL.invokeExact(context, x, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class RotaryFrequencies {
    static final MethodHandle CALL = Library.function(
        "fovea_rotary_frequencies", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_rotary_frequencies(MemorySegment frequencies, MemorySegment attentionFactor, MemorySegment options) {
    try {
      return (int) RotaryFrequencies.CALL.invokeExact(frequencies, attentionFactor, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AlibiSlopes {
    static final MethodHandle CALL = Library.function(
        "fovea_alibi_slopes", FunctionDescriptor.of(JAVA_INT, ADDRESS));
  }

  static int fovea_alibi_slopes(MemorySegment out) {
    try {
      return (int) AlibiSlopes.CALL.invokeExact(out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Activation {
    static final MethodHandle CALL = Library.function(
        "fovea_activation", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS));
  }

  static int fovea_activation(MemorySegment context, int activation, MemorySegment x, MemorySegment out) {
    try {
      return (int) Activation.CALL.invokeExact(context, activation, x, out);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LinearPack {
    static final MethodHandle CALL = Library.function(
        "fovea_linear_pack", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_linear_pack(MemorySegment context, MemorySegment weight, MemorySegment options, MemorySegment packed) {
    try {
      return (int) LinearPack.CALL.invokeExact(context, weight, options, packed);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Linear {
    static final MethodHandle CALL = Library.function(
        "fovea_linear", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_linear(MemorySegment context, MemorySegment x, MemorySegment weight, MemorySegment out, MemorySegment options) {
    try {
      return (int) Linear.CALL.invokeExact(context, x, weight, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LayerNorm {
    static final MethodHandle CALL = Library.function(
        "fovea_layer_norm", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_layer_norm(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options) {
    try {
      return (int) LayerNorm.CALL.invokeExact(context, x, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class RmsNorm {
    static final MethodHandle CALL = Library.function(
        "fovea_rms_norm", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_rms_norm(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options) {
    try {
      return (int) RmsNorm.CALL.invokeExact(context, x, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS));
  }

  static int fovea_kv_cache_create(MemorySegment sizes, MemorySegment cache) {
    try {
      return (int) KvCacheCreate.CALL.invokeExact(sizes, cache);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_kv_cache_destroy(MemorySegment cache) {
    try {
      KvCacheDestroy.CALL.invokeExact(cache);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheAppend {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_append", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_kv_cache_append(MemorySegment context, MemorySegment cache, MemorySegment key, MemorySegment value) {
    try {
      return (int) KvCacheAppend.CALL.invokeExact(context, cache, key, value);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheAttend {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_attend", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_kv_cache_attend(MemorySegment context, MemorySegment cache, MemorySegment score, MemorySegment query, MemorySegment out, MemorySegment options) {
    try {
      return (int) KvCacheAttend.CALL.invokeExact(context, cache, score, query, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheTruncate {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_truncate", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG));
  }

  static int fovea_kv_cache_truncate(MemorySegment cache, long length) {
    try {
      return (int) KvCacheTruncate.CALL.invokeExact(cache, length);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheReorder {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_reorder", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_kv_cache_reorder(MemorySegment context, MemorySegment cache, MemorySegment source) {
    try {
      return (int) KvCacheReorder.CALL.invokeExact(context, cache, source);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheLength {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_length", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_kv_cache_length(MemorySegment cache) {
    try {
      return (long) KvCacheLength.CALL.invokeExact(cache);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheSize {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_kv_cache_size(MemorySegment cache) {
    try {
      return (long) KvCacheSize.CALL.invokeExact(cache);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheSavedSize {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_saved_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_kv_cache_saved_size(MemorySegment cache) {
    try {
      return (long) KvCacheSavedSize.CALL.invokeExact(cache);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheSave {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_save", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG));
  }

  static int fovea_kv_cache_save(MemorySegment cache, MemorySegment bytes, long size) {
    try {
      return (int) KvCacheSave.CALL.invokeExact(cache, bytes, size);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvCacheRestore {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_cache_restore", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS));
  }

  static int fovea_kv_cache_restore(MemorySegment bytes, long size, long capacity, MemorySegment cache) {
    try {
      return (int) KvCacheRestore.CALL.invokeExact(bytes, size, capacity, cache);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaWeightsCreate {
    static final MethodHandle CALL = Library.function(
        "fovea_mha_weights_create", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_mha_weights_create(MemorySegment context, MemorySegment parameters, MemorySegment weights) {
    try {
      return (int) MhaWeightsCreate.CALL.invokeExact(context, parameters, weights);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaWeightsDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_mha_weights_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_mha_weights_destroy(MemorySegment weights) {
    try {
      MhaWeightsDestroy.CALL.invokeExact(weights);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaWeightsSize {
    static final MethodHandle CALL = Library.function(
        "fovea_mha_weights_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_mha_weights_size(MemorySegment weights) {
    try {
      return (long) MhaWeightsSize.CALL.invokeExact(weights);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MultiHeadAttention {
    static final MethodHandle CALL = Library.function(
        "fovea_multi_head_attention", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_multi_head_attention(MemorySegment context, MemorySegment weights, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options) {
    try {
      return (int) MultiHeadAttention.CALL.invokeExact(context, weights, query, key, value, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MultiHeadAttentionOnce {
    static final MethodHandle CALL = Library.function(
        "fovea_multi_head_attention_once", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
  }

  static int fovea_multi_head_attention_once(MemorySegment context, MemorySegment parameters, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options) {
    try {
      return (int) MultiHeadAttentionOnce.CALL.invokeExact(context, parameters, query, key, value, out, options);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }
}
