# SPDX-License-Identifier: Apache-2.0
"""Chat templates that the program does not know: `python -m unmask chat` against transformers, and its
bounds (ctest python.chat)."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests/harness/model"))
from chat_cases import random_chat  # noqa: E402

UNKNOWN = {
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
              "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] "
              "| trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
              "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "default system": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' "
                      "%}{{ '<|im_start|>system\nYou are kind.<|im_end|>\n' }}{% endif %}"
                      "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
                      "+ '\n'}}{% endfor %}{% if add_generation_prompt %}"
                      "{{ '<|im_start|>assistant\n' }}{% endif %}",
    "no think": "{%- for m in messages %}\n    {{- '<|im_start|>' + m.role + '\\n' + m.content + "
                "'<|im_end|>\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
                "    {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}\n{%- endif %}",
    "blocks": "{% for m in messages %}\n  {% if m.role == 'system' %}\n  {% continue %}\n  {% endif %}\n"
              "[{{ m.role }}] {{ m | tojson }}{% generation %}{{ m.content }}{% endgeneration %}\n"
              "{% endfor %}\n{% set box = namespace(n=0) %}{{ box.n }}{{ tools is none }}\n",
}
VARIABLES = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


def run_chat(template, chats):
    """Return the finished process of one call."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "asked.jsonl")
        with open(path, "w", encoding="utf-8") as out:
            print(json.dumps({"template": template, "variables": VARIABLES, "where": "some/file"}),
                  file=out)
            for chat in chats:
                print(json.dumps({"messages": chat, "add_generation_prompt": True}), file=out)
        return subprocess.run([sys.executable, "-P", "-B", "-m", "unmask", "chat", path],
                              env={**os.environ, "PYTHONPATH": str(ROOT / "harness/python")},
                              capture_output=True, text=True, timeout=120, check=False)


class Chat(unittest.TestCase):
    def test_equals_transformers(self):
        try:
            from transformers.utils.chat_template_utils import render_jinja_template
        except ModuleNotFoundError:
            self.skipTest("NOT RUN: needs the Python package transformers")
        dice = random.Random(7)
        for name, template in UNKNOWN.items():
            chats = [random_chat(dice) for _ in range(1000)]
            expected, _ = render_jinja_template(chats, chat_template=template,
                                                add_generation_prompt=True, **VARIABLES)
            done = run_chat(template, chats)
            self.assertEqual(done.returncode, 0, done.stderr)
            texts = [json.loads(line)["text"] for line in done.stdout.splitlines()]
            self.assertEqual(texts, expected, name)

    def refused(self, template, words):
        done = run_chat(template, [[{"role": "user", "content": "x"}]])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("some/file", done.stderr)
        self.assertIn(words, done.stderr)

    def test_says_what_is_wrong(self):
        self.refused("a\n{% if %}", "line 2")
        self.refused("{{ raise_exception('roles must alternate') }}", "roles must alternate")
        self.refused("{{ missing + 'x' }}", "missing")

    def test_reaches_nothing(self):
        self.refused("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe")
        self.refused("{{ messages.append(1) }}", "unsafe")
        self.refused("{% include '/etc/passwd' %}", "no loader")

    def test_is_bounded_in_size_and_memory(self):
        self.refused("{{ 'x' * 20000000 }}", "characters")
        self.refused("{{ 'x' * 3000000000 }}", "GiB")

    def test_is_bounded_in_time(self):
        loops = "".join("{%% for %s in range(99999) %%}" % name for name in "abcd")
        self.refused(loops + "{% endfor %}" * 4, "takes more than")

    def test_is_bounded_while_it_is_compiled(self):
        # jinja2 computes what is constant in advance and swallows what is raised there.
        start = time.monotonic()
        self.refused("{{ ('a' * 1000000) | wordwrap(1) | length }}", "takes more than")
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 60)
        self.assertLess(time.monotonic() - start, 120)

    def test_half_a_character_is_none(self):
        self.refused("{{ '\\ud800' }}hi", "writes U+D800, half of a surrogate pair")

    def test_a_message_keeps_its_order(self):
        done = run_chat("{{ messages | tojson }}", [[{"role": "user", "content": "hi"}]])
        self.assertEqual(json.loads(done.stdout)["text"], '[{"role": "user", "content": "hi"}]')


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        print("NOT RUN: needs Python 3.11")
        sys.exit(77)
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        print("NOT RUN: needs the Python package jinja2")
        sys.exit(77)
    unittest.main()
