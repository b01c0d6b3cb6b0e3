# SPDX-License-Identifier: Apache-2.0
"""A model of the tree + delta = a folder of the layout that LLaDA-V, Dimple or MMaDA is published in. Needs numpy.

python make.py tiny-llada-v [--delta FILE] [--out FOLDER]
"""
import argparse
import json
import os
import shutil
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "smol"))
from merge import bfloat16, read_safetensors, write_json, write_made_of, write_safetensors  # noqa: E402

SCALE = 2.0  # of a LoRA's product, as in train.py
LAYERS = 5   # that have a LoRA
BASES = {"tiny-llada-v": "tiny-llada", "tiny-dimple": "tiny-dream", "tiny-mmada": "tiny-llada"}
CODEBOOK, PICTURE_TOKENS = 256, [245, 246, 247]
# The matrices of a layer as train.py names them, in LLaDA's names and in those of transformers' models.
NATIVE = {"wq": "q_proj", "wk": "k_proj", "wv": "v_proj", "wo": "attn_out", "gate": "ff_proj", "up": "up_proj",
          "down": "ff_out"}
USUAL = {"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj",
         "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
NORMS = {"attn_norm": "input_layernorm", "ff_norm": "post_attention_layernorm"}
SIGLIP = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 3,
          "image_size": 56, "patch_size": 14}
QWEN = {"depth": 2, "hidden_size": 48, "hidden_act": "silu", "intermediate_size": 96, "num_heads": 3, "in_channels": 3,
        "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2, "tokens_per_second": 2,
        "window_size": 56, "out_hidden_size": 48, "fullatt_block_indexes": [1]}


