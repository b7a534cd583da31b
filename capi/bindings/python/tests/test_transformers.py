"""Small random models of transformers with attn_implementation="fovea" beside their own eager attention, which has every option
that a model gives it. Models are changed so that each option matters."""
import copy

import numpy as np
import pytest
from reference import close, counted

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import fovea.torch  # noqa: E402

VOCABULARY = 50
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
GROUPED = dict(SIZES, num_key_value_heads=2, head_dim=8)
T5 = dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0, eos_token_id=2,
          decoder_start_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, decoder_start_token_id=2)
DECODERS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "Mistral": ("MistralForCausalLM", "MistralConfig", dict(GROUPED, sliding_window=4)),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", dict(GROUPED, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "Qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED),
    "Gemma 2": ("Gemma2ForCausalLM", "Gemma2Config",
                dict(GROUPED, sliding_window=4, attn_logit_softcapping=0.5, query_pre_attn_scalar=2)),
    "GPT-OSS": ("GptOssForCausalLM", "GptOssConfig",
                dict(GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)),
    "Phi-3": ("Phi3ForCausalLM", "Phi3Config", dict(GROUPED, sliding_window=4)),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config",
              dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, pad_token_id=0, bos_token_id=1,
                   eos_token_id=2, scale_attn_by_inverse_layer_idx=True)),
    "OPT": ("OPTForCausalLM", "OPTConfig", dict(SIZES, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64)),
}
ENCODERS = {
    "BERT": ("BertModel", "BertConfig", SIZES),
    "ModernBERT": ("ModernBertModel", "ModernBertConfig",
                   dict(SIZES, local_attention=4, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2)),
    "T5 encoder": ("T5EncoderModel", "T5Config", T5),
}
BOTH = {
    "T5": ("T5ForConditionalGeneration", "T5Config", T5),
    "BART": ("BartForConditionalGeneration", "BartConfig", BART),
}
ALL = DECODERS | ENCODERS | BOTH
OWN_CODE = {
    "BLOOM": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4)),
    "Falcon": ("FalconForCausalLM", "FalconConfig",
               dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=False)),
}
SPECIAL = ("Gemma 2", "GPT-OSS", "T5", "T5 encoder")
fovea.torch.register_with_transformers()


def model_of(name, seed=1):
    """With weights large enough that attention differs from a mean."""
    model_name, config_name, sizes = (ALL | OWN_CODE)[name]
    if not hasattr(transformers, model_name):
        pytest.skip(f"this transformers has no {model_name}")
    torch.manual_seed(seed)
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**sizes)).eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.dim() > 1 or "sinks" in parameter_name:
                size = 1.5 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 1
                parameter.copy_(torch.randn_like(parameter) * size)
    return model


def tokens(rows=2, length=9, seed=3):
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def logits(model, given, **named):
    if model.config.is_encoder_decoder:
        named["decoder_input_ids"] = tokens(length=6, seed=4)
    return model(given, **named)[0]


def beside_eager(model, run):
    """(eager's result, fovea's, how many calls fovea computed)"""
    with torch.no_grad():
        model.set_attn_implementation("eager")
        wanted = run(model)
        model.set_attn_implementation("fovea")
        calls = []
        found = counted(calls, lambda: run(model))
    return wanted, found, len(calls)


def attention_layers(model):
    config = model.config
    if config.is_encoder_decoder:
        return 3 * 2
    return config.num_hidden_layers


@pytest.mark.parametrize("name", ALL)
def test_the_same_as_eager(name):
    model = model_of(name)
    wanted, found, calls = beside_eager(model, lambda m: logits(m, tokens()))
    assert calls == attention_layers(model)
    close(found, wanted, 2e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ALL)
def test_padded_batches(name, side):
    model, mask = model_of(name), torch.ones(2, 9, dtype=torch.long)
    mask[0, slice(0, 3) if side == "left" else slice(6, 9)] = 0
    wanted, found, calls = beside_eager(model, lambda m: logits(m, tokens(), attention_mask=mask))
    assert calls == attention_layers(model)
    kept = mask.bool() if wanted.shape[1] == 9 else torch.ones(wanted.shape[:2], dtype=torch.bool)
    close(found[kept], wanted[kept].numpy(), 2e-4)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", DECODERS | BOTH)
