"""PyTorch's ways to the scaled dot product: its fused call, compiled FlexAttention with block masks, products by hand."""
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import inputs
from worker import Unsupported

MOST_SCORE_BYTES = 2 << 30


class Problem:
    """A case's tensors, with its masks in the forms that PyTorch takes."""

    def __init__(self, case, given):
        self.case = case
        self.query = given["query"]
        one = (given["key"].nbytes + given["value"].nbytes)
        copies = inputs.cache_copies(case, one)
        self.next_cache = inputs.going_round(
            [(given["key"], given["value"])] + [(given["key"].clone(), given["value"].clone()) for _ in range(copies - 1)])
        self.group = case.heads // case.kv_heads
        self.offset = max(0, case.key_len - case.query_len)
        self.scale = case.scale or case.head_dim**-0.5
        self.bias, self.slopes, self.sinks = (given.get(name) for name in ("bias", "slopes", "sinks"))
        allowed = inputs.allowed_keys(case)
        self.allowed = None if allowed is None else torch.from_numpy(allowed)
        self.lens = inputs.lens_of(case)

    def float_mask(self):
        """What is added to the scores, [B or 1, H or 1, Q or 1, K]; None: nothing."""
        mask = None
        if self.allowed is not None:
            mask = torch.zeros(self.allowed.shape).masked_fill_(~self.allowed, float("-inf"))
        if self.bias is not None:
            mask = self.bias.float() if mask is None else mask + self.bias
        if self.slopes is not None:
            positions = torch.arange(self.case.query_len)[:, None] + self.offset
            distances = (positions - torch.arange(self.case.key_len)).abs()
            slopes = -self.slopes[None, :, None, None] * distances
            mask = slopes if mask is None else mask + slopes
        return None if mask is None else mask.to(self.query.dtype)

    def as_rows(self, query):
        """The heads of a group as rows of one product: [B,Hkv,G*Q,D]."""
        return query.reshape(query.shape[0], self.case.kv_heads, -1, self.case.head_dim)


def fused(problem, mask):
    case = problem.case
    options = {"scale": problem.scale, "enable_gqa": problem.group > 1}
    if case.causal and case.query_len == case.key_len and mask is None:
        options["is_causal"] = True
    else:
        options["attn_mask"] = mask

    def run():
        return F.scaled_dot_product_attention(problem.query, *problem.next_cache(), **options)

    return run


def fused_rows(problem):
    rows, mask = problem.as_rows(problem.query), problem.float_mask()
    return lambda: F.scaled_dot_product_attention(rows, *problem.next_cache(), attn_mask=mask, scale=problem.scale)


def each_sequence(problem):
    """A call for each sequence, on its own keys."""
    rows = problem.as_rows(problem.query)
    lens = problem.lens.tolist()

    def run():
        key, value = problem.next_cache()
        return torch.cat([F.scaled_dot_product_attention(rows[b : b + 1], key[b : b + 1, :, :length],
                                                         value[b : b + 1, :, :length], scale=problem.scale)
                          for b, length in enumerate(lens)])

    return run


def product_function(problem):
    """The formula with two batched products; the weights beside the output, where the case wants them."""
    case, scale = problem.case, problem.scale
    mask = problem.float_mask()
    if mask is not None:  # heads of a group are rows here
        heads = case.heads if mask.shape[1] > 1 else problem.group
        mask = mask.expand(-1, heads, case.query_len, -1)
        mask = mask.reshape(mask.shape[0], heads // problem.group, -1, case.key_len)
    sinks = None
    if problem.sinks is not None:
        sinks = problem.sinks.to(problem.query.dtype).reshape(1, case.kv_heads, problem.group, 1)
        sinks = sinks.expand(case.batch, -1, -1, case.query_len).reshape(case.batch, case.kv_heads, -1, 1)

    def attend(query, key, value):
        scores = problem.as_rows(query * scale) @ key.transpose(-1, -2)
        if case.softcap:
            scores = case.softcap * torch.tanh(scores / case.softcap)
        if mask is not None:
            scores += mask
        if sinks is None:
            weights = torch.softmax(scores, -1)
        else:
            weights = torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1]
        return (weights @ value, weights) if case.weights else weights @ value

    return attend


