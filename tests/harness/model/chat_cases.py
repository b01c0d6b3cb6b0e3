# SPDX-License-Identifier: Apache-2.0
"""Random conversations rendered by transformers from the templates that the program knows.

chat_cases.py --write FILE COUNT [SEED]: COUNT cases for each template as JSON lines.
Without arguments: 3,000 for each, compared by the test program
$UNMASK_MODEL_TEST (ctest model.chat_cases); skipped (77) where transformers is missing."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "tests/data/templates"
EMBEDDED = ROOT / "experiments/models"
# Format of the program: the tokenizer_config.json that holds its template.
TEMPLATES = {
    "llada": PUBLISHED / "llada_8b.json",
    "qwen3": PUBLISHED / "qwen3_sdar.json",
    "qwen25": PUBLISHED / "dream.json",
    "ling": PUBLISHED / "llada2_mini.json",
    "headers": EMBEDDED / "tiny-llada/tokenizer_config.json",
    "chatml": EMBEDDED / "tiny-sdar/tokenizer_config.json",
}
PIECES = ["What is 2 + 2?", " ", "\n", "\n\n", "\t", "<think>", "</think>", "<think>\n\n</think>\n\n",
          "<tool_response>", "</tool_response>", "<|im_end|>", "<|eot_id|>", "\u001c", "\u001f", "\u0085",
          "\u00a0", "\u3000", "\u200b", "é", "数学", "🙂", "'quoted'", "{{ x }}", "{% if %}", "\\n", "a", "Answer: 4"]


def random_text(dice):
    return "".join(dice.choice(PIECES) for _ in range(dice.randrange(0, 7)))


def random_chat(dice):
    chat = [{"role": "system", "content": random_text(dice)}] if dice.random() < 0.3 else []
    for _ in range(dice.randrange(1, 4)):
        chat.append({"role": "user", "content": random_text(dice)})
        if dice.random() < 0.15:
            chat[-1]["content"] = "<tool_response>" + chat[-1]["content"] + "</tool_response>"
        if dice.random() < 0.7:
            chat.append({"role": "assistant", "content": random_text(dice)})
        if dice.random() < 0.1:
            chat.append({"role": "system", "content": random_text(dice)})
    return chat


def cases(count, seed):
    from transformers.utils.chat_template_utils import render_jinja_template
    for name, path in TEMPLATES.items():
        config = json.loads(path.read_text(encoding="utf-8"))
        dice = random.Random(f"{seed} {name}")
        for _ in range(count):
            chat, opened = random_chat(dice), dice.random() < 0.7
            off = name in ("qwen3", "ling") and dice.random() < 0.3
            more = {"enable_thinking": False} if off else {}
            if config.get("bos_token"):
                more["bos_token"] = config["bos_token"]
            texts, _ = render_jinja_template([chat], chat_template=config["chat_template"],
                                             add_generation_prompt=opened, **more)
            yield {"format": name, "generation_prompt": opened, "thinking_off": off,
                   "messages": chat, "text": texts[0]}


def write(path, count, seed):
    with open(path, "w", encoding="utf-8") as out:
        for case in cases(count, seed):
            out.write(json.dumps(case, ensure_ascii=False) + "\n")


def check(program):
    try:
        import transformers  # noqa: F401
    except ModuleNotFoundError:
        print("NOT RUN: needs the Python package transformers")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cases.jsonl")
        write(path, 3000, random.randrange(1 << 30))
        return subprocess.run([program, "--gtest_filter=chat_template.equals_the_cases_of_a_file"],
                              env={**os.environ, "UNMASK_CHAT_CASES": path}, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    else:
        sys.exit(check(os.environ["UNMASK_MODEL_TEST"]))