def test_generating(name, cache):
    """Step by step, from prompts of two lengths padded on the left, past the length of windows."""
    model, mask = model_of(name), torch.ones(2, 5, dtype=torch.long)
    mask[0, :2] = 0
    options = dict(attention_mask=mask, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0, output_logits=True,
                   return_dict_in_generate=True, **({"cache_implementation": "static"} if cache == "static" else {}),
                   disable_compile=True)
    wanted, found, calls = beside_eager(model, lambda m: m.generate(tokens(length=5), **options))
    assert calls >= 5 * model.config.num_hidden_layers
    assert torch.equal(found.sequences, wanted.sequences)
    for one, other in zip(found.logits, wanted.logits):
        close(one, other, 5e-4)


@pytest.mark.parametrize("name", OWN_CODE)
def test_models_that_compute_attention_themselves(name):
    """They do not ask for an attention function, and give what they gave."""
    model = model_of(name)
    with torch.no_grad():
        wanted = model(tokens())[0]
        model.set_attn_implementation("fovea")
        close(model(tokens())[0], wanted, 2e-4)


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-OSS", "T5", "BERT"])
def test_attentions_that_are_asked_for(name):
    model = model_of(name)
    wanted, found, calls = beside_eager(model, lambda m: m(tokens(), output_attentions=True, **(
        {"decoder_input_ids": tokens(length=6)} if m.config.is_encoder_decoder else {})))
    assert calls == attention_layers(model)
    for kind in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions"):
        for one, other in zip(getattr(found, kind, None) or (), getattr(wanted, kind, None) or ()):
            close(one, other, 2e-4)
    assert (found.attentions if not model.config.is_encoder_decoder else found.decoder_attentions)[0] is not None


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-OSS", "T5"])
def test_training(name):
    """Gradients with every option, by the library."""
    model, found = model_of(name), {}
    for implementation in ("eager", "fovea"):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        calls = []
        counted(calls, lambda: logits(model, tokens()).pow(2).mean().backward())
        assert len(calls) == (attention_layers(model) if implementation == "fovea" else 0)
        found[implementation] = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    assert found["eager"].keys() == found["fovea"].keys()
    for parameter, gradient in found["eager"].items():
        size = float(gradient.abs().max())
        np.testing.assert_allclose(found["fovea"][parameter], gradient, rtol=1e-3, atol=1e-4 * size + 1e-7)


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-OSS"])
def test_dropout_follows_pytorchs_seed(name):
    model = model_of(name)
    model.set_attn_implementation("fovea")
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    with torch.no_grad():
        plain, calls = logits(model, tokens()), []
        model.train()
        torch.manual_seed(5)
        one = counted(calls, lambda: logits(model, tokens()))
        assert len(calls) == attention_layers(model) and not torch.allclose(one, plain, atol=1e-3)
        torch.manual_seed(5)
        assert torch.equal(logits(model, tokens()), one)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-OSS", "T5", "BERT"])
def test_16_bits(name, dtype):
    model = model_of(name)
    with torch.no_grad():
        model.set_attn_implementation("eager")
        truth = logits(model, tokens())
        model = model.to(dtype)
        theirs = (logits(model, tokens()).float() - truth).abs().max()
        model.set_attn_implementation("fovea")
        calls = []
        found = counted(calls, lambda: logits(model, tokens()))
    assert found.dtype == dtype and len(calls) == attention_layers(model)
    assert (found.float() - truth).abs().max() <= 2 * theirs + 1e-2


def test_autocast():
    model = model_of("Gemma 2")
    with torch.autocast("cpu", torch.bfloat16):
        wanted, found, calls = beside_eager(model, lambda m: logits(m, tokens()))
    assert calls == attention_layers(model) and found.dtype == wanted.dtype
    assert (found.float() - wanted.float()).abs().max() < 0.1 * wanted.float().abs().max()


@pytest.mark.parametrize("name", ["Llama", "Gemma 2", "GPT-OSS"])
def test_compiled(name):
    torch._dynamo.reset()
    model = model_of(name)
    with torch.no_grad():
        model.set_attn_implementation("eager")
        wanted = logits(model, tokens())
        model.set_attn_implementation("fovea")
        calls = []
        found = counted(calls, lambda: torch.compile(model, backend="aot_eager")(tokens())[0])
    assert len(calls) == attention_layers(model)
    close(found, wanted, 2e-4)


