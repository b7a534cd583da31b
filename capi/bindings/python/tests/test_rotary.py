"""Rotary embedding as models have it, against transformers' own tables and modules where it is installed, and against the
formula in float64 where it is not."""
import numpy as np
import pytest
from reference import close, random

import fovea


def turned(x, angles, interleaved=False, factor=1.0):
    """x [..., L, D] by angles [..., L, P]; the features from 2 P on stay."""
    pairs, x = angles.shape[-1], x.astype(np.float64)
    out = x.copy()
    first, second = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if interleaved else (slice(pairs), slice(pairs, 2 * pairs))
    cos, sin = factor * np.cos(angles), factor * np.sin(angles)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


@pytest.mark.parametrize("interleaved", [False, True])
def test_frequencies_sections_and_tables(interleaved):
    x, frequencies = random(2, 3, 5, 10), np.abs(random(4))
    positions = np.arange(5)
    angles = positions[:, None] * frequencies.astype(np.float64)
    close(fovea.rotary(x, frequencies=frequencies, attention_factor=1.5, rotary_dim=8, interleaved=interleaved),
          turned(x, angles, interleaved, 1.5), 1e-5)
    places, sections = np.random.default_rng(1).integers(0, 50, (3, 2, 5)), [0, 1, 2, 1]
    by_pair = np.stack([places[s] for s in sections], -1)[:, None] * frequencies.astype(np.float64)
    close(fovea.rotary(x, frequencies=list(map(float, frequencies)), rotary_dim=8, interleaved=interleaved,
                       positions=places.tolist(), sections=sections), turned(x, by_pair, interleaved), 1e-4)
    cosines, sines = (f(np.arange(60)[:, None] * frequencies).astype(np.float32) for f in (np.cos, np.sin))
    given = {"cosines": cosines, "sines": sines, "rotary_dim": 8, "interleaved": interleaved}
    close(fovea.rotary(x, offset=3, **given), turned(x, (3 + positions)[:, None] * frequencies, interleaved), 1e-5)
    close(fovea.rotary(x, positions=places[0], **given), turned(x, places[0][:, None, :, None] * frequencies, interleaved), 1e-5)
    given |= {"cosines": cosines[places[0]], "sines": sines[places[0]]}
    close(fovea.rotary(x, **given), turned(x, places[0][:, None, :, None] * frequencies, interleaved), 1e-5)
    close(fovea.rotary(fovea.rotary(x, **given), inverse=True, **given), x, 1e-5)


def test_zeros_are_numbers():
    x = random(2, 5, 8)
    close(fovea.rotary(x, attention_factor=0.0), np.zeros_like(x), 1e-7)
    for options in ({"base": 0.0}, {"base": 100.0, "frequencies": random(4)}):
        with pytest.raises(fovea.BadValue, match="base"):
            fovea.rotary(x, **options)
    with pytest.raises(fovea.BadValue, match="base"):
        fovea.rotary_frequencies(8, base=0.0)
    for name in ("factor", "original_length", "fast_rotations", "slow_rotations"):
        given = {"factor": 2.0, "original_length": 64, "fast_rotations": 32.0, "slow_rotations": 1.0, name: 0}
        with pytest.raises(fovea.BadValue, match=name):
            fovea.rotary_frequencies(8, kind="yarn", **given)
    with pytest.raises(ValueError, match="rotary_dim"):
        fovea.rotary_frequencies(7)
    with pytest.raises(ValueError, match="kind"):
        fovea.rotary_frequencies(8, kind="yearn")


# ---- transformers -----------------------------------------------------------------------------------------------------

def config_of(**parameters):
    transformers = pytest.importorskip("transformers", "5")
    parameters = {"rope_theta": 10000.0, **parameters}
    return transformers.LlamaConfig(hidden_size=128, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
                                    num_hidden_layers=1, vocab_size=8, max_position_embeddings=512, head_dim=32,
                                    rope_parameters=parameters)


LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
LLAMA3_HERE = {"kind": "llama3", "base": 500000.0, "factor": 8.0, "low_frequency_factor": 1.0, "high_frequency_factor": 4.0,
               "original_length": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
YARN_HERE = {"kind": "yarn", "factor": 4.0, "original_length": 128}
SHORT, LONG = [1 + 0.01 * j for j in range(16)], [1 + 2.5 * j for j in range(16)]
LONGROPE = {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 128, "short_factor": SHORT,
            "long_factor": LONG}
LONGROPE_HERE = {"kind": "longrope", "factor": 4.0, "original_length": 128, "short_factors": SHORT, "long_factors": LONG}

TABLES = {
    "linear": ({"rope_type": "linear", "factor": 4.0}, {"kind": "linear", "factor": 4.0}, None),
    "dynamic, short": ({"rope_type": "dynamic", "factor": 2.0},
                       {"kind": "dynamic", "factor": 2.0, "original_length": 512, "length": 100}, 100),
    "dynamic, long": ({"rope_type": "dynamic", "factor": 2.0},
                      {"kind": "dynamic", "factor": 2.0, "original_length": 512, "length": 1500}, 1500),
    "yarn": (YARN, YARN_HERE, None),
    "yarn, other rotations": ({**YARN, "beta_fast": 16.0, "beta_slow": 2.0},
                              {**YARN_HERE, "fast_rotations": 16.0, "slow_rotations": 2.0}, None),
    "yarn, not rounded": ({**YARN, "truncate": False}, {**YARN_HERE, "unrounded": True}, None),
    "yarn, DeepSeek's": ({**YARN, "mscale": 0.707, "mscale_all_dim": 1.0},
                         {**YARN_HERE, "mscale": 0.707, "mscale_all_dim": 1.0}, None),
    "longrope, short": (LONGROPE, {**LONGROPE_HERE, "length": 128}, 128),
    "longrope, long": (LONGROPE, {**LONGROPE_HERE, "length": 129}, 129),
    "llama3": (LLAMA3, LLAMA3_HERE, None),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_transformers(name):
    theirs, ours, length = TABLES[name]
    config = config_of(**theirs)
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    wanted, wanted_factor = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](config, "cpu", seq_len=length)
    frequencies, factor = fovea.rotary_frequencies(32, **ours)
    np.testing.assert_allclose(frequencies, wanted.numpy(), rtol=3e-6)
    assert factor == pytest.approx(wanted_factor, rel=1e-6)


def test_the_proportional_table_is_one_with_zeros():
    config = config_of(rope_type="proportional", factor=2.0, partial_rotary_factor=0.25)
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    if "proportional" not in ROPE_INIT_FUNCTIONS:
        pytest.skip("this transformers has none")
    wanted, _ = ROPE_INIT_FUNCTIONS["proportional"](config, "cpu")
    frequencies, _ = fovea.rotary_frequencies(32, kind="linear", factor=2.0)
    frequencies[4:] = 0
    np.testing.assert_allclose(frequencies, wanted.numpy(), rtol=3e-6)


@pytest.mark.parametrize("name", ["yarn", "longrope, short", "llama3"])
def test_rows_turn_as_in_transformers(name):
    theirs, ours, _ = TABLES[name]
    config = config_of(**theirs)
    import torch
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
    query, key = torch.randn(2, 4, 9, 32), torch.randn(2, 2, 9, 32)
    positions = torch.randint(0, 100, (2, 9))
    positions[0, 0] = 100
    cos, sin = LlamaRotaryEmbedding(config)(query, positions)
    frequencies, factor = fovea.rotary_frequencies(32, **ours)
    for x, wanted in zip((query, key), apply_rotary_pos_emb(query, key, cos, sin)):
        out = fovea.rotary(x, positions=positions, frequencies=frequencies, attention_factor=factor)
        assert torch.allclose(out, wanted, atol=5e-5)  # theirs has angles of float32
        out = fovea.rotary(x, cosines=cos[..., :16], sines=sin[..., :16])
        assert torch.allclose(out, wanted, atol=2e-6)


def test_a_part_of_the_features_in_neighbouring_pairs():
    transformers = pytest.importorskip("transformers", "5")
    import torch
    from transformers.models.glm.modeling_glm import GlmRotaryEmbedding, apply_rotary_pos_emb
    config = transformers.GlmConfig(hidden_size=128, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                     "partial_rotary_factor": 0.5})
    x, positions = torch.randn(2, 4, 9, 32), torch.randint(0, 100, (2, 9))
    cos, sin = GlmRotaryEmbedding(config)(x, positions)
    wanted, _ = apply_rotary_pos_emb(x, x, cos, sin)
    frequencies, _ = fovea.rotary_frequencies(16)
    out = fovea.rotary(x, interleaved=True, rotary_dim=16, positions=positions, frequencies=frequencies)
    assert torch.allclose(out, wanted, atol=5e-5)


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
def test_positions_of_sections(model):
    transformers = pytest.importorskip("transformers", "5")
    import torch
    parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [6, 5, 5]}
    sizes = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "rope_parameters": parameters}
    if model == "qwen2_vl":
        from transformers.models.qwen2_vl import modeling_qwen2_vl as module
        rotary = module.Qwen2VLRotaryEmbedding(transformers.Qwen2VLTextConfig(**sizes))
        sections = np.repeat([0, 1, 2], [6, 5, 5])
    else:
        from transformers.models.qwen3_vl import modeling_qwen3_vl as module
        rotary = module.Qwen3VLTextRotaryEmbedding(transformers.Qwen3VLTextConfig(head_dim=32, **sizes))
        pairs = np.arange(16)
        sections = np.where(pairs < 3 * np.array([6, 5, 5])[pairs % 3], pairs % 3, 0)
    x, positions = torch.randn(2, 4, 9, 32), torch.randint(0, 100, (3, 2, 9))
    cos, sin = rotary(x, positions)
    wanted, _ = module.apply_rotary_pos_emb(x, x, cos, sin)
    out = fovea.rotary(x, base=1e6, positions=positions, sections=sections)
    assert torch.allclose(out, wanted, atol=5e-5)


