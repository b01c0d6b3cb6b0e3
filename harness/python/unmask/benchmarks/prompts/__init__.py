# SPDX-License-Identifier: Apache-2.0
"""unmask prompts: write benchmark prompts, for machines without Python.

Here the tasks of one published benchmark, as its harness asks them, in one file; the program asks for those of
an experiment."""

import os

from unmask.benchmarks.prompts.registry import FORMS
from unmask.benchmarks.prompts.write import Request, write
from unmask.rows import options


def main(arguments):
    parser = options.parser(__doc__)
    parser.add_argument("benchmark", help="name of `unmask list benchmarks`")
    parser.add_argument("-o", "--output", required=True, help="tasks file to write (JSON lines)")
    parser.add_argument("--harness", default="", help="ID or ID/CONFIG (the first of the name)")
    parser.add_argument("--task", default="", help="one subject or task (all)")
    parser.add_argument("--prompt", default="", choices=("", *FORMS), help="form (the harness's)")
    parser.add_argument("--shots", type=int, default=-1, help="examples (the harness's)")
    parser.add_argument("--no-system", action="store_true", help="without the system message")
    parser.add_argument("--world", type=int, default=1, help="processes that lm-eval asks with")
    parser.add_argument("--rank", type=int, default=-1, help="of these, the documents of one (all)")
    parser.add_argument("--max-prompt-tokens", type=int, default=-1,
                        help="a longer prompt loses examples; 0: no limit (the harness's)")
    parser.add_argument("--tokenizer", default="", help="tokenizer.json of the model, where items "
                        "are made to a number of tokens")
    parser.add_argument("--data", action="append", default=[],
                        help="folder of data sets, or of this one (repeatable; then "
                             "$UNMASK_DATASETS)")
    parser.add_argument("--quiet", action="store_true", help="say nothing of the file written")
    given = parser.parse_args(arguments)
    folders = [f for f in os.environ.get("UNMASK_DATASETS", "").split(":") if f]
    head = write(Request(given.benchmark, given.harness, given.task, given.prompt, given.shots,
                         not given.no_system, given.world, given.rank, given.max_prompt_tokens,
                         given.tokenizer, tuple(given.data + folders)), given.output)
    if not given.quiet:
        print(f"{given.output}: {head['items']} items of {head['benchmark']}, {head['version']}, "
              f"{head['config']}")
    return 0