def test_packed_sequences():
    """Several in one row, each attending itself alone, told by position_ids or by cu_seq_lens."""
    model, row, ends = model_of("Llama"), tokens(rows=1, length=9), torch.tensor([0, 4, 9], dtype=torch.int32)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    with torch.no_grad():
        model.set_attn_implementation("eager")
        wanted = torch.cat([model(row[:, :4])[0], model(row[:, 4:])[0]], 1)
        model.set_attn_implementation("fovea")
        close(model(row, position_ids=positions, use_cache=False)[0], wanted, 2e-4)
        named = dict(cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=5, max_length_k=5)
        close(model(row, position_ids=positions, use_cache=False, **named)[0], wanted, 2e-4)
    module = torch.nn.Module()
    query, key, value = (torch.randn(1, 2, 9, 8) for _ in range(3))
    for causal in (True, False):
        module.is_causal = causal
        out, _ = fovea.torch.transformers_attention(module, query, key, value, None, **named)
        parts = [fovea.torch.transformers_attention(module, *(x[:, :, part] for x in (query, key, value)), None)[0]
                 for part in (slice(0, 4), slice(4, 9))]
        close(out, torch.cat(parts, 1), 1e-5)
    with pytest.raises(ValueError, match="cu_seq_lens_q"):
        fovea.torch.transformers_attention(module, query[:, :, :5], key, value, None, cu_seq_lens_q=ends)
    with pytest.raises(ValueError, match="cu_seq_lens_k"):
        module.is_causal = True
        fovea.torch.transformers_attention(module, query, key, value, None, cu_seq_lens_q=ends,
                                           cu_seq_lens_k=torch.tensor([0, 5, 9]))


def arguments(seed=1):
    torch.manual_seed(seed)
    module = torch.nn.Module()
    module.is_causal = True
    return module, torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)


def by_hand(query, key, value, keep=None, bias=0.0, softcap=None, sinks=None, head_mask=1.0, scale=8**-0.5):
    """Weights and result in float64."""
    query, key, value = (x.double() for x in (query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)))
    scores = query @ key.mT * scale
    scores = (scores if softcap is None else softcap * torch.tanh(scores / softcap)) + bias
    scores = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
    if sinks is not None:
        sinks = sinks.double().view(1, -1, 1, 1) if sinks.dim() == 1 else sinks.double()
        scores = torch.cat([scores, sinks.expand(2, 4, 5, 1)], -1)
    weights = scores.softmax(-1)[..., :7] * head_mask
    return (weights @ value).transpose(1, 2), weights


CAUSAL = torch.ones(5, 7, dtype=torch.bool).tril()
KEEP = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) > 0.3
BIAS = torch.randn(2, 4, 5, 7, generator=torch.Generator().manual_seed(2))
KEEP[..., 0] = True
OPTIONS = {
    "mask": (dict(attention_mask=KEEP), dict(keep=KEEP)),
    "a mask longer than the keys": (dict(attention_mask=torch.nn.functional.pad(KEEP, (0, 3))), dict(keep=KEEP)),
    "a mask of numbers": (dict(attention_mask=BIAS[:, :1]), dict(bias=BIAS[:, :1])),
    "is_causal": (dict(), dict(keep=CAUSAL)),
    "is_causal=False": (dict(is_causal=False), dict()),
    "softcap": (dict(softcap=0.5), dict(keep=CAUSAL, softcap=0.5)),
    "scaling": (dict(scaling=0.3), dict(keep=CAUSAL, scale=0.3)),
    "scaling of 0": (dict(scaling=0.0), dict(keep=CAUSAL, scale=0.0)),
    "s_aux": (dict(s_aux=torch.tensor([1.0, -1, 0, 2])), dict(keep=CAUSAL, sinks=torch.tensor([1.0, -1, 0, 2]))),
    "sinks": (dict(sinks=BIAS[..., :1]), dict(keep=CAUSAL, sinks=BIAS[..., :1])),
    "position_bias": (dict(position_bias=BIAS, is_causal=False), dict(bias=BIAS)),
    "position_bias, causal": (dict(position_bias=BIAS[:1]), dict(bias=BIAS[:1], keep=CAUSAL)),
    "position_bias and mask": (dict(position_bias=BIAS, attention_mask=KEEP), dict(bias=BIAS, keep=KEEP)),
    "position_bias and numbers": (dict(position_bias=BIAS, attention_mask=BIAS[:, :1]), dict(bias=BIAS + BIAS[:, :1])),
    "sliding_window": (dict(sliding_window=3), dict(keep=CAUSAL & ~CAUSAL.roll(3, 0).tril(-3))),
    "head_mask": (dict(head_mask=torch.tensor([1.0, 0, 2, 1]).view(1, 4, 1, 1)),
                  dict(keep=CAUSAL, head_mask=torch.tensor([1.0, 0, 2, 1]).view(1, 4, 1, 1))),
    "all": (dict(softcap=0.5, sinks=BIAS[..., :1], position_bias=BIAS, attention_mask=KEEP, scaling=0.3),
            dict(softcap=0.5, sinks=BIAS[..., :1], bias=BIAS, keep=KEEP, scale=0.3)),
}


