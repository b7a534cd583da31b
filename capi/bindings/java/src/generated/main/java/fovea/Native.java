// Written by tools/bindings.py from include/fovea/fovea.h and layers.h.
// SPDX-License-Identifier: Apache-2.0
package fovea;

import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SegmentAllocator;
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
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_context_create", ARGUMENTS);
  }

  private static final class ContextCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_context_create", ContextCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_context_create(MemorySegment options, MemorySegment context, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ContextCreate.CALL.invokeExact(options, context);
      if (pins.length == Pins.FEW) return (int) ContextCreatePinning.CALL.invokeExact(options, context, pins);
      return (int) Library.pinning("fovea_context_create", ContextCreate.ARGUMENTS, pins.length).invokeExact(options, context, pins);
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
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_sdpa", ARGUMENTS);
  }

  private static final class SdpaPinning {
    static final MethodHandle CALL = Library.pinning("fovea_sdpa", Sdpa.ARGUMENTS, Pins.FEW);
  }

  static int fovea_sdpa(MemorySegment context, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Sdpa.CALL.invokeExact(context, query, key, value, out, options);
      if (pins.length == Pins.FEW) return (int) SdpaPinning.CALL.invokeExact(context, query, key, value, out, options, pins);
      return (int) Library.pinning("fovea_sdpa", Sdpa.ARGUMENTS, pins.length).invokeExact(context, query, key, value, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class SdpaPlanCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_sdpa_plan_create", ARGUMENTS);
  }

  private static final class SdpaPlanCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_sdpa_plan_create", SdpaPlanCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_sdpa_plan_create(MemorySegment context, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) SdpaPlanCreate.CALL.invokeExact(context, query, key, value, out, options, plan);
      if (pins.length == Pins.FEW) return (int) SdpaPlanCreatePinning.CALL.invokeExact(context, query, key, value, out, options, plan, pins);
      return (int) Library.pinning("fovea_sdpa_plan_create", SdpaPlanCreate.ARGUMENTS, pins.length).invokeExact(context, query, key, value, out, options, plan, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionRun {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_attention_run", ARGUMENTS);
  }

  private static final class AttentionRunPinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention_run", AttentionRun.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention_run(MemorySegment plan, MemorySegment buffers, MemorySegment workspace, long workspaceSize, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AttentionRun.CALL.invokeExact(plan, buffers, workspace, workspaceSize);
      if (pins.length == Pins.FEW) return (int) AttentionRunPinning.CALL.invokeExact(plan, buffers, workspace, workspaceSize, pins);
      return (int) Library.pinning("fovea_attention_run", AttentionRun.ARGUMENTS, pins.length).invokeExact(plan, buffers, workspace, workspaceSize, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MergeStates {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_merge_states", ARGUMENTS);
  }

  private static final class MergeStatesPinning {
    static final MethodHandle CALL = Library.pinning("fovea_merge_states", MergeStates.ARGUMENTS, Pins.FEW);
  }

  static int fovea_merge_states(MemorySegment context, MemorySegment outs, MemorySegment lses, MemorySegment out, MemorySegment logSumExp, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MergeStates.CALL.invokeExact(context, outs, lses, out, logSumExp);
      if (pins.length == Pins.FEW) return (int) MergeStatesPinning.CALL.invokeExact(context, outs, lses, out, logSumExp, pins);
      return (int) Library.pinning("fovea_merge_states", MergeStates.ARGUMENTS, pins.length).invokeExact(context, outs, lses, out, logSumExp, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MaskedSoftmax {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_masked_softmax", ARGUMENTS);
  }

  private static final class MaskedSoftmaxPinning {
    static final MethodHandle CALL = Library.pinning("fovea_masked_softmax", MaskedSoftmax.ARGUMENTS, Pins.FEW);
  }

  static int fovea_masked_softmax(MemorySegment context, MemorySegment x, MemorySegment validLens, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MaskedSoftmax.CALL.invokeExact(context, x, validLens, out, options);
      if (pins.length == Pins.FEW) return (int) MaskedSoftmaxPinning.CALL.invokeExact(context, x, validLens, out, options, pins);
      return (int) Library.pinning("fovea_masked_softmax", MaskedSoftmax.ARGUMENTS, pins.length).invokeExact(context, x, validLens, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Softmax {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_softmax", ARGUMENTS);
  }

  private static final class SoftmaxPinning {
    static final MethodHandle CALL = Library.pinning("fovea_softmax", Softmax.ARGUMENTS, Pins.FEW);
  }

  static int fovea_softmax(MemorySegment context, MemorySegment x, int axis, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Softmax.CALL.invokeExact(context, x, axis, out);
      if (pins.length == Pins.FEW) return (int) SoftmaxPinning.CALL.invokeExact(context, x, axis, out, pins);
      return (int) Library.pinning("fovea_softmax", Softmax.ARGUMENTS, pins.length).invokeExact(context, x, axis, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LogSoftmax {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_log_softmax", ARGUMENTS);
  }

  private static final class LogSoftmaxPinning {
    static final MethodHandle CALL = Library.pinning("fovea_log_softmax", LogSoftmax.ARGUMENTS, Pins.FEW);
  }

  static int fovea_log_softmax(MemorySegment context, MemorySegment x, int axis, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) LogSoftmax.CALL.invokeExact(context, x, axis, out);
      if (pins.length == Pins.FEW) return (int) LogSoftmaxPinning.CALL.invokeExact(context, x, axis, out, pins);
      return (int) Library.pinning("fovea_log_softmax", LogSoftmax.ARGUMENTS, pins.length).invokeExact(context, x, axis, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Matmul {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_matmul", ARGUMENTS);
  }

  private static final class MatmulPinning {
    static final MethodHandle CALL = Library.pinning("fovea_matmul", Matmul.ARGUMENTS, Pins.FEW);
  }

  static int fovea_matmul(MemorySegment context, MemorySegment a, MemorySegment b, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Matmul.CALL.invokeExact(context, a, b, out);
      if (pins.length == Pins.FEW) return (int) MatmulPinning.CALL.invokeExact(context, a, b, out, pins);
      return (int) Library.pinning("fovea_matmul", Matmul.ARGUMENTS, pins.length).invokeExact(context, a, b, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Gemm {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_gemm", ARGUMENTS);
  }

  private static final class GemmPinning {
    static final MethodHandle CALL = Library.pinning("fovea_gemm", Gemm.ARGUMENTS, Pins.FEW);
  }

  static int fovea_gemm(MemorySegment context, MemorySegment a, MemorySegment b, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Gemm.CALL.invokeExact(context, a, b, out, options);
      if (pins.length == Pins.FEW) return (int) GemmPinning.CALL.invokeExact(context, a, b, out, options, pins);
      return (int) Library.pinning("fovea_gemm", Gemm.ARGUMENTS, pins.length).invokeExact(context, a, b, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MatmulPack {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_matmul_pack", ARGUMENTS);
  }

  private static final class MatmulPackPinning {
    static final MethodHandle CALL = Library.pinning("fovea_matmul_pack", MatmulPack.ARGUMENTS, Pins.FEW);
  }

  static int fovea_matmul_pack(MemorySegment context, MemorySegment b, MemorySegment options, MemorySegment packed, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MatmulPack.CALL.invokeExact(context, b, options, packed);
      if (pins.length == Pins.FEW) return (int) MatmulPackPinning.CALL.invokeExact(context, b, options, packed, pins);
      return (int) Library.pinning("fovea_matmul_pack", MatmulPack.ARGUMENTS, pins.length).invokeExact(context, b, options, packed, pins);
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
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_matmul_packed", ARGUMENTS);
  }

  private static final class MatmulPackedPinning {
    static final MethodHandle CALL = Library.pinning("fovea_matmul_packed", MatmulPacked.ARGUMENTS, Pins.FEW);
  }

  static int fovea_matmul_packed(MemorySegment context, MemorySegment a, MemorySegment b, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MatmulPacked.CALL.invokeExact(context, a, b, out);
      if (pins.length == Pins.FEW) return (int) MatmulPackedPinning.CALL.invokeExact(context, a, b, out, pins);
      return (int) Library.pinning("fovea_matmul_packed", MatmulPacked.ARGUMENTS, pins.length).invokeExact(context, a, b, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Exp {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_exp", ARGUMENTS);
  }

  private static final class ExpPinning {
    static final MethodHandle CALL = Library.pinning("fovea_exp", Exp.ARGUMENTS, Pins.FEW);
  }

  static int fovea_exp(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Exp.CALL.invokeExact(context, x, out);
      if (pins.length == Pins.FEW) return (int) ExpPinning.CALL.invokeExact(context, x, out, pins);
      return (int) Library.pinning("fovea_exp", Exp.ARGUMENTS, pins.length).invokeExact(context, x, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Tanh {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_tanh", ARGUMENTS);
  }

  private static final class TanhPinning {
    static final MethodHandle CALL = Library.pinning("fovea_tanh", Tanh.ARGUMENTS, Pins.FEW);
  }

  static int fovea_tanh(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Tanh.CALL.invokeExact(context, x, out);
      if (pins.length == Pins.FEW) return (int) TanhPinning.CALL.invokeExact(context, x, out, pins);
      return (int) Library.pinning("fovea_tanh", Tanh.ARGUMENTS, pins.length).invokeExact(context, x, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Quantize {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_quantize", ARGUMENTS);
  }

  private static final class QuantizePinning {
    static final MethodHandle CALL = Library.pinning("fovea_quantize", Quantize.ARGUMENTS, Pins.FEW);
  }

  static int fovea_quantize(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment scales, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Quantize.CALL.invokeExact(context, x, out, scales);
      if (pins.length == Pins.FEW) return (int) QuantizePinning.CALL.invokeExact(context, x, out, scales, pins);
      return (int) Library.pinning("fovea_quantize", Quantize.ARGUMENTS, pins.length).invokeExact(context, x, out, scales, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Dequantize {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_dequantize", ARGUMENTS);
  }

  private static final class DequantizePinning {
    static final MethodHandle CALL = Library.pinning("fovea_dequantize", Dequantize.ARGUMENTS, Pins.FEW);
  }

  static int fovea_dequantize(MemorySegment context, MemorySegment q, MemorySegment scales, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Dequantize.CALL.invokeExact(context, q, scales, out);
      if (pins.length == Pins.FEW) return (int) DequantizePinning.CALL.invokeExact(context, q, scales, out, pins);
      return (int) Library.pinning("fovea_dequantize", Dequantize.ARGUMENTS, pins.length).invokeExact(context, q, scales, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Attention {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_attention", ARGUMENTS);
  }

  private static final class AttentionPinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention", Attention.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Attention.CALL.invokeExact(context, score, query, key, value, out, options);
      if (pins.length == Pins.FEW) return (int) AttentionPinning.CALL.invokeExact(context, score, query, key, value, out, options, pins);
      return (int) Library.pinning("fovea_attention", Attention.ARGUMENTS, pins.length).invokeExact(context, score, query, key, value, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionPlanCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_attention_plan_create", ARGUMENTS);
  }

  private static final class AttentionPlanCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention_plan_create", AttentionPlanCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention_plan_create(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AttentionPlanCreate.CALL.invokeExact(context, score, query, key, value, out, options, plan);
      if (pins.length == Pins.FEW) return (int) AttentionPlanCreatePinning.CALL.invokeExact(context, score, query, key, value, out, options, plan, pins);
      return (int) Library.pinning("fovea_attention_plan_create", AttentionPlanCreate.ARGUMENTS, pins.length).invokeExact(context, score, query, key, value, out, options, plan, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_prepared_keys_create", ARGUMENTS);
  }

  private static final class PreparedKeysCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_prepared_keys_create", PreparedKeysCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_prepared_keys_create(MemorySegment context, MemorySegment score, MemorySegment sizes, MemorySegment keys, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) PreparedKeysCreate.CALL.invokeExact(context, score, sizes, keys);
      if (pins.length == Pins.FEW) return (int) PreparedKeysCreatePinning.CALL.invokeExact(context, score, sizes, keys, pins);
      return (int) Library.pinning("fovea_prepared_keys_create", PreparedKeysCreate.ARGUMENTS, pins.length).invokeExact(context, score, sizes, keys, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysAppend {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_prepared_keys_append", ARGUMENTS);
  }

  private static final class PreparedKeysAppendPinning {
    static final MethodHandle CALL = Library.pinning("fovea_prepared_keys_append", PreparedKeysAppend.ARGUMENTS, Pins.FEW);
  }

  static int fovea_prepared_keys_append(MemorySegment context, MemorySegment keys, MemorySegment key, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) PreparedKeysAppend.CALL.invokeExact(context, keys, key);
      if (pins.length == Pins.FEW) return (int) PreparedKeysAppendPinning.CALL.invokeExact(context, keys, key, pins);
      return (int) Library.pinning("fovea_prepared_keys_append", PreparedKeysAppend.ARGUMENTS, pins.length).invokeExact(context, keys, key, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PreparedKeysTruncate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_prepared_keys_truncate", ARGUMENTS);
  }

  private static final class PreparedKeysTruncatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_prepared_keys_truncate", PreparedKeysTruncate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_prepared_keys_truncate(MemorySegment keys, long length, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) PreparedKeysTruncate.CALL.invokeExact(keys, length);
      if (pins.length == Pins.FEW) return (int) PreparedKeysTruncatePinning.CALL.invokeExact(keys, length, pins);
      return (int) Library.pinning("fovea_prepared_keys_truncate", PreparedKeysTruncate.ARGUMENTS, pins.length).invokeExact(keys, length, pins);
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
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_attention_prepared", ARGUMENTS);
  }

  private static final class AttentionPreparedPinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention_prepared", AttentionPrepared.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention_prepared(MemorySegment context, MemorySegment query, MemorySegment keys, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AttentionPrepared.CALL.invokeExact(context, query, keys, value, out, options);
      if (pins.length == Pins.FEW) return (int) AttentionPreparedPinning.CALL.invokeExact(context, query, keys, value, out, options, pins);
      return (int) Library.pinning("fovea_attention_prepared", AttentionPrepared.ARGUMENTS, pins.length).invokeExact(context, query, keys, value, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionPreparedPlanCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_attention_prepared_plan_create", ARGUMENTS);
  }

  private static final class AttentionPreparedPlanCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention_prepared_plan_create", AttentionPreparedPlanCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention_prepared_plan_create(MemorySegment context, MemorySegment query, MemorySegment keys, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AttentionPreparedPlanCreate.CALL.invokeExact(context, query, keys, value, out, options, plan);
      if (pins.length == Pins.FEW) return (int) AttentionPreparedPlanCreatePinning.CALL.invokeExact(context, query, keys, value, out, options, plan, pins);
      return (int) Library.pinning("fovea_attention_prepared_plan_create", AttentionPreparedPlanCreate.ARGUMENTS, pins.length).invokeExact(context, query, keys, value, out, options, plan, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KernelRegression {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_kernel_regression", ARGUMENTS);
  }

  private static final class KernelRegressionPinning {
    static final MethodHandle CALL = Library.pinning("fovea_kernel_regression", KernelRegression.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kernel_regression(MemorySegment context, MemorySegment queries, MemorySegment inputs, MemorySegment targets, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KernelRegression.CALL.invokeExact(context, queries, inputs, targets, out, options);
      if (pins.length == Pins.FEW) return (int) KernelRegressionPinning.CALL.invokeExact(context, queries, inputs, targets, out, options, pins);
      return (int) Library.pinning("fovea_kernel_regression", KernelRegression.ARGUMENTS, pins.length).invokeExact(context, queries, inputs, targets, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_schedule_create", ARGUMENTS);
  }

  private static final class ScheduleCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_schedule_create", ScheduleCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_schedule_create(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment limits, MemorySegment schedule, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ScheduleCreate.CALL.invokeExact(context, score, query, key, value, out, options, limits, schedule);
      if (pins.length == Pins.FEW) return (int) ScheduleCreatePinning.CALL.invokeExact(context, score, query, key, value, out, options, limits, schedule, pins);
      return (int) Library.pinning("fovea_schedule_create", ScheduleCreate.ARGUMENTS, pins.length).invokeExact(context, score, query, key, value, out, options, limits, schedule, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_schedule_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_schedule_destroy(MemorySegment schedule) {
    try {
      ScheduleDestroy.CALL.invokeExact(schedule);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleSet {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_schedule_set", ARGUMENTS);
  }

  private static final class ScheduleSetPinning {
    static final MethodHandle CALL = Library.pinning("fovea_schedule_set", ScheduleSet.ARGUMENTS, Pins.FEW);
  }

  static int fovea_schedule_set(MemorySegment schedule, MemorySegment step, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ScheduleSet.CALL.invokeExact(schedule, step);
      if (pins.length == Pins.FEW) return (int) ScheduleSetPinning.CALL.invokeExact(schedule, step, pins);
      return (int) Library.pinning("fovea_schedule_set", ScheduleSet.ARGUMENTS, pins.length).invokeExact(schedule, step, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class SchedulePositions {
    static final MethodHandle CALL = Library.function(
        "fovea_schedule_positions", FunctionDescriptor.of(Layouts.fovea_tensor.LAYOUT, ADDRESS));
  }

  static MemorySegment fovea_schedule_positions(SegmentAllocator allocator, MemorySegment schedule) {
    try {
      return (MemorySegment) SchedulePositions.CALL.invokeExact(allocator, schedule);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleWorkspaceSize {
    static final MethodHandle CALL = Library.function(
        "fovea_schedule_workspace_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_schedule_workspace_size(MemorySegment schedule) {
    try {
      return (long) ScheduleWorkspaceSize.CALL.invokeExact(schedule);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleDescribe {
    static final MethodHandle CALL = Library.function(
        "fovea_schedule_describe", FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG));
  }

  static long fovea_schedule_describe(MemorySegment schedule, MemorySegment text, long size) {
    try {
      return (long) ScheduleDescribe.CALL.invokeExact(schedule, text, size);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleRun {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_schedule_run", ARGUMENTS);
  }

  private static final class ScheduleRunPinning {
    static final MethodHandle CALL = Library.pinning("fovea_schedule_run", ScheduleRun.ARGUMENTS, Pins.FEW);
  }

  static int fovea_schedule_run(MemorySegment schedule, MemorySegment buffers, MemorySegment workspace, long workspaceSize, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ScheduleRun.CALL.invokeExact(schedule, buffers, workspace, workspaceSize);
      if (pins.length == Pins.FEW) return (int) ScheduleRunPinning.CALL.invokeExact(schedule, buffers, workspace, workspaceSize, pins);
      return (int) Library.pinning("fovea_schedule_run", ScheduleRun.ARGUMENTS, pins.length).invokeExact(schedule, buffers, workspace, workspaceSize, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class SchedulePhases {
    static final MethodHandle CALL = Library.function(
        "fovea_schedule_phases", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_schedule_phases(MemorySegment schedule) {
    try {
      return (long) SchedulePhases.CALL.invokeExact(schedule);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleTasks {
    static final MethodHandle CALL = Library.function(
        "fovea_schedule_tasks", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG));
  }

  static long fovea_schedule_tasks(MemorySegment schedule, long phase) {
    try {
      return (long) ScheduleTasks.CALL.invokeExact(schedule, phase);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleRunTasks {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_schedule_run_tasks", ARGUMENTS);
  }

  private static final class ScheduleRunTasksPinning {
    static final MethodHandle CALL = Library.pinning("fovea_schedule_run_tasks", ScheduleRunTasks.ARGUMENTS, Pins.FEW);
  }

  static int fovea_schedule_run_tasks(MemorySegment schedule, MemorySegment buffers, MemorySegment workspace, long workspaceSize, long phase, long begin, long end, long worker, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ScheduleRunTasks.CALL.invokeExact(schedule, buffers, workspace, workspaceSize, phase, begin, end, worker);
      if (pins.length == Pins.FEW) return (int) ScheduleRunTasksPinning.CALL.invokeExact(schedule, buffers, workspace, workspaceSize, phase, begin, end, worker, pins);
      return (int) Library.pinning("fovea_schedule_run_tasks", ScheduleRunTasks.ARGUMENTS, pins.length).invokeExact(schedule, buffers, workspace, workspaceSize, phase, begin, end, worker, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ScheduleAppend {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_schedule_append", ARGUMENTS);
  }

  private static final class ScheduleAppendPinning {
    static final MethodHandle CALL = Library.pinning("fovea_schedule_append", ScheduleAppend.ARGUMENTS, Pins.FEW);
  }

  static int fovea_schedule_append(MemorySegment schedule, MemorySegment key, MemorySegment value, MemorySegment keyPages, MemorySegment valuePages, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ScheduleAppend.CALL.invokeExact(schedule, key, value, keyPages, valuePages, options);
      if (pins.length == Pins.FEW) return (int) ScheduleAppendPinning.CALL.invokeExact(schedule, key, value, keyPages, valuePages, options, pins);
      return (int) Library.pinning("fovea_schedule_append", ScheduleAppend.ARGUMENTS, pins.length).invokeExact(schedule, key, value, keyPages, valuePages, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_create", ARGUMENTS);
  }

  private static final class KvPoolCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_create", KvPoolCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_create(MemorySegment sizes, MemorySegment pool, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolCreate.CALL.invokeExact(sizes, pool);
      if (pins.length == Pins.FEW) return (int) KvPoolCreatePinning.CALL.invokeExact(sizes, pool, pins);
      return (int) Library.pinning("fovea_kv_pool_create", KvPoolCreate.ARGUMENTS, pins.length).invokeExact(sizes, pool, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_kv_pool_destroy(MemorySegment pool) {
    try {
      KvPoolDestroy.CALL.invokeExact(pool);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolOpen {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_open", ARGUMENTS);
  }

  private static final class KvPoolOpenPinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_open", KvPoolOpen.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_open(MemorySegment pool, MemorySegment sequence, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolOpen.CALL.invokeExact(pool, sequence);
      if (pins.length == Pins.FEW) return (int) KvPoolOpenPinning.CALL.invokeExact(pool, sequence, pins);
      return (int) Library.pinning("fovea_kv_pool_open", KvPoolOpen.ARGUMENTS, pins.length).invokeExact(pool, sequence, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolFork {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_fork", ARGUMENTS);
  }

  private static final class KvPoolForkPinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_fork", KvPoolFork.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_fork(MemorySegment pool, long sequence, long length, MemorySegment forked, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolFork.CALL.invokeExact(pool, sequence, length, forked);
      if (pins.length == Pins.FEW) return (int) KvPoolForkPinning.CALL.invokeExact(pool, sequence, length, forked, pins);
      return (int) Library.pinning("fovea_kv_pool_fork", KvPoolFork.ARGUMENTS, pins.length).invokeExact(pool, sequence, length, forked, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolTruncate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_truncate", ARGUMENTS);
  }

  private static final class KvPoolTruncatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_truncate", KvPoolTruncate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_truncate(MemorySegment pool, long sequence, long length, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolTruncate.CALL.invokeExact(pool, sequence, length);
      if (pins.length == Pins.FEW) return (int) KvPoolTruncatePinning.CALL.invokeExact(pool, sequence, length, pins);
      return (int) Library.pinning("fovea_kv_pool_truncate", KvPoolTruncate.ARGUMENTS, pins.length).invokeExact(pool, sequence, length, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolDrop {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_drop", ARGUMENTS);
  }

  private static final class KvPoolDropPinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_drop", KvPoolDrop.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_drop(MemorySegment pool, long sequence, long first, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolDrop.CALL.invokeExact(pool, sequence, first);
      if (pins.length == Pins.FEW) return (int) KvPoolDropPinning.CALL.invokeExact(pool, sequence, first, pins);
      return (int) Library.pinning("fovea_kv_pool_drop", KvPoolDrop.ARGUMENTS, pins.length).invokeExact(pool, sequence, first, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolClose {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_close", ARGUMENTS);
  }

  private static final class KvPoolClosePinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_close", KvPoolClose.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_close(MemorySegment pool, long sequence, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolClose.CALL.invokeExact(pool, sequence);
      if (pins.length == Pins.FEW) return (int) KvPoolClosePinning.CALL.invokeExact(pool, sequence, pins);
      return (int) Library.pinning("fovea_kv_pool_close", KvPoolClose.ARGUMENTS, pins.length).invokeExact(pool, sequence, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolStep {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_step", ARGUMENTS);
  }

  private static final class KvPoolStepPinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_step", KvPoolStep.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_step(MemorySegment context, MemorySegment pool, MemorySegment sequences, MemorySegment tokens, MemorySegment step, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolStep.CALL.invokeExact(context, pool, sequences, tokens, step);
      if (pins.length == Pins.FEW) return (int) KvPoolStepPinning.CALL.invokeExact(context, pool, sequences, tokens, step, pins);
      return (int) Library.pinning("fovea_kv_pool_step", KvPoolStep.ARGUMENTS, pins.length).invokeExact(context, pool, sequences, tokens, step, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolKeys {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_keys", FunctionDescriptor.of(Layouts.fovea_tensor.LAYOUT, ADDRESS, JAVA_LONG));
  }

  static MemorySegment fovea_kv_pool_keys(SegmentAllocator allocator, MemorySegment pool, long layer) {
    try {
      return (MemorySegment) KvPoolKeys.CALL.invokeExact(allocator, pool, layer);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolValues {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_values", FunctionDescriptor.of(Layouts.fovea_tensor.LAYOUT, ADDRESS, JAVA_LONG));
  }

  static MemorySegment fovea_kv_pool_values(SegmentAllocator allocator, MemorySegment pool, long layer) {
    try {
      return (MemorySegment) KvPoolValues.CALL.invokeExact(allocator, pool, layer);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolKeyScales {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_key_scales", FunctionDescriptor.of(Layouts.fovea_tensor.LAYOUT, ADDRESS, JAVA_LONG));
  }

  static MemorySegment fovea_kv_pool_key_scales(SegmentAllocator allocator, MemorySegment pool, long layer) {
    try {
      return (MemorySegment) KvPoolKeyScales.CALL.invokeExact(allocator, pool, layer);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolValueScales {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_value_scales", FunctionDescriptor.of(Layouts.fovea_tensor.LAYOUT, ADDRESS, JAVA_LONG));
  }

  static MemorySegment fovea_kv_pool_value_scales(SegmentAllocator allocator, MemorySegment pool, long layer) {
    try {
      return (MemorySegment) KvPoolValueScales.CALL.invokeExact(allocator, pool, layer);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolLength {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_length", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG));
  }

  static long fovea_kv_pool_length(MemorySegment pool, long sequence) {
    try {
      return (long) KvPoolLength.CALL.invokeExact(pool, sequence);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolFreePages {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_free_pages", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_kv_pool_free_pages(MemorySegment pool) {
    try {
      return (long) KvPoolFreePages.CALL.invokeExact(pool);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolSize {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_kv_pool_size(MemorySegment pool) {
    try {
      return (long) KvPoolSize.CALL.invokeExact(pool);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolSavedSize {
    static final MethodHandle CALL = Library.function(
        "fovea_kv_pool_saved_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_LONG));
  }

  static long fovea_kv_pool_saved_size(MemorySegment pool, long sequence) {
    try {
      return (long) KvPoolSavedSize.CALL.invokeExact(pool, sequence);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolSave {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_save", ARGUMENTS);
  }

  private static final class KvPoolSavePinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_save", KvPoolSave.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_save(MemorySegment pool, long sequence, MemorySegment bytes, long size, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolSave.CALL.invokeExact(pool, sequence, bytes, size);
      if (pins.length == Pins.FEW) return (int) KvPoolSavePinning.CALL.invokeExact(pool, sequence, bytes, size, pins);
      return (int) Library.pinning("fovea_kv_pool_save", KvPoolSave.ARGUMENTS, pins.length).invokeExact(pool, sequence, bytes, size, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class KvPoolRestore {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_kv_pool_restore", ARGUMENTS);
  }

  private static final class KvPoolRestorePinning {
    static final MethodHandle CALL = Library.pinning("fovea_kv_pool_restore", KvPoolRestore.ARGUMENTS, Pins.FEW);
  }

  static int fovea_kv_pool_restore(MemorySegment pool, MemorySegment bytes, long size, MemorySegment sequence, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) KvPoolRestore.CALL.invokeExact(pool, bytes, size, sequence);
      if (pins.length == Pins.FEW) return (int) KvPoolRestorePinning.CALL.invokeExact(pool, bytes, size, sequence, pins);
      return (int) Library.pinning("fovea_kv_pool_restore", KvPoolRestore.ARGUMENTS, pins.length).invokeExact(pool, bytes, size, sequence, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class PositionalEncoding {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_positional_encoding", ARGUMENTS);
  }

  private static final class PositionalEncodingPinning {
    static final MethodHandle CALL = Library.pinning("fovea_positional_encoding", PositionalEncoding.ARGUMENTS, Pins.FEW);
  }

  static int fovea_positional_encoding(MemorySegment context, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) PositionalEncoding.CALL.invokeExact(context, out, options);
      if (pins.length == Pins.FEW) return (int) PositionalEncodingPinning.CALL.invokeExact(context, out, options, pins);
      return (int) Library.pinning("fovea_positional_encoding", PositionalEncoding.ARGUMENTS, pins.length).invokeExact(context, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AddPositionalEncoding {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_add_positional_encoding", ARGUMENTS);
  }

  private static final class AddPositionalEncodingPinning {
    static final MethodHandle CALL = Library.pinning("fovea_add_positional_encoding", AddPositionalEncoding.ARGUMENTS, Pins.FEW);
  }

  static int fovea_add_positional_encoding(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AddPositionalEncoding.CALL.invokeExact(context, x, out, options);
      if (pins.length == Pins.FEW) return (int) AddPositionalEncodingPinning.CALL.invokeExact(context, x, out, options, pins);
      return (int) Library.pinning("fovea_add_positional_encoding", AddPositionalEncoding.ARGUMENTS, pins.length).invokeExact(context, x, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Rotary {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_rotary", ARGUMENTS);
  }

  private static final class RotaryPinning {
    static final MethodHandle CALL = Library.pinning("fovea_rotary", Rotary.ARGUMENTS, Pins.FEW);
  }

  static int fovea_rotary(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Rotary.CALL.invokeExact(context, x, out, options);
      if (pins.length == Pins.FEW) return (int) RotaryPinning.CALL.invokeExact(context, x, out, options, pins);
      return (int) Library.pinning("fovea_rotary", Rotary.ARGUMENTS, pins.length).invokeExact(context, x, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class RotaryFrequencies {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_rotary_frequencies", ARGUMENTS);
  }

  private static final class RotaryFrequenciesPinning {
    static final MethodHandle CALL = Library.pinning("fovea_rotary_frequencies", RotaryFrequencies.ARGUMENTS, Pins.FEW);
  }

  static int fovea_rotary_frequencies(MemorySegment frequencies, MemorySegment attentionFactor, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) RotaryFrequencies.CALL.invokeExact(frequencies, attentionFactor, options);
      if (pins.length == Pins.FEW) return (int) RotaryFrequenciesPinning.CALL.invokeExact(frequencies, attentionFactor, options, pins);
      return (int) Library.pinning("fovea_rotary_frequencies", RotaryFrequencies.ARGUMENTS, pins.length).invokeExact(frequencies, attentionFactor, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AlibiSlopes {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_alibi_slopes", ARGUMENTS);
  }

  private static final class AlibiSlopesPinning {
    static final MethodHandle CALL = Library.pinning("fovea_alibi_slopes", AlibiSlopes.ARGUMENTS, Pins.FEW);
  }

  static int fovea_alibi_slopes(MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AlibiSlopes.CALL.invokeExact(out);
      if (pins.length == Pins.FEW) return (int) AlibiSlopesPinning.CALL.invokeExact(out, pins);
      return (int) Library.pinning("fovea_alibi_slopes", AlibiSlopes.ARGUMENTS, pins.length).invokeExact(out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Activation {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_activation", ARGUMENTS);
  }

  private static final class ActivationPinning {
    static final MethodHandle CALL = Library.pinning("fovea_activation", Activation.ARGUMENTS, Pins.FEW);
  }

  static int fovea_activation(MemorySegment context, int activation, MemorySegment x, MemorySegment out, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Activation.CALL.invokeExact(context, activation, x, out);
      if (pins.length == Pins.FEW) return (int) ActivationPinning.CALL.invokeExact(context, activation, x, out, pins);
      return (int) Library.pinning("fovea_activation", Activation.ARGUMENTS, pins.length).invokeExact(context, activation, x, out, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LinearPack {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_linear_pack", ARGUMENTS);
  }

  private static final class LinearPackPinning {
    static final MethodHandle CALL = Library.pinning("fovea_linear_pack", LinearPack.ARGUMENTS, Pins.FEW);
  }

  static int fovea_linear_pack(MemorySegment context, MemorySegment weight, MemorySegment options, MemorySegment packed, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) LinearPack.CALL.invokeExact(context, weight, options, packed);
      if (pins.length == Pins.FEW) return (int) LinearPackPinning.CALL.invokeExact(context, weight, options, packed, pins);
      return (int) Library.pinning("fovea_linear_pack", LinearPack.ARGUMENTS, pins.length).invokeExact(context, weight, options, packed, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class Linear {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_linear", ARGUMENTS);
  }

  private static final class LinearPinning {
    static final MethodHandle CALL = Library.pinning("fovea_linear", Linear.ARGUMENTS, Pins.FEW);
  }

  static int fovea_linear(MemorySegment context, MemorySegment x, MemorySegment weight, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) Linear.CALL.invokeExact(context, x, weight, out, options);
      if (pins.length == Pins.FEW) return (int) LinearPinning.CALL.invokeExact(context, x, weight, out, options, pins);
      return (int) Library.pinning("fovea_linear", Linear.ARGUMENTS, pins.length).invokeExact(context, x, weight, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LayerNorm {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_layer_norm", ARGUMENTS);
  }

  private static final class LayerNormPinning {
    static final MethodHandle CALL = Library.pinning("fovea_layer_norm", LayerNorm.ARGUMENTS, Pins.FEW);
  }

  static int fovea_layer_norm(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) LayerNorm.CALL.invokeExact(context, x, out, options);
      if (pins.length == Pins.FEW) return (int) LayerNormPinning.CALL.invokeExact(context, x, out, options, pins);
      return (int) Library.pinning("fovea_layer_norm", LayerNorm.ARGUMENTS, pins.length).invokeExact(context, x, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class RmsNorm {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_rms_norm", ARGUMENTS);
  }

  private static final class RmsNormPinning {
    static final MethodHandle CALL = Library.pinning("fovea_rms_norm", RmsNorm.ARGUMENTS, Pins.FEW);
  }

  static int fovea_rms_norm(MemorySegment context, MemorySegment x, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) RmsNorm.CALL.invokeExact(context, x, out, options);
      if (pins.length == Pins.FEW) return (int) RmsNormPinning.CALL.invokeExact(context, x, out, options, pins);
      return (int) Library.pinning("fovea_rms_norm", RmsNorm.ARGUMENTS, pins.length).invokeExact(context, x, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaWeightsCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_mha_weights_create", ARGUMENTS);
  }

  private static final class MhaWeightsCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_mha_weights_create", MhaWeightsCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_mha_weights_create(MemorySegment context, MemorySegment parameters, MemorySegment weights, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MhaWeightsCreate.CALL.invokeExact(context, parameters, weights);
      if (pins.length == Pins.FEW) return (int) MhaWeightsCreatePinning.CALL.invokeExact(context, parameters, weights, pins);
      return (int) Library.pinning("fovea_mha_weights_create", MhaWeightsCreate.ARGUMENTS, pins.length).invokeExact(context, parameters, weights, pins);
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
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_multi_head_attention", ARGUMENTS);
  }

  private static final class MultiHeadAttentionPinning {
    static final MethodHandle CALL = Library.pinning("fovea_multi_head_attention", MultiHeadAttention.ARGUMENTS, Pins.FEW);
  }

  static int fovea_multi_head_attention(MemorySegment context, MemorySegment weights, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MultiHeadAttention.CALL.invokeExact(context, weights, query, key, value, out, options);
      if (pins.length == Pins.FEW) return (int) MultiHeadAttentionPinning.CALL.invokeExact(context, weights, query, key, value, out, options, pins);
      return (int) Library.pinning("fovea_multi_head_attention", MultiHeadAttention.ARGUMENTS, pins.length).invokeExact(context, weights, query, key, value, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaPlanCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_mha_plan_create", ARGUMENTS);
  }

  private static final class MhaPlanCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_mha_plan_create", MhaPlanCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_mha_plan_create(MemorySegment context, MemorySegment weights, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment plan, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MhaPlanCreate.CALL.invokeExact(context, weights, query, key, value, out, options, plan);
      if (pins.length == Pins.FEW) return (int) MhaPlanCreatePinning.CALL.invokeExact(context, weights, query, key, value, out, options, plan, pins);
      return (int) Library.pinning("fovea_mha_plan_create", MhaPlanCreate.ARGUMENTS, pins.length).invokeExact(context, weights, query, key, value, out, options, plan, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaPlanDestroy {
    static final MethodHandle CALL = Library.function(
        "fovea_mha_plan_destroy", FunctionDescriptor.ofVoid(ADDRESS));
  }

  static void fovea_mha_plan_destroy(MemorySegment plan) {
    try {
      MhaPlanDestroy.CALL.invokeExact(plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaPlanWorkspaceSize {
    static final MethodHandle CALL = Library.function(
        "fovea_mha_plan_workspace_size", FunctionDescriptor.of(JAVA_LONG, ADDRESS));
  }

  static long fovea_mha_plan_workspace_size(MemorySegment plan) {
    try {
      return (long) MhaPlanWorkspaceSize.CALL.invokeExact(plan);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MhaRun {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    static final MethodHandle CALL = Library.function("fovea_mha_run", ARGUMENTS);
  }

  private static final class MhaRunPinning {
    static final MethodHandle CALL = Library.pinning("fovea_mha_run", MhaRun.ARGUMENTS, Pins.FEW);
  }

  static int fovea_mha_run(MemorySegment plan, MemorySegment buffers, MemorySegment workspace, long workspaceSize, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MhaRun.CALL.invokeExact(plan, buffers, workspace, workspaceSize);
      if (pins.length == Pins.FEW) return (int) MhaRunPinning.CALL.invokeExact(plan, buffers, workspace, workspaceSize, pins);
      return (int) Library.pinning("fovea_mha_run", MhaRun.ARGUMENTS, pins.length).invokeExact(plan, buffers, workspace, workspaceSize, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MultiHeadAttentionOnce {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_multi_head_attention_once", ARGUMENTS);
  }

  private static final class MultiHeadAttentionOncePinning {
    static final MethodHandle CALL = Library.pinning("fovea_multi_head_attention_once", MultiHeadAttentionOnce.ARGUMENTS, Pins.FEW);
  }

  static int fovea_multi_head_attention_once(MemorySegment context, MemorySegment parameters, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MultiHeadAttentionOnce.CALL.invokeExact(context, parameters, query, key, value, out, options);
      if (pins.length == Pins.FEW) return (int) MultiHeadAttentionOncePinning.CALL.invokeExact(context, parameters, query, key, value, out, options, pins);
      return (int) Library.pinning("fovea_multi_head_attention_once", MultiHeadAttentionOnce.ARGUMENTS, pins.length).invokeExact(context, parameters, query, key, value, out, options, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_attention_backward", ARGUMENTS);
  }

  private static final class AttentionBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention_backward", AttentionBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention_backward(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment gradients, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AttentionBackward.CALL.invokeExact(context, score, query, key, value, out, options, gradients);
      if (pins.length == Pins.FEW) return (int) AttentionBackwardPinning.CALL.invokeExact(context, score, query, key, value, out, options, gradients, pins);
      return (int) Library.pinning("fovea_attention_backward", AttentionBackward.ARGUMENTS, pins.length).invokeExact(context, score, query, key, value, out, options, gradients, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class AttentionBackwardPlanCreate {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_attention_backward_plan_create", ARGUMENTS);
  }

  private static final class AttentionBackwardPlanCreatePinning {
    static final MethodHandle CALL = Library.pinning("fovea_attention_backward_plan_create", AttentionBackwardPlanCreate.ARGUMENTS, Pins.FEW);
  }

  static int fovea_attention_backward_plan_create(MemorySegment context, MemorySegment score, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment out, MemorySegment options, MemorySegment gradients, MemorySegment plan, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) AttentionBackwardPlanCreate.CALL.invokeExact(context, score, query, key, value, out, options, gradients, plan);
      if (pins.length == Pins.FEW) return (int) AttentionBackwardPlanCreatePinning.CALL.invokeExact(context, score, query, key, value, out, options, gradients, plan, pins);
      return (int) Library.pinning("fovea_attention_backward_plan_create", AttentionBackwardPlanCreate.ARGUMENTS, pins.length).invokeExact(context, score, query, key, value, out, options, gradients, plan, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class ActivationBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_activation_backward", ARGUMENTS);
  }

  private static final class ActivationBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_activation_backward", ActivationBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_activation_backward(MemorySegment context, int activation, MemorySegment x, MemorySegment gradOut, MemorySegment gradX, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) ActivationBackward.CALL.invokeExact(context, activation, x, gradOut, gradX);
      if (pins.length == Pins.FEW) return (int) ActivationBackwardPinning.CALL.invokeExact(context, activation, x, gradOut, gradX, pins);
      return (int) Library.pinning("fovea_activation_backward", ActivationBackward.ARGUMENTS, pins.length).invokeExact(context, activation, x, gradOut, gradX, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MaskedSoftmaxBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_masked_softmax_backward", ARGUMENTS);
  }

  private static final class MaskedSoftmaxBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_masked_softmax_backward", MaskedSoftmaxBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_masked_softmax_backward(MemorySegment context, MemorySegment out, MemorySegment validLens, MemorySegment gradOut, MemorySegment gradX, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MaskedSoftmaxBackward.CALL.invokeExact(context, out, validLens, gradOut, gradX);
      if (pins.length == Pins.FEW) return (int) MaskedSoftmaxBackwardPinning.CALL.invokeExact(context, out, validLens, gradOut, gradX, pins);
      return (int) Library.pinning("fovea_masked_softmax_backward", MaskedSoftmaxBackward.ARGUMENTS, pins.length).invokeExact(context, out, validLens, gradOut, gradX, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class SoftmaxBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_softmax_backward", ARGUMENTS);
  }

  private static final class SoftmaxBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_softmax_backward", SoftmaxBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_softmax_backward(MemorySegment context, MemorySegment out, int axis, MemorySegment gradOut, MemorySegment gradX, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) SoftmaxBackward.CALL.invokeExact(context, out, axis, gradOut, gradX);
      if (pins.length == Pins.FEW) return (int) SoftmaxBackwardPinning.CALL.invokeExact(context, out, axis, gradOut, gradX, pins);
      return (int) Library.pinning("fovea_softmax_backward", SoftmaxBackward.ARGUMENTS, pins.length).invokeExact(context, out, axis, gradOut, gradX, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LogSoftmaxBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_log_softmax_backward", ARGUMENTS);
  }

  private static final class LogSoftmaxBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_log_softmax_backward", LogSoftmaxBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_log_softmax_backward(MemorySegment context, MemorySegment out, int axis, MemorySegment gradOut, MemorySegment gradX, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) LogSoftmaxBackward.CALL.invokeExact(context, out, axis, gradOut, gradX);
      if (pins.length == Pins.FEW) return (int) LogSoftmaxBackwardPinning.CALL.invokeExact(context, out, axis, gradOut, gradX, pins);
      return (int) Library.pinning("fovea_log_softmax_backward", LogSoftmaxBackward.ARGUMENTS, pins.length).invokeExact(context, out, axis, gradOut, gradX, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LayerNormBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_layer_norm_backward", ARGUMENTS);
  }

  private static final class LayerNormBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_layer_norm_backward", LayerNormBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_layer_norm_backward(MemorySegment context, MemorySegment x, MemorySegment options, MemorySegment gradients, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) LayerNormBackward.CALL.invokeExact(context, x, options, gradients);
      if (pins.length == Pins.FEW) return (int) LayerNormBackwardPinning.CALL.invokeExact(context, x, options, gradients, pins);
      return (int) Library.pinning("fovea_layer_norm_backward", LayerNormBackward.ARGUMENTS, pins.length).invokeExact(context, x, options, gradients, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class RmsNormBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_rms_norm_backward", ARGUMENTS);
  }

  private static final class RmsNormBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_rms_norm_backward", RmsNormBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_rms_norm_backward(MemorySegment context, MemorySegment x, MemorySegment options, MemorySegment gradients, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) RmsNormBackward.CALL.invokeExact(context, x, options, gradients);
      if (pins.length == Pins.FEW) return (int) RmsNormBackwardPinning.CALL.invokeExact(context, x, options, gradients, pins);
      return (int) Library.pinning("fovea_rms_norm_backward", RmsNormBackward.ARGUMENTS, pins.length).invokeExact(context, x, options, gradients, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class LinearBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_linear_backward", ARGUMENTS);
  }

  private static final class LinearBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_linear_backward", LinearBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_linear_backward(MemorySegment context, MemorySegment x, MemorySegment weight, int layout, MemorySegment options, MemorySegment gradients, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) LinearBackward.CALL.invokeExact(context, x, weight, layout, options, gradients);
      if (pins.length == Pins.FEW) return (int) LinearBackwardPinning.CALL.invokeExact(context, x, weight, layout, options, gradients, pins);
      return (int) Library.pinning("fovea_linear_backward", LinearBackward.ARGUMENTS, pins.length).invokeExact(context, x, weight, layout, options, gradients, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MergeStatesBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_merge_states_backward", ARGUMENTS);
  }

  private static final class MergeStatesBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_merge_states_backward", MergeStatesBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_merge_states_backward(MemorySegment context, MemorySegment outs, MemorySegment lses, MemorySegment gradients, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MergeStatesBackward.CALL.invokeExact(context, outs, lses, gradients);
      if (pins.length == Pins.FEW) return (int) MergeStatesBackwardPinning.CALL.invokeExact(context, outs, lses, gradients, pins);
      return (int) Library.pinning("fovea_merge_states_backward", MergeStatesBackward.ARGUMENTS, pins.length).invokeExact(context, outs, lses, gradients, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }

  private static final class MultiHeadAttentionBackward {
    static final FunctionDescriptor ARGUMENTS = FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CALL = Library.function("fovea_multi_head_attention_backward", ARGUMENTS);
  }

  private static final class MultiHeadAttentionBackwardPinning {
    static final MethodHandle CALL = Library.pinning("fovea_multi_head_attention_backward", MultiHeadAttentionBackward.ARGUMENTS, Pins.FEW);
  }

  static int fovea_multi_head_attention_backward(MemorySegment context, MemorySegment parameters, MemorySegment query, MemorySegment key, MemorySegment value, MemorySegment options, MemorySegment gradients, MemorySegment[] pins) {
    try {
      if (pins == null) return (int) MultiHeadAttentionBackward.CALL.invokeExact(context, parameters, query, key, value, options, gradients);
      if (pins.length == Pins.FEW) return (int) MultiHeadAttentionBackwardPinning.CALL.invokeExact(context, parameters, query, key, value, options, gradients, pins);
      return (int) Library.pinning("fovea_multi_head_attention_backward", MultiHeadAttentionBackward.ARGUMENTS, pins.length).invokeExact(context, parameters, query, key, value, options, gradients, pins);
    } catch (Throwable thrown) {
      throw Library.unexpected(thrown);
    }
  }
}
