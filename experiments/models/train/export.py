# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint as a Hugging Face style folder in bfloat16 and reads it back.

python export.py --checkpoint RUN/llada/last.pt --tokenizer TOK --out ../tiny-llada
"""
import argparse
import json
import os
import shutil

import torch
from safetensors.torch import load_file, save_file

from model import Model, config_of, make_config
from tokenizer import BOS, EOS, EOT, LLADA_SPECIALS, MASK, QWEN_SPECIALS, VOCAB

LLADA_TEMPLATE = (
    "{{ '<|startoftext|>' }}{% for message in messages %}{{ '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n' + message['content'] + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
QWEN_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}")


FUSED = "attention.query_key_value.weight"  # of llada2: queries, keys and values in this order


def expert_names(cfg, i):
    """Pairs (our name, exported name) of the experts of layer i of a llada2 model."""
    ours, theirs = f"layers.{i}.experts.", f"model.layers.{i}.mlp."
    return [(ours + "router.weight", theirs + "gate.weight"),
            (ours + "bias", theirs + "gate.expert_bias")] + [
        (f"{ours}{n}.{e}.weight", f"{theirs}experts.{e}.{n}_proj.weight")
        for e in range(cfg.experts) for n in ("gate", "up", "down")]


def llada2_names(cfg):
    """As names(); queries, keys and values still apart."""
    out = [("embed.weight", "model.word_embeddings.weight"), ("norm", "model.norm.weight"),
           ("head.weight", "lm_head.weight")]
    parts = {"attn_norm": "input_layernorm.weight", "ff_norm": "post_attention_layernorm.weight",
             "wo.weight": "attention.dense.weight", "q_norm": "attention.query_layernorm.weight",
             "k_norm": "attention.key_layernorm.weight"}
    parts.update({f"w{x}.weight": f"{FUSED}.{x}" for x in "qkv"})
    for i in range(cfg.layers):
        shared = "shared_experts." if i > 0 else ""
        own = parts | {n + ".weight": f"mlp.{shared}{n}_proj.weight" for n in ("gate", "up", "down")}
        out += [(f"layers.{i}.{a}", f"model.layers.{i}.{b}") for a, b in own.items()]
        out += expert_names(cfg, i) if i > 0 else []
    return out


def fuse(tensors):
    """Joins queries, keys and values of every layer."""
    for stem in sorted({k[:-2] for k in tensors if k[:-2].endswith(FUSED)}):
        tensors[stem] = torch.cat([tensors.pop(f"{stem}.{x}") for x in "qkv"])


def split(tensors, cfg):
    """The reverse of fuse()."""
    q, kv = cfg.heads * cfg.head_dim, cfg.kv_heads * cfg.head_dim
    for stem in [k for k in tensors if k.endswith(FUSED)]:
        for x, part in zip("qkv", tensors.pop(stem).split([q, kv, kv])):
            tensors[f"{stem}.{x}"] = part


def names(cfg):
    """Pairs (our name, exported name)."""
    kind, layers = cfg.kind, cfg.layers
    if kind == "llada2":
        return llada2_names(cfg)
    if kind == "llada":
        pre = "model.transformer."
        out = [("embed.weight", pre + "wte.weight"), ("norm", pre + "ln_f.weight"),
               ("head.weight", pre + "ff_out.weight")]
        parts = {"attn_norm": "attn_norm.weight", "ff_norm": "ff_norm.weight",
                 "wq.weight": "q_proj.weight", "wk.weight": "k_proj.weight",
                 "wv.weight": "v_proj.weight", "wo.weight": "attn_out.weight",
                 "gate.weight": "ff_proj.weight", "up.weight": "up_proj.weight",
                 "down.weight": "ff_out.weight"}
        stem = pre + "blocks."
    else:
        out = [("embed.weight", "model.embed_tokens.weight"), ("norm", "model.norm.weight"),
               ("head.weight", "lm_head.weight")]
        parts = {"attn_norm": "input_layernorm.weight",
                 "ff_norm": "post_attention_layernorm.weight",
                 "wq.weight": "self_attn.q_proj.weight", "wk.weight": "self_attn.k_proj.weight",
                 "wv.weight": "self_attn.v_proj.weight", "wo.weight": "self_attn.o_proj.weight",
                 "gate.weight": "mlp.gate_proj.weight", "up.weight": "mlp.up_proj.weight",
                 "down.weight": "mlp.down_proj.weight"}
        if cfg.qkv_bias:
            parts.update({f"w{x}.bias": f"self_attn.{x}_proj.bias" for x in "qkv"})
        else:
            parts.update({f"{x}_norm": f"self_attn.{x}_norm.weight" for x in "qk"})
        stem = "model.layers."
    for i in range(layers):
        out += [(f"layers.{i}.{a}", f"{stem}{i}.{b}") for a, b in parts.items()]
    return out


def llada_config(c):
    return {
        "activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0,
        "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0,
        "attention_layer_norm": False, "attention_layer_norm_with_affine": True,
        "bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama",
        "d_model": c.dim, "embedding_dropout": 0.0, "embedding_size": c.vocab,
        "eos_token_id": EOS, "flash_attention": False, "include_bias": False,
        "include_qkv_bias": False, "init_device": "cpu", "init_std": 0.02,
        "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True,
        "mask_token_id": MASK, "max_sequence_length": c.max_len, "mlp_hidden_size": c.ff,
        "mlp_ratio": 4, "model_type": "llada", "multi_query_attention": None,
        "n_heads": c.heads, "n_kv_heads": c.kv_heads, "n_layers": c.layers, "pad_token_id": EOS,
        "bos_token_id": BOS, "precision": "bf16", "residual_dropout": 0.0, "rms_norm_eps": c.eps,
        "rope": True, "rope_full_precision": True, "rope_theta": c.theta, "scale_logits": False,
        "torch_dtype": "bfloat16", "use_cache": False, "vocab_size": c.vocab,
        "weight_tying": False}


def qwen_config(c):
    architecture, model_type = {"sdar": ("SDARForCausalLM", "sdar"), "dream": ("DreamModel", "Dream"),
                                "fdv2": ("Fast_dLLM_QwenForCausalLM", "Fast_dLLM_Qwen"),
                                "ar": ("Qwen3ForCausalLM", "qwen3")}[c.kind]
    out = {
        "architectures": [architecture],
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": EOS,
        "eos_token_id": EOT, "pad_token_id": EOS, "head_dim": c.head_dim, "hidden_act": "silu",
        "hidden_size": c.dim, "initializer_range": 0.02, "intermediate_size": c.ff,
        "max_position_embeddings": c.max_len, "max_window_layers": c.layers,
        "model_type": model_type, "num_attention_heads": c.heads,
        "num_hidden_layers": c.layers, "num_key_value_heads": c.kv_heads, "rms_norm_eps": c.eps,
        "rope_scaling": None, "rope_theta": c.theta, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": c.kind == "ar",
        "use_sliding_window": False, "vocab_size": c.vocab}
    if c.kind != "ar":
        out["mask_token_id"] = MASK
    if c.kind == "sdar":
        out["block_size"] = c.block
    if c.kind == "fdv2":
        out["bd_size"] = c.block
    return out


def llada2_config(c):
    return {
        "architectures": ["LLaDA2MoeModelLM"], "attention_dropout": 0.0, "bos_token_id": EOS,
        "eos_token_id": EOT, "pad_token_id": EOS, "first_k_dense_replace": 1,
        "head_dim": c.head_dim, "hidden_act": "silu", "hidden_size": c.dim,
        "intermediate_size": c.ff, "mask_token_id": MASK, "max_position_embeddings": c.max_len,
        "model_type": "llada2_moe", "moe_intermediate_size": c.expert_ff,
        "moe_router_enable_expert_bias": True, "n_group": c.groups, "norm_topk_prob": True,
        "num_attention_heads": c.heads, "num_experts": c.experts, "num_experts_per_tok": c.chosen,
        "num_hidden_layers": c.layers, "num_key_value_heads": c.kv_heads,
        "num_shared_experts": c.shared_ff // c.expert_ff, "partial_rotary_factor": 1.0,
        "rms_norm_eps": c.eps, "rope_scaling": None, "rope_theta": c.theta,
        "routed_scaling_factor": c.scaling, "score_function": "sigmoid",
        "tie_word_embeddings": False, "topk_group": c.groups_kept, "torch_dtype": "bfloat16",
        "use_bias": False, "use_qk_norm": True, "use_qkv_bias": False, "vocab_size": c.vocab,
        "block_size": c.block}


def write_json(path, obj):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(obj, f, indent=2, ensure_ascii=False)
        f.write("\n")


def export(checkpoint, tokenizer_dir, out):
    c = config_of(checkpoint)
    state, kind = checkpoint["model"], checkpoint["kind"]
    os.makedirs(out, exist_ok=True)
    tensors = {b: state[a].to(torch.bfloat16).contiguous() for a, b in names(c)}
    fuse(tensors)
    order = sorted(tensors)
    total = sum(t.numel() * 2 for t in tensors.values())
    shards, size = [[], []], 0
    for k in order:
        shards[0 if size < total // 2 else 1].append(k)
        size += tensors[k].numel() * 2
    weight_map = {}
    for i, shard in enumerate(shards):
        name = f"model-{i + 1:05d}-of-00002.safetensors"
        save_file({k: tensors[k] for k in shard}, os.path.join(out, name), {"format": "pt"})
        weight_map.update({k: name for k in shard})
    write_json(os.path.join(out, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})
    # A Dream model made of a LLaDA model goes on speaking as it does.
    llada = kind == "llada" or checkpoint.get("text") == "llada"
    config = {"llada": llada_config, "llada2": llada2_config}.get(kind, qwen_config)
    write_json(os.path.join(out, "config.json"), config(c))
    gen = {"eos_token_id": [EOT, EOS], "pad_token_id": EOS, "bos_token_id": BOS if llada else EOS}
    if kind != "ar":
        gen["mask_token_id"] = MASK
    write_json(os.path.join(out, "generation_config.json"), gen)
    shutil.copyfile(os.path.join(tokenizer_dir, "llada.json" if llada else "qwen.json"),
                    os.path.join(out, "tokenizer.json"))
    specials = LLADA_SPECIALS if llada else QWEN_SPECIALS
    write_json(os.path.join(out, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {str(VOCAB - 6 + i): {
            "content": s, "lstrip": False, "normalized": False, "rstrip": False,
            "single_word": False, "special": True} for i, s in enumerate(specials)},
        "add_bos_token": False, "add_prefix_space": False,
        "bos_token": "<|startoftext|>" if llada else None,
        "eos_token": "<|endoftext|>" if llada else "<|im_end|>", "pad_token": "<|endoftext|>",
        "mask_token": specials[-1] if kind != "ar" else None,
        "chat_template": LLADA_TEMPLATE if llada else QWEN_TEMPLATE,
        "clean_up_tokenization_spaces": False, "errors": "replace",
        "model_max_length": c.max_len})


def load_exported(path):
    """Model with the exported (rounded) weights, computing in float32."""
    with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
        read = json.load(f)
    kind = {"llada": "llada", "sdar": "sdar", "qwen3": "ar", "Dream": "dream",
            "llada2_moe": "llada2", "Fast_dLLM_Qwen": "fdv2"}[read["model_type"]]
    layers = read["n_layers"] if kind == "llada" else read["num_hidden_layers"]
    block = read.get("block_size", read.get("bd_size", 32))
    model = Model(make_config(kind, layers, block, read.get("num_key_value_heads")))
    with open(os.path.join(path, "model.safetensors.index.json"), encoding="utf-8") as f:
        files = sorted(set(json.load(f)["weight_map"].values()))
    tensors = {}
    for name in files:
        tensors.update(load_file(os.path.join(path, name)))
    split(tensors, model.cfg)
    model.load_state_dict({a: tensors[b].float() for a, b in names(model.cfg)})
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--checkpoint", required=True)
    ap.add_argument("--tokenizer", required=True, help="folder with llada.json and qwen.json")
    ap.add_argument("--out", required=True)
    a = ap.parse_args()
    export(torch.load(a.checkpoint), a.tokenizer, a.out)


if __name__ == "__main__":
    main()
