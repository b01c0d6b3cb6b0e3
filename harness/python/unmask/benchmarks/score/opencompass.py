# SPDX-License-Identifier: Apache-2.0
"""How OpenCompass reads an answer out of a text and compares it.

OpenCompass (0.4.2 and 0.5.1.post1, Apache-2.0) needs a deep-learning stack to be installed, so its
postprocessors and evaluators of these benchmarks are written here once more; recorded results of the
original hold them (tests/goldens/evals/scorers)."""

import re

# ---- choices

# The patterns of first_option_postprocess in their order; @ stands for the valid letters. In the
# published list a comma is missing after the fourteenth, so that Python glues it to the next one;
# kept, because it decides cases.
OPTION_PATTERNS = [
    r"答案是?\s*([@])",
    r"答案是?\s*：\s*([@])",
    r"答案是?\s*:\s*([@])",
    r"答案选项应?该?是\s*([@])",
    r"答案选项应?该?为\s*([@])",
    r"答案应该?是\s*([@])",
    r"答案应该?选\s*([@])",
    r"答案选项为?\s*：\s*([@])",
    r"答案选项为?\s+\(?\*?\*?([@])\*?\*?\)?",
    r"答案选项是?\s*:\s*([@])",
    r"答案为\s*([@])",
    r"答案选\s*([@])",
    r"选择?\s*([@])",
    r"故选?\s*([@])只有选?项?\s?([@])\s?是?对",
    r"只有选?项?\s?([@])\s?是?错",
    r"只有选?项?\s?([@])\s?不?正确",
    r"只有选?项?\s?([@])\s?错误",
    r"说法不?对选?项?的?是\s?([@])",
    r"说法不?正确选?项?的?是\s?([@])",
    r"说法错误选?项?的?是\s?([@])",
    r"([@])\s?是正确的",
    r"([@])\s?是正确答案",
    r"选项\s?([@])\s?正确",
    r"所以答\s?([@])",
    r"所以\s?([@][.。$]?$)",
    r"所有\s?([@][.。$]?$)",
    r"[\s，：:,]([@])[。，,\.]?$",
    r"[\s，,：:][故即]([@])[。\.]?$",
    r"[\s，,：:]因此([@])[。\.]?$",
    r"[是为。]\s?([@])[。\.]?$",
    r"因此\s?([@])[。\.]?$",
    r"显然\s?([@])[。\.]?$",
    r"答案是\s?(\S+)(?:。|$)",
    r"答案应该是\s?(\S+)(?:。|$)",
    r"答案为\s?(\S+)(?:。|$)",
    r"(?i:ANSWER\s*:\s*([@]))",
    r"[Tt]he answer is:?\s+\(?([@])\)?",
    r"[Tt]he answer is:?\s+\(?\*?\*?([@])\*?\*?\)?",
    r"[Tt]he answer is option:?\s+\(?([@])\)?",
    r"[Tt]he correct answer is:?\s+\(?([@])\)?",
    r"[Tt]he correct answer is option:?\s+\(?([@])\)?",
    r"[Tt]he correct answer is:?.*?boxed\{([@])\}",
    r"[Tt]he correct option is:?.*?boxed\{([@])\}",
    r"[Tt]he correct answer option is:?.*?boxed\{([@])\}",
    r"[Tt]he answer to the question is:?\s+\(?([@])\)?",
    r"^选项\s?([@])",
    r"^([@])\s?选?项",
    r"(\s|^)[@][\s。，,：:\.$]",
    r"1.\s?(.*?)$",
    r"1.\s?([@])[.。$]?$",
    r"([@]):",
    r"([@])",
]


def first_capital(text):
    """The first upper-case character of any script, whatever it is."""
    return next((c for c in text if c.isupper()), "")


def first_option(text, options):
    """The letter that the first matching pattern finds."""
    text = text.strip()
    for pattern in OPTION_PATTERNS:
        match = re.search(pattern.replace("@", options), text, re.DOTALL)
        if not match:
            continue
        found = match.group(1) or match.group(0)
        for letter in options:
            if letter in found:
                return letter
    return ""


# ---- GSM8K

def gsm8k_reference(solution):
    """The number behind the mark of a worked solution."""
    parts = solution.split("#### ")
    return parts[1].replace(",", "") if len(parts) > 1 else ""


def gsm8k_answer(text):
    """The last number before the next question."""
    numbers = re.findall(r"\-?\d+\.\d+|\-?\d+", text.split("Question:")[0])
    return numbers[-1] if numbers else "NULL"


