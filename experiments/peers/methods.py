# SPDX-License-Identifier: Apache-2.0
"""The methods by the names and parameters that Unmask gives them, and the settings compared."""
import torch

from ada_dlm import AdaDlm
from caches import DkvCache, FastDllm, SparseDllm, Vanilla
from decode import decode_blocks
from feature_cache import DllmCache
from sparse import FocusDllm, SparseD

METHODS = {"vanilla": Vanilla, "fast_dllm": FastDllm, "dkv_cache": DkvCache,
           "sparse_dllm": SparseDllm, "dllm_cache": DllmCache, "sparse_d": SparseD,
           "focus_dllm": FocusDllm, "ada_dlm": AdaDlm}


def official_confidence(method):
    """dtype of the confidence softmax in the official LLaDA loops (of float32 logits)."""
    return torch.float64 if method in ("fast_dllm", "dkv_cache") else torch.float32


def loop_settings(method, settings):
    """What a method's official loop does differently, as decode_blocks takes it."""
    more = {}
    if method == "fast_dllm":
        more["until_clean"] = True
        # The cached loops look for masks after a partial forward only.
        more["min_steps"] = 1 if settings["cache"] == "none" else 2
    if method == "focus_dllm":
        more["leftovers"] = False
    return more | settings


@torch.inference_mode()
def decode(model, prompt, method, settings, trace=None):
    """Token ids of the canvas, settings["gen_length"] of them."""
    settings = loop_settings(method, settings)
    decoder = METHODS[method](model, prompt, settings)
    if method == "ada_dlm":
        return decoder.decode(prompt, trace)
    return decode_blocks(model, prompt, settings, decoder, trace)


def compared(config, gen_length, block_length=32):
    """[(label, method, settings)]: every method in the settings that both sides run."""
    plain = {"gen_length": gen_length, "block_length": min(block_length, gen_length),
             "steps": gen_length}
    dense = min(6, config.layers // 2)  # the paper's 6 of 28 or 32 layers leave none sparse here
    return [
        ("vanilla", "vanilla", plain),
        ("vanilla, threshold 0.9", "vanilla", plain | {"threshold": 0.9}),
        ("fast_dllm prefix", "fast_dllm", plain | {"cache": "prefix"}),
        ("fast_dllm dual", "fast_dllm", plain | {"cache": "dual"}),
        ("fast_dllm prefix, threshold 0.9", "fast_dllm",
         plain | {"cache": "prefix", "threshold": 0.9}),
        ("fast_dllm dual, threshold 0.9", "fast_dllm",
         plain | {"cache": "dual", "threshold": 0.9}),
        ("dkv_cache decode", "dkv_cache", plain | {"variant": "decode", "refresh_interval": 8}),
        ("dllm_cache", "dllm_cache", plain | {
            "prompt_interval_kp": 50, "response_interval_kr": 7, "transfer_ratio": 0.25}),
        ("sparse_d", "sparse_d", plain | {"skip": 0.2, "select": 0.3, "block_size": 16}),
        ("sparse_dllm", "sparse_dllm", plain | {
            "retention_ratio": 0.5, "kernel_size": 3, "pooling": "max", "delay": 1,
            "eviction": "bidirectional"}),
        ("focus_dllm", "focus_dllm", plain | {
            "rho": 4.0, "window": 8, "dense_layers": dense, "dense_tail_layers": 0, "alpha": 0.5,
            "sink_fraction": 0.01, "prompt_block_size": 16}),
        ("ada_dlm row_compact, block", "ada_dlm", {
            "gen_length": gen_length, "scope": "block", "block_length": plain["block_length"],
            "steps": 100, "k": 0.15, "history": 3, "execution": "row_compact",
            "confidence_dtype": "float64"}),
    ]
