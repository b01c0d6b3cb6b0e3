# SPDX-License-Identifier: Apache-2.0
"""Prompts as lm-evaluation-harness makes them: its own task definitions, samplers and templates
over records that are here already. torch is not needed to ask, so the package's __init__, which
imports lm-eval's models, is passed over."""

import contextlib
import glob
import importlib.metadata
import importlib.util
import json
import logging
import os
import re
import sys
import types
from unittest import mock

from unmask.rows.errors import EnvironmentFault, UserError

FEWSHOT_SEED = 1234  # simple_evaluate's
SPLITS = ("train", "validation", "test", "dev")


def version():
    return importlib.metadata.version("lm_eval")


def import_lm_eval():
    """Makes lm_eval importable without torch and without the network."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if "lm_eval" not in sys.modules:
        found = importlib.util.find_spec("lm_eval")
        if found is None:
            raise EnvironmentFault("NOT RUN: needs the Python package lm-eval 0.4.8; ./dev setup "
                                   "installs it")
        package = types.ModuleType("lm_eval")
        package.__path__ = list(found.submodule_search_locations)
        sys.modules["lm_eval"] = package
    import datasets
    datasets.disable_progress_bars()
    import lm_eval.filters  # noqa: F401  registers them
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return sys.modules["lm_eval"]


@contextlib.contextmanager
def nothing_fetched():
    """Some tasks fetch what scores an answer when they are imported: not to ask."""
    import evaluate
    import nltk
    with mock.patch.object(evaluate, "load", lambda *_, **__: mock.MagicMock()), \
            mock.patch.object(nltk, "download", lambda *_, **__: True), \
            mock.patch.object(nltk.data, "find", lambda *_, **__: True):
        yield


def task_config(name):
    """The definition of a task as lm-eval loads it."""
    from lm_eval import utils
    folder = os.path.join(import_lm_eval().__path__[0], "tasks")
    families = {"gsm8k": "gsm8k", "minerva": "minerva_math", "mmlu": "mmlu", "arc": "arc",
                "piqa": "piqa", "gpqa": "gpqa", "humaneval": "humaneval", "mbpp": "mbpp",
                "ifeval": "ifeval"}
    family = families[name.split("_")[0]]
    line = re.compile(rf'^"?task"?: "?{re.escape(name)}"?$', re.MULTILINE)
    for path in sorted(glob.glob(os.path.join(folder, family, "**", "*.yaml"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            if not line.search(file.read()):
                continue
        with nothing_fetched():
            config = utils.load_yaml_config(path, mode="full")
        return {key: value for key, value in config.items() if key not in ("tag", "group")}
    raise EnvironmentFault(f"lm-eval {version()} has no task {name}")


def once(function):
    """The same result for the same split: what later runs of lm-eval find in the cache of
    `datasets`. Without it GPQA's options would be shuffled anew at every look at the file."""
    results = {}

    def remembered(split):
        if id(split) not in results:
            results[id(split)] = (split, function(split))
        return results[id(split)][1]
    return remembered


def task_over(name, asked, pool, shots):
    """lm-eval's task over the records that are asked, with `shots` examples of `pool` before
    each."""
    import_lm_eval()
    import datasets
    from lm_eval.api.task import ConfigurableTask

    config = task_config(name)
    config["num_fewshot"] = shots
    if config.get("process_docs") is not None:
        config["process_docs"] = once(config["process_docs"])
    splits = {config.get("fewshot_split") or config.get("training_split"): pool,
              config.get("test_split") or config["validation_split"]: asked}

    class LocalTask(ConfigurableTask):
        def download(self, *_, **__):
            self.dataset = datasets.DatasetDict(
                {split: datasets.Dataset.from_list(splits.get(split, [])) for split in SPLITS})

    return LocalTask(config=config)


def check_examples(task, name, shots):
    """An example that is drawn must be whole; too few are an error before lm-eval's own."""
    if shots == 0:
        return
    if getattr(task, "sampler", None) is None:
        raise UserError(f"the task {name} has no examples to put before the question; `shots` must "
                        "be 0")
    wanted = shots + (task.config.fewshot_split == task.config.test_split)
    first_n = (task.config.fewshot_config or {}).get("sampler") == "first_n"
    if len(task.sampler.docs) < (shots if first_n else wanted):
        raise UserError(f"{name}: {shots} examples were asked for, and there are "
                        f"{len(task.sampler.docs)}")
    draw = task.sampler.sample

    def sample(count):
        drawn = draw(count)
        for row in drawn:
            if not any(isinstance(value, str) and value.strip() for value in row.values()):
                raise EnvironmentFault(f"{name}: a drawn example is empty; the file of its "
                                       "examples is incomplete")
        return drawn
    task.sampler.sample = sample


def turns(history, **_):
    return json.dumps(history)


def ask(task, shots, form, world=1, rank=-1):
    """{number of the document: (text or turns, continuations)}; lm-eval gives every process
    documents of its own and a generator of its own. rank below 0: those of all processes."""
    chat = form in ("one-turn", "chat")
    asked = {}
    for process in range(world) if rank < 0 else [rank]:
        task.set_fewshot_seed(FEWSHOT_SEED)
        for number in range(process, len(task.task_docs), world):
            document = task.task_docs[number]
            text = task.fewshot_context(document, shots, None, chat, form == "chat",
                                        turns if chat else None,
                                        gen_prefix=task.doc_to_prefix(document))
            continuations = []
            if task.OUTPUT_TYPE == "multiple_choice":
                requests = task.construct_requests(doc=document, ctx=text, apply_chat_template=chat,
                                                   chat_template=turns if chat else None,
                                                   metadata=(None, number, 1))
                continuations = [request.arguments[1] for request in requests]
            asked[number] = (json.loads(text) if chat else text, continuations)
    return dict(sorted(asked.items()))


def right_choice(task, document):
    target = task.doc_to_target(document)
    return target if isinstance(target, int) else task.doc_to_choice(document).index(target)