def gsm8k_equal(answer, reference):
    try:
        return answer == reference or abs(float(answer) - int(reference)) < 1e-6
    except (ValueError, OverflowError):
        return False


# ---- MATH

def last_boxed(text):
    r"""What stands in the last \boxed{...}; None where there is none or it does not close."""
    begin = text.rfind("\\boxed")
    if begin < 0:
        begin = text.rfind("\\fbox")
    if begin < 0:
        return None
    depth = 0
    for at in range(begin, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                command = text[begin:at + 1]
                left = "\\boxed{"
                return command[len(left):-1] if command.startswith(left) else None
    return None


REPLACED = [("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text"),
            (",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}"), ("\\le", "<")]
REMOVED = ["square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units",
           "\\ldots", "sue", "points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm",
           "pounds", "meters", "meals", "edges", "students", "childrentickets", "multiples", "\\text{s}",
           "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}",
           "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots", "\n", "\r", "\f"]


def normal(answer):
    """normalize_final_answer of the MATH postprocessors."""
    for before, after in REPLACED:
        answer = answer.replace(before, after)
    for word in REMOVED:
        answer = answer.replace(word, "")
    answer = re.sub(r"(\\text\{)\((.*?)\)(\})", "\\2", answer)
    for command in ("text", "textbf", "overline"):
        answer = re.sub(r"(\\%s\{)(.*?)(\})" % command, "\\2", answer)
    answer = re.sub(r"(\\boxed\{)(.*)(\})", "\\2", answer)
    for pattern in (r"finalansweris(.*)", r"answer?is:?(.*)", r"oxed\{(.*?)\}", r"\$(.*?)\$"):
        found = re.findall(pattern, answer)
        if found:
            answer = found[-1]
    answer = answer.strip()
    if "rac" in answer and "\\frac" not in answer:
        answer = answer.replace("rac", "\\frac")
    answer = re.sub(r"(frac)([^{])(.)", "frac{\\2}{\\3}", answer)
    answer = re.sub(r"(sqrt)([^{])", "sqrt{\\2}", answer)
    answer = answer.replace("$", "")
    if answer.replace(",", "").isdigit():
        answer = answer.replace(",", "")
    return answer


def math_answer(text, version):
    """math_postprocess (1) and math_postprocess_v2 (2)."""
    if version == 2:
        boxed = last_boxed(text)
        if boxed is not None:
            doubled = re.match(r"^\{(.*)\}$", boxed)
            boxed = doubled.group(1) if doubled else boxed
            if boxed:
                return boxed
    marks = ("final answer",) if version == 1 else ("final answer", "answer is")
    for sentence in text.split("."):
        if any(mark in sentence.lower() for mark in marks):
            return normal(sentence)
    return normal(text.split(".")[0])


def _fractions(text):
    parts = text.split("\\frac")
    out = parts[0]
    for part in parts[1:]:
        out += "\\frac"
        if part.startswith("{"):
            out += part
            continue
        if len(part) < 2:
            return text
        a, b, rest = part[0], part[1], part[2:]
        out += "{" + a + "}" + (b if b == "{" else "{" + b + "}") + rest
    return out


def _slash(text):
    parts = text.split("/")
    if len(parts) != 2:
        return text
    a, b = int(parts[0]), int(parts[1])
    return f"\\frac{{{a}}}{{{b}}}" if text == f"{a}/{b}" else text


def _roots(text):
    parts = text.split("\\sqrt")
    out = parts[0]
    for part in parts[1:]:
        out += "\\sqrt" + (part if part[0] == "{" else "{" + part[0] + "}" + part[1:])
    return out


def _without_short_side(text):
    sides = text.split("=")
    return sides[1] if len(sides) == 2 and len(sides[0]) <= 2 else text


def _strip_1(text):
    """_strip_string of version 1; raises where that raises."""
    text = text.replace("\n", "").replace("\\!", "").replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    for part in ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$"):
        text = text.replace(part, "")
    if "\\text{ " in text:
        parts = text.split("\\text{ ")
        if len(parts) != 2:
            raise ValueError("several units")
        text = parts[0]
    text = text.replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    if text[0] == ".":
        text = "0" + text
    text = _fractions(_roots(_without_short_side(text)).replace(" ", ""))
    return _slash("\\frac{1}{2}" if text == "0.5" else text)


def _strip_2(text):
    """_strip_string_v2; raises where that raises."""
    text = text.strip().replace("\n", "").rstrip(".")
    text = text.replace("\\!", "").replace("\\ ", "").replace("\\\\", "\\").replace("\\\\", "\\")
    text = text.replace("tfrac", "frac").replace("dfrac", "frac")
    text = text.replace("\\left", "").replace("\\right", "")
    text = re.sub(r"\\text{.*?}$", "", text).strip() or text
    for part in ("^{\\circ}", "^\\circ", "\\$", "$", "\\text", "x\\in", "\\%", "%"):
        text = text.replace(part, "")
    text = text.replace(" .", " 0.").replace("{.", "{0.").replace("\\cdot", "")
    text = text.replace("infinity", "\\infty")
    if "\\infty" not in text:
        text = text.replace("inf", "\\infty")
    text = text.replace("+\\inity", "\\infty").replace("and", "").replace("\\mathbf", "")
    text = re.sub(r"\\mbox{.*?}", "", text)
    if "j" in text and "i" not in text:
        text = text.replace("j", "i")
    text = re.sub(r"(\d+)\.0+([^\d])", r"\1\2", text)
    text = re.sub(r"(\d+)\.0+$", r"\1", text)
    if not text:
        return text
    if text[0] == ".":
        text = "0" + text
    text = re.sub(r"\\sqrt(\w+)", r"\\sqrt{\1}", _without_short_side(text))
    return _slash(_fractions(text.replace(" ", "")))


def math_equal(a, b, version):
    """is_equiv of MATHEvaluator; where stripping raises it goes on with the texts as they came."""
    strip = _strip_1 if version == 1 else _strip_2
    try:
        x, y = strip(a), strip(b)
        if x == y or normal(x) == normal(y):
            return True
    except Exception:  # noqa: BLE001  (as published)
        pass
    return normal(a) == normal(b) or a == b


def math_verify(text, reference):
    """MATHVerifyEvaluator: (right, the parsed answer), by math-verify."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
    gold = parse(f"${reference}$", extraction_mode="first_match",
                 extraction_config=[LatexExtractionConfig(), ExprExtractionConfig()])
    if not gold:
        return False, ""
    spelling = NormalizationConfig(nits=False, malformed_operators=False, basic_latex=True,
                                   equations=True, boxed="all", units=True)
    answer = parse(text, extraction_mode="first_match", extraction_config=[
        LatexExtractionConfig(normalization_config=spelling, boxed_match_priority=0,
                              try_extract_without_anchor=False)])
    return bool(verify(answer, gold)), str(answer[-1]) if answer else ""


# ---- programs

def _blocks(text):
    return re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)


def first_block(text):
    """The first fenced block, else the text."""
    blocks = _blocks(text)
    return blocks[0] if blocks else text


def before_fence(text):
    return text.split("```")[0]


def last_block(text):
    """The last fenced block, without white space on its left."""
    blocks = _blocks(text)
    return (blocks[-1] if blocks else before_fence(text)).lstrip()


MBPP_PATTERNS = [
    r"\[BEGIN\]\s*'(.*)'\s*\[DONE\]", r"BEGIN\s*'(.*)'\s*\[DONE\]", r"\[BEGIN\]\s*'(.*)'\s*DONE",
    r"BEGIN\s*'(.*)'\s*DONE", r"\[BEGIN\]\s*'(.*)\s*\[DONE\]", r"BEGIN\s*'(.*)\s*\[DONE\]",
    r"\[BEGIN\]\s*'(.*)\s*DONE", r"BEGIN\s*'(.*)\s*DONE", r"\[BEGIN\]\s*(.*)\s*\[DONE\]",
    r"BEGIN\s*(.*)\s*\[DONE\]", r"\[BEGIN\]\s*(.*)\s*DONE", r"BEGIN\s*(.*)\s*DONE",
    r"```python\s*(.*)\s*```", r"```\s*(.*)\s*```", r"```python\s*(.*)\s*$", r"```\s*(.*)\s*$",
    r"(.*)\s*```.*", r"\[BEGIN\]\s*'(.*)", r"\[BEGIN\](.*)", r"'(.*)'\s*\[DONE\]"]


def mbpp_program(text):
    """_process_answer of MBPPEvaluator."""
    for pattern in MBPP_PATTERNS:
        match = re.search(pattern, text, re.DOTALL)
        if match:
            text = match.group(1)
            break
    text = re.split(r"'?\s*\[?DONE\]?", text.split("```")[0])[0]
    return text.replace("\\_", "_").strip()