@pytest.mark.parametrize("name", ["llama3", "yarn"])
def test_a_layer_of_transformers_step_by_step(name):
    """The cached path: projected, turned, appended, attended, projected back, a token at a time."""
    theirs, ours, _ = TABLES[name]
    config = config_of(**theirs)
    import torch
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
    config._attn_implementation = "eager"
    with torch.no_grad():
        layer = LlamaAttention(config, 0).eval()
        x = torch.randn(2, 70, 128)
        places = torch.arange(70)[None].expand(2, -1)
        mask = torch.full((70, 70), float("-inf")).triu(1)[None, None]
        wanted = layer(x, LlamaRotaryEmbedding(config)(x, places), mask)[0]
    frequencies, factor = fovea.rotary_frequencies(32, **ours)
    rotary = {"frequencies": frequencies, "attention_factor": factor}
    here = fovea.MultiHeadAttention(
        4, kv_heads=2, **{name + "_weight": getattr(layer, name[0] + "_proj").weight.detach()
                          for name in ("query", "key", "value", "out")})
    pool = fovea.KVPool(kv_heads=2, head_dim=32, positions=192, page_size=32, sequences=2)
    schedule = fovea.Schedule(query=(2, 4, 32), pool=pool, is_causal=True)
    sequences, steps = [pool.open(), pool.open()], []
    for n in range(70):
        schedule.set(pool.step((sequence, 1) for sequence in sequences))
        steps.append(here(x[:, n].contiguous(), rotary=rotary, schedule=schedule, pages=0))
    assert torch.allclose(torch.stack(steps, 1), wanted, atol=2e-5)
