# SPDX-License-Identifier: Apache-2.0
"""transformers' own model of the same weights, in float32 on PyTorch."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def as_halves(weight, dim):
    """Rotary pairs of neighbouring features, as the file has them, become pairs half a head apart."""
    return weight.reshape(-1, dim // 2, 2, weight.shape[-1]).swapaxes(1, 2).reshape(weight.shape)


def logits(weights, tokens, *, layers, heads, kv_heads, base, epsilon):
    """The logits behind each token. weights: by the names that they have in the file."""
    embedding = weights["token_embd"]
    vocabulary, hidden = embedding.shape
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=len(weights["blk.0.ffn_gate"]), num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, rms_norm_eps=epsilon, rope_theta=base, tie_word_embeddings=True))
    state = {"model.embed_tokens.weight": embedding, "lm_head.weight": embedding, "model.norm.weight": weights["output_norm"]}
    for layer in range(layers):
        for ours, theirs in NAMES.items():
            weight = weights[f"blk.{layer}.{ours}"]
            turns = ours in ("attn_q", "attn_k")
            state[f"model.layers.{layer}.{theirs}.weight"] = as_halves(weight, hidden // heads) if turns else weight
    model.load_state_dict({name: torch.from_numpy(weight).float() for name, weight in state.items()})
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double().numpy()