def first(result):
    return result[0] if isinstance(result, tuple) else result


def products(problem):
    attend = product_function(problem)
    return lambda: first(attend(problem.query, *problem.next_cache()))


def compiled_products(problem):
    attend = torch.compile(product_function(problem), dynamic=False)
    return lambda: first(attend(problem.query, *problem.next_cache()))


# ---- FlexAttention ---------------------------------------------------------------------------------------------------

def mask_function(problem):
    """Which pairs take part, as FlexAttention asks for it; None: all."""
    case, offset = problem.case, problem.offset
    lens = None if problem.lens is None else torch.from_numpy(problem.lens).long()
    causal, prefix, window = case.causal, case.prefix, case.window_left
    if not causal and not prefix and window < 0 and lens is None:
        return None

    def allowed(b, h, i, j):
        taken = j >= 0
        if causal:
            taken = taken & (j <= i + offset)
        if prefix:
            taken = taken & ((j <= i + offset) | (j < prefix))
        if window >= 0:
            taken = taken & (j >= i + offset - window)
        return taken if lens is None else taken & (j < lens[b])

    return allowed


def score_function(problem):
    case, offset, bias, slopes = problem.case, problem.offset, problem.bias, problem.slopes
    if not case.softcap and bias is None and slopes is None:
        return None

    def score(raw, b, h, i, j):
        if case.softcap:
            raw = case.softcap * torch.tanh(raw / case.softcap)
        if bias is not None:
            raw = raw + bias[0, h, i, j]
        return raw if slopes is None else raw - slopes[h] * (i + offset - j).abs()

    return score


def flex(problem):
    case = problem.case
    options = {"scale": problem.scale, "enable_gqa": problem.group > 1, "score_mod": score_function(problem)}
    allowed = mask_function(problem)
    if allowed is not None:
        batch = None if problem.lens is None else case.batch
        options["block_mask"] = create_block_mask(allowed, batch, None, case.query_len, case.key_len, device="cpu")
    sinks = problem.sinks

    def attend(query, key, value):
        if sinks is None:
            return flex_attention(query, key, value, **options)
        out, log_sum_exp = flex_attention(query, key, value, return_lse=True, **options)
        return out * torch.sigmoid(log_sum_exp - sinks[:, None]).unsqueeze(-1).to(out.dtype)

    attend = torch.compile(attend, dynamic=False)
    return lambda: attend(problem.query, *problem.next_cache())


def ways(case, given):
    problem = Problem(case, given)
    found = {}
    plain = not (case.softcap or case.sinks or case.weights)
    if plain:
        by_float = case.bias or case.alibi
        square = case.causal and case.query_len == case.key_len and case.window_left < 0
        if square and not by_float and problem.lens is None:
            found["fused"] = lambda: fused(problem, None)
        elif by_float or problem.allowed is None:
            found["fused"] = lambda: fused(problem, problem.float_mask())
        else:
            found["fused, boolean mask"] = lambda: fused(problem, problem.allowed)
            found["fused, float mask"] = lambda: fused(problem, problem.float_mask())
        one_row = case.query_len == 1 or problem.allowed is None and not by_float
        if problem.group > 1 and one_row:
            found["fused, heads of a group as rows"] = lambda: fused_rows(problem)
        if problem.lens is not None and not case.causal:
            found["fused, sequence by sequence"] = lambda: each_sequence(problem)
    if case.batch * case.heads * case.query_len * case.key_len * 4 <= MOST_SCORE_BYTES:
        found["products by hand"] = lambda: products(problem)
        found["products compiled"] = lambda: compiled_products(problem)
    if not case.weights:
        found["FlexAttention compiled"] = lambda: flex(problem)
    if not found:
        raise Unsupported("returned weights would not fit memory")
    return found
