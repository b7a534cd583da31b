# SPDX-License-Identifier: Apache-2.0
"""The examples of the reference pages, run by a test. A page shows what stands between [name] and [end]."""
import numpy as np

import fovea

# [attention]
query = np.array([[3, 0], [0, 3]], np.float32)
key = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
value = np.array([[10, 20], [30, 40], [50, 60]], np.float32)
out = fovea.attention(query, key, value)                   # [[30.00, 40.00], [38.30, 48.30]]
causal, weights = fovea.attention(query, key, value, is_causal=True, return_weights=True)
# [end]
assert np.allclose(out, [[30, 40], [38.3036, 48.3036]], atol=1e-4) and weights[0, 2] == 0

# [score]
score = fovea.Additive(query_weight=np.eye(2, dtype="f"), key_weight=np.eye(2, dtype="f"),
                       score_vector=np.ones(2, "f"))
out = fovea.attention(query, key, value, score=score)      # or fovea.additive_attention(...)
near = fovea.gaussian_attention(query, key, value, sigma=0.5)
# [end]
assert out.shape == near.shape == (2, 2) and 10 < out[0, 0] < 50

# [gradients]
out, lse = fovea.attention(query, key, value, return_log_sum_exp=True)
grad_out = np.ones_like(out)                               # of the loss, here the sum of out
grads = fovea.attention_backward(query, key, value, out, lse, grad_out, wanted=("query", "value"))
# [end]
assert np.allclose(grads["value"].sum(0), 2)

# [plan]
run = fovea.plan(query, key, value)                        # checked once; any number of threads may run it
out = run(query, key, value)
print(run.describe(), run.workspace_size)
# [end]
assert np.array_equal(out, fovea.attention(query, key, value))

# [prepared_keys]
keys = fovea.PreparedKeys(score, batch=1, capacity=8, query_dim=2, key_dim=2)
keys.append(key)                                           # projected once
out = keys.attend(query, value)
# [end]
assert np.array_equal(out, fovea.attention(query, key, value, score=score))

# [kernel_regression]
inputs, targets = np.array([0, 1, 2], np.float32), np.array([0, 1, 4], np.float32)
out = fovea.kernel_regression(np.array([1.5], np.float32), inputs, targets, sigma=0.3)
# [end]
assert abs(out[0] - 2.5) < 0.02

# [merge_states]
first, first_lse = fovea.attention(query, key[:2], value[:2], return_log_sum_exp=True)
rest, rest_lse = fovea.attention(query, key[2:], value[2:], return_log_sum_exp=True)
out, log_sum_exp = fovea.merge_states(np.stack([first, rest]), np.stack([first_lse, rest_lse]))
# [end]
assert np.allclose(out, fovea.attention(query, key, value), atol=1e-5)

# [masked_softmax]
x = np.zeros((1, 2, 4), np.float32)
out = fovea.masked_softmax(x, np.array([[1, 2]]))          # [[[1, 0, 0, 0], [0.5, 0.5, 0, 0]]]
# [end]
assert out.tolist() == [[[1, 0, 0, 0], [0.5, 0.5, 0, 0]]]

# [matmul]
packed = fovea.PackedMatrix(value)                         # [K, N], kept in the kernel's order
out = fovea.matmul(key.T, packed)                          # fovea.matmul(key.T, value) packs on the way
# [end]
assert out.tolist() == [[60, 80], [80, 100]]

# [elementwise]
out = fovea.tanh(np.array([0, 1], np.float32))
fovea.exp(out, out=out)                                    # in place
# [end]
assert np.allclose(out, [1, np.exp(np.tanh(1))])

# [positional_encoding]
encoding = fovea.positional_encoding(60, 32)               # [60, 32]
out = fovea.add_positional_encoding(np.zeros((1, 60, 32), np.float32))
# [end]
assert np.array_equal(out[0], encoding)

# [rotary]
heads = np.ones((1, 2, 5, 8), np.float32)                  # [B, H, L, D]
turned = fovea.rotary(heads, offset=3, base=10000.0)
back = fovea.rotary(turned, offset=3, inverse=True)
# [end]
assert np.allclose(back, heads, atol=1e-6)

# [rotary_frequencies]
frequencies, factor = fovea.rotary_frequencies(8, kind="llama3", base=500000.0, factor=8.0, original_length=8192,
                                               low_frequency_factor=1.0, high_frequency_factor=4.0)  # Llama 3.1
turned = fovea.rotary(heads, offset=9000, frequencies=frequencies, attention_factor=factor)
sections = np.repeat([0, 1, 2], [2, 1, 1])                 # Qwen2-VL's: which of the positions [3, B, L] each pair takes
images = fovea.rotary(heads, positions=np.zeros((3, 1, 5), np.int64), sections=sections)
# [end]
assert factor == 1 and turned.shape == heads.shape and np.array_equal(images, heads)

