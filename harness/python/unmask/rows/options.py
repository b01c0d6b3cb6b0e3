# SPDX-License-Identifier: Apache-2.0
"""Options of a command, as the program takes them: whole names, and _ and - are the same."""

import argparse


EXAMPLES = {
    "bundle": "bundle runs/quickstart -o quickstart.tar",
    "rerun": "rerun quickstart.tar",
    "plan": "plan experiments/focus/table_1.toml --scheduler slurm --shards 8 -o runs/focus",
    "merge": "merge runs/focus -o focus.jsonl",
    "report": "report runs/quickstart",
    "score": "score runs/gsm8k/samples",
}


def parser(command, description, epilog=None):
    """Makes a parser of `unmask COMMAND`; --help ends with an example and `epilog`."""
    example = f"example: unmask {EXAMPLES[command]}"
    return argparse.ArgumentParser(
        prog=f"unmask {command}", allow_abbrev=False, description=description,
        epilog=f"{example}; {epilog}" if epilog else example)


def spelled(arguments):
    """Writes option names with - where they were given with _."""
    def one(word):
        name, equals, value = word.partition("=")
        return name.replace("_", "-") + equals + value if word.startswith("--") else word
    return [one(word) for word in arguments]
