# SPDX-License-Identifier: Apache-2.0
"""The metrics of LongBench v1 (THUDM/LongBench 2e00731, metrics.py and eval.py, MIT; OpenCompass 0.4.2
copies them), over the packages that it takes: rouge, jieba, fuzzywuzzy with Levenshtein. Each compares
one prediction with one reference, 0 to 1; recorded results of the original hold them."""

import collections
import difflib
import functools
import logging
import re
import string

CHINESE = ("！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿"
           "–—‘’‛“”„‟…‧﹏.")
PUNCTUATION = set(string.punctuation)


@functools.lru_cache(None)
def _jieba():
    import jieba
    jieba.setLogLevel(logging.ERROR)
    jieba.initialize()
    return jieba


def cut(text):
    """jieba's words, precise mode with its HMM."""
    return list(_jieba().cut(text, cut_all=False))


def _english(text):
    text = "".join(c for c in text.lower() if c not in PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def _chinese(text):
    dropped = PUNCTUATION | set(CHINESE)
    words = ("".join("".join(c for c in word.lower() if c not in dropped).split())
             for word in cut(text))
    return [word for word in words if word]


def _f1(prediction, reference):
    common = sum((collections.Counter(prediction) & collections.Counter(reference)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(prediction), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def qa_f1(prediction, reference, _):
    return _f1(_english(prediction), _english(reference))


def qa_f1_zh(prediction, reference, _):
    return _f1(_chinese(prediction), _chinese(reference))


def rouge(prediction, reference, _):
    """F of ROUGE-L of the package rouge; 0 where it raises, as published."""
    from rouge import Rouge
    try:
        return Rouge().get_scores([prediction], [reference], avg=True)["rouge-l"]["f"]
    except Exception:  # noqa: BLE001  (as published)
        return 0.0


def rouge_zh(prediction, reference, _):
    return rouge(" ".join(cut(prediction)), " ".join(cut(reference)), _)


def classification(prediction, reference, classes):
    """1 / the number of class names in the prediction where the reference is among them. The published
    loop removes from the list that it walks over and so skips a name; kept."""
    found = [name for name in classes if name in prediction]
    for name in found:
        if name in reference and name != reference:
            found.remove(name)
    return 1.0 / len(found) if reference in found else 0.0


def _share(prediction, wanted):
    numbers = re.findall(r"\d+", prediction)
    return sum(number == wanted for number in numbers) / len(numbers) if numbers else 0.0


def retrieval(prediction, reference, _):
    return _share(prediction, re.findall(r"Paragraph (\d+)", reference)[0])


def retrieval_zh(prediction, reference, _):
    return _share(prediction, re.findall(r"段落(\d+)", reference)[0])


def count(prediction, reference, _):
    return _share(prediction, str(reference))


def _code_line(prediction):
    for line in prediction.lstrip("\n").split("\n"):
        if not any(mark in line for mark in ("`", "#", "//")):
            return line
    return ""


def code_similarity(prediction, reference, _):
    """fuzzywuzzy's ratio, in whole percent, of the first line of code."""
    from fuzzywuzzy import fuzz
    return fuzz.ratio(_code_line(prediction), reference) / 100


def code_similarity_difflib(prediction, reference):
    """What fuzzywuzzy gives where python-Levenshtein is not installed, as in LongBench's own list."""
    line = _code_line(prediction)
    if line == reference:
        return 1.0
    return round(100 * difflib.SequenceMatcher(None, line, reference).ratio()) / 100


METRICS = {
    "narrativeqa": qa_f1, "qasper": qa_f1, "multifieldqa_en": qa_f1, "multifieldqa_zh": qa_f1_zh,
    "hotpotqa": qa_f1, "2wikimqa": qa_f1, "musique": qa_f1, "dureader": rouge_zh,
    "gov_report": rouge, "qmsum": rouge, "multi_news": rouge, "vcsum": rouge_zh,
    "trec": classification, "triviaqa": qa_f1, "samsum": rouge, "lsht": classification,
    "passage_retrieval_en": retrieval, "passage_count": count, "passage_retrieval_zh": retrieval_zh,
    "lcc": code_similarity, "repobench-p": code_similarity}
FIRST_LINE = ("trec", "triviaqa", "samsum", "lsht")


def score(task, prediction, references, classes, opencompass=True):
    """The best over the references. opencompass: its rouge_zh cuts the prediction anew for every
    reference, the cut text of the one before; LongBench cuts the prediction itself each time."""
    metric = METRICS[task]
    if task in FIRST_LINE:
        prediction = prediction.lstrip("\n").split("\n")[0]
    best = 0.0
    for reference in references:
        if opencompass and metric is rouge_zh:
            prediction = " ".join(cut(prediction))
            value = rouge(prediction, " ".join(cut(reference)), None)
        else:
            value = metric(prediction, reference, classes or [])
        best = max(best, value)
    return best