def read_json(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def shards_of(folder):
    names = set(read_json(folder, "model.safetensors.index.json")["weight_map"].values())
    return [os.path.join(folder, name) for name in sorted(names)]


def base_of(folder):
    """Name to float32 array of all shards."""
    found = {}
    for path in shards_of(folder):
        found.update(read_safetensors(path))
    return found


def stem(native, layer):
    return f"model.transformer.blocks.{layer}." if native else f"model.layers.{layer}."


def with_loras(tensors, delta, native):
    names = NATIVE if native else USUAL
    for layer in range(LAYERS):
        for ours, theirs in names.items():
            name = f"{stem(native, layer)}{theirs}.weight"
            a, b = (delta[f"layers.{layer}.{ours}.{part}"] for part in "ab")
            tensors[name] = tensors[name] + SCALE * (b @ a)
    return tensors


def usual_names(tensors):
    """Those of a LLaDA checkpoint as LLaDA-V's has them."""
    renamed = {"model.embed_tokens.weight": tensors["model.transformer.wte.weight"],
               "model.norm.weight": tensors["model.transformer.ln_f.weight"],
               "lm_head.weight": tensors["model.transformer.ff_out.weight"]}
    for layer in range(LAYERS):
        for ours, theirs in [*NATIVE.items(), *((norm, norm) for norm in NORMS)]:
            to = NORMS.get(ours) or USUAL[ours]
            renamed[f"{stem(False, layer)}{to}.weight"] = tensors[f"{stem(True, layer)}{theirs}.weight"]
    return renamed


def llada_v(config, tensors, delta):
    """Squares of one to four views; the encoder's last layer, which no code computes, is not there."""
    changed = {
        "architectures": ["LlavaLLaDAModelLM"], "model_type": "llava_llada", "attention_bias": False,
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": config["d_model"],
        "intermediate_size": config["mlp_hidden_size"], "max_position_embeddings": config["max_sequence_length"],
        "num_attention_heads": config["n_heads"], "num_hidden_layers": config["n_layers"],
        "num_key_value_heads": config["n_kv_heads"], "rope_scaling": None, "tie_word_embeddings": False,
        "mm_vision_tower": "tiny/siglip-tiny-patch14", "mm_projector_type": "mlp2x_gelu", "mm_hidden_size": 48,
        "mm_patch_merge_type": "spatial_unpad", "mm_vision_select_layer": -2, "mm_vision_select_feature": "patch",
        "image_aspect_ratio": "anyres_max_4", "image_grid_pinpoints": [[56, 56], [56, 112], [112, 56], [112, 112]],
        "tokenizer_padding_side": "right", "tokenizer_model_max_length": config["max_sequence_length"],
        "vision_config": SIGLIP}
    kept = ("vocab_size", "rms_norm_eps", "rope_theta", "eos_token_id", "pad_token_id", "mask_token_id",
            "bos_token_id", "torch_dtype", "use_cache")
    seeing = {name: value for name, value in delta.items() if name.startswith("model.")}
    return changed | {key: config[key] for key in kept}, usual_names(with_loras(tensors, delta, True)) | seeing, {}


def dimple(config, tensors, delta):
    seeing = {name: value for name, value in delta.items() if name.startswith(("visual.", "img_projector."))}
    changed = config | {"architectures": ["DimpleModel"], "model_type": "dimple", "mrope_section": [4, 6, 6],
                        "full_attn_mask": True, "vision_config": QWEN}
    # A picture of 56 x 56 pixels is made 112 x 112: a cell becomes a merged patch.
    return changed, with_loras(tensors, delta, False) | seeing, {
        "preprocessor_config.json": {"min_pixels": 12544, "max_pixels": 50176, "patch_size": 14, "merge_size": 2,
                                     "temporal_patch_size": 2, "resample": 3}}


def mmada(config, tensors, delta):
    """Codes are tokens behind the text's. The head answers them as little as it does a byte that no text has."""
    tensors = with_loras(tensors, delta, True)
    tensors["model.transformer.wte.weight"] = np.concatenate([tensors["model.transformer.wte.weight"], delta["embeddings"]])
    head = tensors["model.transformer.ff_out.weight"]
    tensors["model.transformer.ff_out.weight"] = np.concatenate([head, head[PICTURE_TOKENS[:1]].repeat(CODEBOOK, 0)])
    words = config["vocab_size"]
    changed = config | {"architectures": ["MMadaModelLM"], "model_type": "mmada", "embedding_size": words + CODEBOOK,
                        "vocab_size": words + CODEBOOK, "new_vocab_size": words + CODEBOOK, "llm_vocab_size": words,
                        "codebook_size": CODEBOOK, "num_vq_tokens": 16, "num_new_special_tokens": 0,
                        "picture_tokens": PICTURE_TOKENS}
    return changed, tensors, {}


MAKERS = {"tiny-llada-v": llada_v, "tiny-dimple": dimple, "tiny-mmada": mmada}


def make(name, delta, out):
    """Writes the folder of model `name`; `delta` is a file."""
    base = os.path.join(MODELS, BASES[name])
    config, tensors, more = MAKERS[name](read_json(base, "config.json"), base_of(base), read_safetensors(delta))
    os.makedirs(out, exist_ok=True)
    tensors = {key: bfloat16(value) for key, value in tensors.items()}
    write_safetensors(os.path.join(out, "model.safetensors"), tensors)
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(os.path.join(base, file), os.path.join(out, file))
    for file, value in more.items():
        write_json(out, file, value)
    write_made_of(out, [delta, os.path.join(base, "config.json"), *shards_of(base)])
    write_json(out, "config.json", config)  # last: it makes the folder a model
    return sum(value.nbytes for value in tensors.values())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("name", choices=sorted(MAKERS))
    ap.add_argument("--delta")
    ap.add_argument("--out")
    a = ap.parse_args()
    folder = os.path.join(MODELS, a.name)
    delta, out = a.delta or os.path.join(folder, "delta.safetensors"), a.out or folder
    if not os.path.exists(delta):
        raise SystemExit(f"{delta}: there is no delta; ../README.md says how it is trained")
    print(f"{out}: {make(a.name, delta, out) / 1e6:.1f} MB of weights")


if __name__ == "__main__":
    main()