# [alibi_slopes]
slopes = fovea.alibi_slopes(4)                             # [1/4, 1/16, 1/64, 1/256]
# [end]
assert slopes.tolist() == [1 / 4, 1 / 16, 1 / 64, 1 / 256]

# [linear]
weight, bias = np.array([[1, 0], [0, 1], [1, 1]], np.float32), np.array([0, 0, -1], np.float32)
out = fovea.linear(query, weight, bias, activation="relu")  # weight [out, in], as torch.nn.Linear has it
# [end]
assert out.tolist() == [[3, 0, 2], [0, 3, 2]]

# [layer_norm]
out = fovea.layer_norm(value, weight=np.ones(2, np.float32), epsilon=1e-5, residual=value)
# [end]
assert np.allclose(out, [[-1, 1]] * 3, atol=1e-4)

# [rms_norm]
total = np.empty_like(value)
out = fovea.rms_norm(value, weight=np.ones(2, np.float32), residual=value, sum=total)
# [end]
assert np.allclose(out, 2 * value / np.sqrt(np.mean(4 * value * value, -1, keepdims=True)), atol=1e-4)
assert np.array_equal(total, 2 * value)

# [softmax]
columns = fovea.softmax(np.zeros((2, 3), np.float32), axis=0)
rows = fovea.log_softmax(np.zeros((2, 3), np.float32))
# [end]
assert np.allclose(columns, 1 / 2) and np.allclose(rows, -np.log(3))

# [activation]
out = fovea.activation("silu", value)
# [end]
assert np.allclose(out, value / (1 + np.exp(-value)))

# [layer_gradients]
grads = fovea.linear_backward(value, np.eye(2, dtype=np.float32), np.ones_like(value), activation="relu")
grads |= fovea.layer_norm_backward(value, np.ones_like(value), wanted=("x",))
# [end]
assert np.allclose(grads["weight"], np.where(value > 0, 1, 0).T @ value)
assert np.allclose(grads["x"], 0, atol=1e-6)

# [gemm]
out = fovea.gemm(value.T, value, np.ones(2, np.float32), alpha=0.5, beta=-1)  # value.T value / 2 - 1
# [end]
assert np.allclose(out, value.T @ value / 2 - 1)

# [schedule]
starts = np.array([0, 1, 3])                               # sequences of 1 and 2 queries, and as many keys
three = np.ones((3, 1, 2), np.float32)                     # [tokens, H, D]
schedule = fovea.Schedule(query=three, key=three, value=three, sequences=2, is_causal=True)
schedule.set(query_starts=starts, key_starts=starts)
out = schedule.run(three, (three, three))
# [end]
assert np.allclose(out, 1) and schedule.positions.tolist() == [0, 0, 1]

# [kv_pool]
pool = fovea.KVPool(layers=1, kv_heads=1, head_dim=2, positions=64, sequences=4)
schedule = fovea.Schedule(query=(8, 1, 2), pool=pool, is_causal=True)
with pool.open() as sequence:
    schedule.set(pool.step({sequence: 3}))                 # room for 3 more positions
    schedule.append(0, key[:, None], value[:, None])       # layer, [tokens, Hkv, D]
    out = schedule.run(key[:, None], 0)
    other = sequence.fork(2)                               # shares its pages
# [end]
assert out.shape == (3, 1, 2) and len(other) == 2 and sequence.is_closed

# [quantize]
q, scales = fovea.quantize(value)                          # int8, and float16 for each group of features
out = fovea.attention(query, q, q, key_scales=scales, value_scales=scales)
# [end]
assert np.allclose(fovea.dequantize(q, scales), value, rtol=1e-2) and out.shape == query.shape

# [multi_head_attention]
square = np.eye(4, dtype=np.float32)
layer = fovea.MultiHeadAttention(2, query_weight=square, key_weight=square, value_weight=square, out_weight=square)
out = layer(np.ones((1, 3, 4), np.float32), is_causal=True)  # self-attention
# [end]
assert np.allclose(out, 1)

# [tensor]
wide = np.zeros((2, 5, 4, 64), np.float32)                 # [B, L, H, D] in memory
view = wide.swapaxes(1, 2)                                 # [B, H, L, D]: only the strides differ
out = fovea.attention(view, view, view)
# [end]
assert out.shape == (2, 4, 5, 64)

# [context]
one = fovea.Context(max_threads=1, max_isa="base")
out = fovea.attention(query, key, value, context=one)
# [end]
assert one.threads == 1

# [status]
try:
    fovea.attention(query, key, value[:2])
except fovea.BadShape as error:                            # a ValueError, too
    print(error, error.status)
# [end]
