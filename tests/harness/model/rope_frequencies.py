# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/rope_frequencies.json: rotary frequencies and attention factors of scaled models, by
ROPE_INIT_FUNCTIONS of transformers 5.24.

python rope_frequencies.py > fixtures/rope_frequencies.json       (with torch and transformers)
"""
import json

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LLAMA31 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
QWEN3 = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
# (head_dim, rope_theta, max_position_embeddings, partial_rotary_factor, scaling)
CASES = [
    (128, 5e5, 131072, 1.0, LLAMA31),
    (64, 5e5, 131072, 1.0, {**LLAMA31, "factor": 32.0}),
    (64, 1e4, 16384, 1.0, {"type": "llama3", "factor": 2.5, "low_freq_factor": 0.5,
                           "high_freq_factor": 9.0}),
    (128, 1e6, 131072, 1.0, QWEN3),
    (128, 1e6, 40960, 1.0, {**QWEN3, "factor": 1.5}),
    (128, 1e6, 40960, 1.0, {"type": "yarn", "factor": 2.0}),
    (64, 1e4, 163840, 1.0, {"rope_type": "yarn", "factor": 40.0, "beta_fast": 32, "beta_slow": 1,
                            "mscale": 1.0, "mscale_all_dim": 0.707,
                            "original_max_position_embeddings": 4096}),
    (96, 1e5, 65536, 0.5, {"rope_type": "yarn", "factor": 8.0, "beta_fast": 4.0, "beta_slow": 0.5,
                           "truncate": False, "original_max_position_embeddings": 8192}),
    (64, 1e4, 65536, 1.0, {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.75,
                           "original_max_position_embeddings": 2048}),
    (64, 1e4, 65536, 1.0, {"rope_type": "yarn", "factor": None,
                           "original_max_position_embeddings": 2048}),
    (128, 1e4, 16384, 1.0, {"type": "linear", "factor": 4.0}),
    (64, 1e6, 32768, 0.25, {"rope_type": "linear", "factor": 2.5}),
]


def case(head_dim, theta, positions, partial, scaling):
    config = transformers.Qwen3Config(head_dim=head_dim, rope_theta=theta, rope_scaling=dict(scaling),
                                      max_position_embeddings=positions,
                                      partial_rotary_factor=partial)
    kind = scaling.get("rope_type", scaling.get("type"))
    frequency, magnitude = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    return {"config": {"head_dim": head_dim, "rope_theta": theta, "rope_scaling": scaling,
                       "max_position_embeddings": positions, "partial_rotary_factor": partial},
            "frequency": [float(f"{f:.8g}") for f in frequency.tolist()],
            "magnitude": float(f"{magnitude:.10g}")}


def main():
    made = "tests/harness/model/rope_frequencies.py with transformers " + transformers.__version__
    print(json.dumps({"made by": made, "cases": [case(*c) for c in CASES]}))


if __name__ == "__main__":
    main()
