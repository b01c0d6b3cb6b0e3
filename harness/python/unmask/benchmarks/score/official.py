# SPDX-License-Identifier: Apache-2.0
"""lm-eval's own tasks as scorers of single answers, without its models and without a data set.

torch is not needed to score an answer, so the package's __init__, which imports lm-eval's models, is
passed over. Nothing is downloaded."""

import functools
import glob
import importlib.metadata
import importlib.util
import logging
import os
import random
import re
import sys
import types

from unmask.rows.errors import EnvironmentFault, UserError

VERSION = "0.4.8"


@functools.lru_cache(None)
def load():
    """Makes lm-eval importable and returns its folder."""
    found = importlib.util.find_spec("lm_eval")
    if found is None:
        raise EnvironmentFault("NOT RUN: needs the Python package lm-eval; ./dev setup installs it")
    package = types.ModuleType("lm_eval")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["lm_eval"] = package
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # Two of IFEval's instructions need a sentence model, which lm-eval's first process downloads when it
    # is imported; where it is not installed they raise, and the item is undecided.
    os.environ["LOCAL_RANK"] = "1"
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    # Without a seed langdetect finds another language in a short text now and then.
    from langdetect import DetectorFactory
    DetectorFactory.seed = 0
    return package.__path__[0]


def libraries(*names):
    """{name: version} of the packages; EnvironmentFault where one is not installed."""
    try:
        return {name: importlib.metadata.version(name) for name in names}
    except importlib.metadata.PackageNotFoundError as missing:
        raise EnvironmentFault(f"NOT RUN: needs the Python package {missing.name}; ./dev setup "
                               "installs it") from None


@functools.lru_cache(None)
def find_task(name):
    """Path of the task's file; the file that bears its name is looked at first. None: no such task."""
    folder = os.path.join(load(), "tasks")
    named = glob.glob(os.path.join(folder, "**", f"{glob.escape(name)}.yaml"), recursive=True)
    says = re.compile(rf'^"?task"?: "?{re.escape(name)}"?\s*$', re.MULTILINE)
    for paths in (named, glob.iglob(os.path.join(folder, "**", "*.yaml"), recursive=True)):
        for path in paths:
            with open(path, encoding="utf-8") as file:
                if says.search(file.read()):
                    return path
    return None


def build_task(name, doc):
    """lm-eval's task of this name. `doc`: one record as its sample files hold it, that is, already
    through the task's process_docs (an `answer` that this adds may still be missing)."""
    load()
    doc = {"answer": ""} | doc
    import datasets
    import lm_eval.filters  # noqa: F401  (registers them)
    from lm_eval import utils
    from lm_eval.api.task import ConfigurableTask

    class Offline(ConfigurableTask):
        def download(self, *arguments, **options):
            rows = datasets.Dataset.from_list([doc])
            self.dataset = datasets.DatasetDict(
                {split: rows for split in ("train", "validation", "test", "dev")})

    path = find_task(name)
    if path is None:
        raise UserError(f"lm-eval {VERSION} has no task {name!r}; name the --benchmark")
    config = utils.load_yaml_config(path, mode="full")
    dropped = ("tag", "group", "num_fewshot", "process_docs", "fewshot_config")
    try:
        return Offline(config={k: v for k, v in config.items() if k not in dropped}
                       | {"num_fewshot": 0})
    except Exception as problem:
        raise UserError(f"lm-eval's task {name} does not take the first record: "
                        f"{type(problem).__name__}: {problem}") from None


def judge(task, doc, responses):
    """What the task's filters and metrics make of one answer: [{filter, text, metrics}].

    responses: the answer's text in a list, or (log likelihood, greedy) of every choice."""
    from lm_eval.api.instance import Instance
    arguments = ("", {})
    task._instances = [Instance(task.OUTPUT_TYPE, doc, arguments, index, resps=[response])
                       for index, response in enumerate(responses)]
    task.apply_filters()
    filters = []
    for name in task._instances[0].filtered_resps:
        filtered = [instance.filtered_resps[name] for instance in task._instances]
        filters.append({"filter": name, "text": filtered[0],
                        "metrics": task.process_results(doc, filtered)})
    return filters


def judge_drawn(task, doc, responses, seeds=range(6)):
    """judge, and whether its verdict hangs on a random draw of the task's own (IFEval draws what an
    instruction lacks): None then."""
    first = None
    for seed in seeds:
        random.seed(seed)
        before = random.getstate()
        filters = judge(task, doc, responses)
        if random.getstate() == before:
            return filters
        if first is not None and filters != first:
            return None
        first = filters
    return first