@pytest.mark.parametrize("way", ["fovea", "gradients", "float64", "compiled"])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option(name, way):
    """Alone and all at once, by the library, with gradients too, and by what stands in for it."""
    given, meant = OPTIONS[name]
    module, *qkv = arguments()
    qkv = [x.requires_grad_(way == "gradients") for x in qkv]
    given = dict(given)
    mask = given.pop("attention_mask", None)
    wanted, weights = by_hand(*qkv, **meant)
    attention, calls = fovea.torch.transformers_attention, []
    if way == "float64":
        qkv = [x.double() for x in qkv]
        if mask is not None and mask.dtype != torch.bool:
            mask = mask.double()
        given = {n: x.double() if isinstance(x, torch.Tensor) else x for n, x in given.items()}
    elif way == "compiled":
        if name not in ("softcap", "s_aux", "position_bias and mask", "mask"):
            pytest.skip("these are enough")
        torch._dynamo.reset()
        attention = torch.compile(attention, fullgraph=True, backend="aot_eager")
    out, none = counted(calls, lambda: attention(module, *qkv, mask, **given))
    assert none is None and out.dtype == qkv[0].dtype
    close(out.detach(), wanted.detach(), 2e-5)
    assert len(calls) == (0 if way == "float64" or name == "head_mask" else 1)
    if way == "gradients":
        reaching = torch.randn(out.shape, generator=torch.Generator().manual_seed(3))
        gradients = torch.autograd.grad(out, qkv, reaching)
        for one, other in zip(gradients, torch.autograd.grad(wanted, qkv, reaching.double(), retain_graph=True)):
            close(one, other, 5e-5)
    if way != "compiled":
        out, found = attention(module, *qkv, mask, output_attentions=True, **given)
        close(out.detach(), wanted.detach(), 2e-5)
        close(found.detach(), weights.detach(), 2e-5)


def test_a_window_of_one_query_ends_with_the_last_key():
    module, query, key, value = arguments()
    out, _ = fovea.torch.transformers_attention(module, query[:, :, :1], key, value, None, sliding_window=3)
    wanted, _ = fovea.torch.transformers_attention(module, query[:, :, :1], key[:, :, 4:], value[:, :, 4:], None)
    close(out, wanted, 1e-6)
    with pytest.raises(ValueError, match="sliding_window"):
        fovea.torch.transformers_attention(module, query, key, value, None, sliding_window=3, is_causal=False)


def test_what_is_not_known_is_refused():
    module, *qkv = arguments()
    attention = fovea.torch.transformers_attention
    with pytest.raises(TypeError, match="'some_new_bias' .* attn_implementation .*change_nothing"):
        attention(module, *qkv, None, some_new_bias=torch.ones(1))
    with pytest.raises(TypeError, match="'indices'"):  # of sparse attention: which keys are attended
        attention(module, *qkv, None, indices=torch.ones(2, 5, 3, dtype=torch.long))
    with pytest.raises(TypeError, match="s_aux or sinks"):
        attention(module, *qkv, None, s_aux=torch.ones(4), sinks=torch.ones(2, 4, 5, 1))
    with pytest.raises(TypeError, match="attention_mask"):
        attention(module, *qkv, object())
    wanted, _ = attention(module, *qkv, None)
    assert torch.equal(attention(module, *qkv, None, some_new_bias=None, position_ids=torch.arange(5)[None])[0], wanted)
    known = copy.copy(fovea.torch.models.CHANGE_NOTHING)
    try:
        fovea.torch.register_with_transformers(change_nothing=["some_new_name"])
        assert torch.equal(attention(module, *qkv, None, some_new_name=1)[0], wanted)
    finally:
        fovea.torch.models.CHANGE_NOTHING.intersection_update(known)


def test_batches_of_one_broadcast():
    module, query, key, value = arguments()
    out, _ = fovea.torch.transformers_attention(module, query[:1], key, value, None, softcap=2.0)
    wanted, _ = fovea.torch.transformers_attention(module, query[:1].repeat(2, 1, 1, 1), key, value, None, softcap=2.0)
    close(out, wanted, 1e-6)


def test_what_the_library_refuses_is_pytorchs():
    module = torch.nn.Module()
    query, key, value = torch.randn(1, 2, 3, 1025), torch.randn(1, 2, 4, 1025), torch.randn(1, 2, 4, 8)
    wanted = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    close(fovea.torch.transformers_attention(module, query, key, value, None, is_causal=False)[0], wanted.transpose(1, 2), 1e-4)
    out, _ = fovea.torch.transformers_attention(module, query, key, value, None, is_causal=False, softcap=1e6)
    close(out, wanted.transpose(1, 2), 1e-3)
