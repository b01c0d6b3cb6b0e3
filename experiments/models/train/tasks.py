# SPDX-License-Identifier: Apache-2.0
"""Generators of the task families; those of parallel.py are the last six. Every item is exactly scorable (see README.md).

A generator takes a `random.Random` and an optional size hint and returns a dict with the keys
family, prompt, answer, scorer, check, gen_length.
"""
import hashlib
import random

import listlang
from parallel import PARALLEL
from words import (ADJECTIVES, ADVERBS, BY_LETTER, CATEGORIES, KEYS, LETTERS, NAMES, OBJECTS,
                   PLACES, THINGS, UPPER, VERBS)


def item(family, prompt, answer, scorer, check=None, gen_length=64):
    return {"family": family, "prompt": prompt, "answer": answer, "scorer": scorer,
            "check": check or {}, "gen_length": gen_length}


# ---------------------------------------------------------------- filler prose

def filler_sentence(rng):
    animal, adj = rng.choice(CATEGORIES["animal"]), rng.choice(ADJECTIVES)
    place, thing, verb = rng.choice(PLACES), rng.choice(THINGS), rng.choice(VERBS)
    kind = rng.randrange(8)
    if kind == 0:
        return f"The {adj} {animal} {verb} near the {place}."
    if kind == 1:
        return f"The {thing} by the {place} was {adj}."
    if kind == 2:
        return f"The {animal} {verb} {rng.choice(ADVERBS)} with {rng.choice(NAMES)}."
    if kind == 3:
        return f"The {adj} {thing} was in the {place} {rng.choice(ADVERBS)}."
    if kind == 4:
        return f"The {animal} and the {rng.choice(CATEGORIES['animal'])} {verb} at the {place}."
    if kind == 5:
        return f"The {place} was {adj} and {rng.choice(ADJECTIVES)}."
    if kind == 6:
        return f"The {rng.choice(CATEGORIES['colour'])} {thing} was {adj}."
    return f"The {animal} {verb} under the {rng.choice(CATEGORIES['colour'])} {thing}."


def filler(rng, tokens):
    """About `tokens` tokens of prose (a sentence has about nine)."""
    out, used = [], 0
    while used < tokens:
        s = filler_sentence(rng)
        out.append(s)
        used += len(s.split()) + 1
    return out


# ---------------------------------------------------------------- word problems

class Chain:
    """A running total with the sentences and the working that belong to it."""

    def __init__(self, rng, name, thing):
        self.rng, self.name, self.thing = rng, name, thing
        self.text, self.work = [], []
        self.value = rng.randint(3, 40)
        self.text.append(rng.choice([
            f"{name} has {self.value} {thing}.",
            f"{name} starts with {self.value} {thing}.",
            f"There are {self.value} {thing} in the bag of {name}.",
        ]))

    def step(self):
        rng, v, name, thing = self.rng, self.value, self.name, self.thing
        other = rng.choice([n for n in NAMES if n != name])
        kinds = ["add", "sub", "add", "sub", "bags"]
        if v <= 30:
            kinds += ["mul"]
        divisors = [d for d in range(2, 10) if v % d == 0 and v // d >= 2]
        if divisors:
            kinds += ["div", "div"]
        kind = rng.choice(kinds)
        if kind == "add" and v < 96:
            n = rng.randint(2, min(40, 99 - v))
            self.text.append(rng.choice([
                f"{name} buys {n} more.", f"{other} gives {name} {n} more.",
                f"Then {name} finds {n} {thing}.", f"{name} gets {n} new {thing}."]))
            self.push("+", n, v + n)
        elif kind == "bags" and v < 80:
            k = rng.randint(2, 6)
            m = rng.randint(2, 9)
            if v + k * m > 99:
                return self.step()
            self.text.append(rng.choice([
                f"{name} buys {k} boxes with {m} {thing} each.",
                f"{other} brings {k} bags of {m} {thing}."]))
            self.work.append(f"{k}*{m}={k * m}")
            self.push("+", k * m, v + k * m)
        elif kind == "mul":
            k = 2 if v > 24 else rng.choice([2, 3] if v > 11 else [2, 3, 4])
            if v * k > 99:
                k = 2
            word = {2: "twice", 3: "three times", 4: "four times"}[k]
            self.text.append(rng.choice([
                f"After a week {name} has {word} as many.",
                f"Then the number of {thing} grows to {word} as many."]))
            self.push("*", k, v * k)
        elif kind == "div":
            d = rng.choice(divisors)
            self.text.append(rng.choice([
                f"{name} shares them equally among {d} friends and looks at one share.",
                f"{name} puts them into {d} equal rows and keeps one row."]))
            self.push("/", d, v // d)
        elif v > 4:
            n = rng.randint(2, min(40, v - 1))
            self.text.append(rng.choice([
                f"{name} loses {n}.", f"{name} gives {n} to {other}.",
                f"Then {name} sells {n} {thing}.", f"{other} takes {n} of them."]))
            self.push("-", n, v - n)
        else:
            return self.step()
        return None

    def push(self, op, n, result):
        self.work.append(f"{self.value}{op}{n}={result}")
        self.value = result


def word_problem(rng, size=None):
    name, thing = rng.choice(NAMES), rng.choice(OBJECTS)
    kind = rng.random()
    distractor = None
    if rng.random() < 0.3:
        o = rng.choice([x for x in OBJECTS if x != thing])
        distractor = f"{rng.choice([n for n in NAMES if n != name])} has {rng.randint(2, 50)} {o}."
    if kind < 0.6:
        chain = Chain(rng, name, thing)
        while len(chain.work) < rng.choice([2, 2, 3, 3, 4]):
            chain.step()
        text, work, value = chain.text, chain.work, chain.value
        question = rng.choice([f"How many {thing} does {name} have now?",
                               f"How many {thing} are left with {name}?",
                               f"What is the final number of {thing}?"])
    elif kind < 0.8:
        other = rng.choice([n for n in NAMES if n != name])
        a, b = rng.randint(5, 40), rng.randint(2, 20)
        more = rng.random() < 0.6 or b >= a - 1
        c = a + b if more else a - b
        if a + c > 99:
            a, c, more = 20, 20 + b, True
        text = [f"{name} has {a} {thing}.",
                f"{other} has {b} {'more' if more else 'fewer'} {thing} than {name}."]
        work = [f"{a}{'+' if more else '-'}{b}={c}", f"{a}+{c}={a + c}"]
        value = a + c
        question = rng.choice([f"How many {thing} do they have together?",
                               "How many do they have in total?"])
        if rng.random() < 0.4:
            d = rng.randint(2, min(30, value - 1))
            text.append(f"Together they give away {d}.")
            question = f"How many {thing} do they have together after that?"
            work.append(f"{value}-{d}={value - d}")
            value -= d
    else:
        p, n = rng.randint(2, 9), rng.randint(2, 9)
        pay = rng.randint(p * n + 1, 99)
        text = [rng.choice([f"Each of the {thing} costs {p} coins.",
                            f"A shop sells {thing} for {p} coins each."]), f"{name} buys {n}."]
        work, cost = [f"{n}*{p}={n * p}"], n * p
        if rng.random() < 0.5 and cost + 12 < 99:
            fee = rng.randint(2, 12)
            text.append(f"The bag costs {fee} coins.")
            work.append(f"{cost}+{fee}={cost + fee}")
            cost += fee
            pay = rng.randint(cost + 1, 99) if cost < 98 else 99
        text.append(f"{name} pays with {pay} coins.")
        work.append(f"{pay}-{cost}={pay - cost}")
        value = pay - cost
        question = rng.choice(["How many coins come back?", f"How much change does {name} get?"])
    if distractor:
        text.insert(rng.randint(1, len(text)), distractor)
    prompt = " ".join(text) + " " + question
    return item("word_problem", prompt, ", ".join(work) + f" #### {value}", "final_number",
                {"value": value})


# ---------------------------------------------------------------- equations

def equation(rng, size=None):
    kind = rng.random()
    if kind < 0.25:
        a, x, b = rng.randint(2, 9), rng.randint(2, 10), rng.randint(1, 30)
        plus = rng.random() < 0.5
        c = a * x + b if plus else a * x - b
        if not 0 < c < 100:
            return equation(rng)
        expr = f"{a}x {'+' if plus else '-'} {b} = {c}"
        back = "-" if plus else "+"
        work, value = f"{a}x={c}{back}{b}={a * x}, x={a * x}/{a}={x}", x
    elif kind < 0.4:
        a, y, b = rng.randint(2, 9), rng.randint(2, 10), rng.randint(1, 30)
        plus = rng.random() < 0.5
        c = y + b if plus else y - b
        if c < 1:
            return equation(rng)
        expr = f"x / {a} {'+' if plus else '-'} {b} = {c}"
        back = "-" if plus else "+"
        work, value = f"x/{a}={c}{back}{b}={y}, x={y}*{a}={y * a}", y * a
    elif kind < 0.55:
        a, y, b = rng.randint(2, 9), rng.randint(3, 10), rng.randint(1, 9)
        plus = rng.random() < 0.5 and y > b
        x = y - b if plus else y + b
        expr = f"{a}(x {'+' if plus else '-'} {b}) = {a * y}"
        sign, back = ("+", "-") if plus else ("-", "+")
        work, value = f"x{sign}{b}={a * y}/{a}={y}, x={y}{back}{b}={x}", x
    else:
        a, b = rng.randint(2, 40), rng.randint(2, 20)
        if kind < 0.75:
            v, expr, parts = a + b, f"({a} + {b})", [f"{a}+{b}={a + b}"]
        else:
            a, b = rng.randint(2, 9), rng.randint(2, 9)
            v, expr, parts = a * b, f"{a} * {b}", [f"{a}*{b}={a * b}"]
        for _ in range(rng.choice([1, 2, 2, 3])):
            ops = ["+", "-"]
            if kind < 0.75 and len(parts) == 1:
                ops = ["*"] if v * 2 <= 99 else ["/"] if any(v % d == 0 for d in (2, 3, 5)) else ops
            op = rng.choice(ops)
            if op == "+" and v < 95:
                n = rng.randint(2, min(40, 99 - v))
            elif op == "*":
                n = rng.randint(2, min(9, 99 // v))
            elif op == "/":
                n = rng.choice([d for d in (2, 3, 5) if v % d == 0])
            elif v > 3:
                op, n = "-", rng.randint(2, min(40, v - 1))
            else:
                op, n = "+", rng.randint(2, 40)
            r = {"+": v + n, "-": v - n, "*": v * n, "/": v // n}[op]
            parts.append(f"{v}{op}{n}={r}")
            expr, v = f"{expr} {op} {n}", r
        work, value = ", ".join(parts), v
        prompt = rng.choice([f"Evaluate {expr}.", f"Compute {expr}.", f"What is {expr}?"])
        return item("equation", prompt, f"{work} #### {value}", "final_number", {"value": value})
    prompt = rng.choice([f"Solve for x: {expr}.", f"Find x if {expr}.",
                         f"What is x when {expr}?"])
    return item("equation", prompt, f"{work} #### {value}", "final_number", {"value": value})


# ---------------------------------------------------------------- list programs

PHRASES = {
    "sort": ["sort the list", "put the numbers in rising order", "order the list from low to high"],
    "reverse": ["reverse the list", "turn the list around", "flip the order"],
    "double": ["double every number", "multiply each number by two", "make each number twice as big"],
    "square": ["square every number", "multiply each number by itself"],
    "negate": ["negate every number", "flip the sign of each number"],
    "unique": ["remove repeats", "keep only the first copy of each number"],
    "evens": ["keep the even numbers", "remove the odd numbers"],
    "odds": ["keep the odd numbers", "remove the even numbers"],
    "take": ["keep the first {n}", "take the first {n} numbers", "cut the list after {n} numbers"],
    "drop": ["drop the first {n}", "skip the first {n} numbers", "remove {n} numbers at the front"],
    "add": ["add {n} to each number", "raise every number by {n}"],
    "above": ["keep numbers above {n}", "remove every number up to {n}"],
    "sum": ["add everything up", "return the sum", "give the total"],
    "max": ["return the largest number", "give the biggest number"],
    "min": ["return the smallest number", "give the least number"],
    "count": ["count the numbers", "return how many numbers there are"],
}

def list_program(rng, size=None):
    n_ops = rng.choice([2, 3, 3, 4, 4, 5])
    ops, texts, last = [], [], None
    reduce_last = rng.random() < 0.5
    for i in range(n_ops):
        pool = listlang.REDUCERS if reduce_last and i == n_ops - 1 else listlang.LIST_OPS
        op = rng.choice([o for o in pool if o != last])
        last = op
        n = rng.randint(1, 9 if op in ("add", "above") else 5)
        texts.append(rng.choice(PHRASES[op]).format(n=n))
        ops.append(f"{op} {n}" if op in listlang.WITH_ARGUMENT else op)
    joined = rng.choice([", then ", ", ", "; "]).join(texts)
    prompt = rng.choice(["Write a list program: {}.", "Make a program that does this: {}.",
                         "Program these steps: {}.", "Given a list of numbers, {}."]).format(joined)
    program = " | ".join(ops)
    inputs = [[rng.randint(-9, 20) for _ in range(rng.randint(6, 10))] for _ in range(3)]
    inputs[0] += inputs[0][:2]
    inputs.append([7, 7, 2, 12, -3, 9, 4, 9, 15, 1])
    outputs = [listlang.run(program, x) for x in inputs]
    return item("list_program", prompt, program, "list_program",
                {"inputs": inputs, "outputs": outputs})


# ---------------------------------------------------------------- instructions

SEPARATORS = [(", ", "commas"), (" - ", "dashes"), (" / ", "slashes")]
ENDINGS = ["DONE", "STOP", "END"]


def instruction(rng, size=None):
    kind = rng.randrange(8)
    sep, sep_name = rng.choice(SEPARATORS)
    end = rng.choice(ENDINGS) if rng.random() < 0.4 else None
    tail = f" {end}" if end else ""
    extra = f" End with {end}." if end else ""
    base = {"sep": sep, "strip": tail}
    rules = []
    if kind in (0, 1):
        cat = rng.choice(list(CATEGORIES))
        n = rng.randint(2, 5)
        pool = CATEGORIES[cat][:9]
        banned = rng.choice(pool) if kind == 1 else None
        words = sorted(rng.sample([w for w in pool if w != banned], n))
        if kind == 1:
            prompt = rng.choice([f"Name {n} words of the kind {cat} in alphabetical order without "
                                 f"using {banned}, separated by {sep_name}.",
                                 f"List {n} {cat} words from a to z, but never write {banned}. "
                                 f"Use {sep_name} between them."])
            rules.append({"type": "not_contains", "text": banned})
        else:
            prompt = rng.choice([f"Write exactly {n} {cat} names in alphabetical order, separated "
                                 f"by {sep_name}.",
                                 f"List {n} {cat} words from a to z with {sep_name} between them."])
        rules += [{"type": "item_count", **base, "count": n},
                  {"type": "items_in", **base, "set": pool},
                  {"type": "items_unique", **base}, {"type": "sorted", **base}]
        answer = sep.join(words) + tail
    elif kind == 2:
        word, n = rng.choice(UPPER), rng.randint(2, 6)
        prompt = rng.choice([f"Repeat the word {word} {n} times in upper case.",
                             f"Write {word} in capital letters {n} times."])
        answer = " ".join([word.upper()] * n) + tail
        rules += [{"type": "all_upper"}, {"type": "repeat", "text": word.upper(), "count": n},
                  {"type": "word_count", "count": n + (1 if end else 0)}]
    elif kind == 3:
        letter, n = rng.choice(LETTERS), rng.randint(2, 5)
        words = sorted(rng.sample(BY_LETTER[letter], n))
        prompt = rng.choice([f"Answer with {n} different words that all start with {letter}, in "
                             f"alphabetical order, separated by {sep_name}.",
                             f"Give {n} words beginning with {letter} from a to z and put "
                             f"{sep_name} between them."])
        answer = sep.join(words) + tail
        rules += [{"type": "item_count", **base, "count": n},
                  {"type": "items_start_with", **base, "prefix": letter},
                  {"type": "items_unique", **base}, {"type": "sorted", **base}]
    elif kind == 4:
        words = rng.sample(KEYS, rng.randint(2, 6))
        prompt = rng.choice([f"Write these words in reverse order with {sep_name}: "
                             f"{' '.join(words)}.",
                             f"Give the words from last to first, separated by {sep_name}: "
                             f"{' '.join(words)}."])
        answer = sep.join(reversed(words)) + tail
        rules.append({"type": "equals", "text": answer})
    elif kind == 5:
        words = rng.sample(KEYS, rng.randint(3, 10))
        prompt = rng.choice([f"Copy these words with {sep_name}: {' '.join(words)}.",
                             f"Write the words in the same order, separated by {sep_name}: "
                             f"{' '.join(words)}."])
        answer = sep.join(words) + tail
        rules.append({"type": "equals", "text": answer})
    elif kind == 6:
        pair, n = rng.sample(KEYS, 2), rng.randint(2, 4)
        prompt = rng.choice([f"Write {pair[0]} and then {pair[1]}, {n} times in turn, separated by "
                             f"{sep_name}.",
                             f"Alternate {pair[0]} with {pair[1]} so that each comes {n} times, "
                             f"using {sep_name}."])
        answer = sep.join(pair * n) + tail
        rules += [{"type": "repeat", "text": pair[0], "count": n},
                  {"type": "repeat", "text": pair[1], "count": n},
                  {"type": "item_count", **base, "count": 2 * n},
                  {"type": "starts_with", "text": pair[0]}]
        if pair[0] in pair[1] or pair[1] in pair[0]:
            return instruction(rng)
    else:
        cat = rng.choice(list(CATEGORIES))
        mine = rng.sample(CATEGORIES[cat][:7], rng.randint(1, 4))
        rest = rng.sample(PLACES, rng.randint(1, 4))
        words = mine + rest
        rng.shuffle(words)
        prompt = rng.choice([f"Write only the {cat} words of this list, separated by {sep_name}: "
                             f"{' '.join(words)}.",
                             f"Pick every {cat} from these words and use {sep_name}: "
                             f"{' '.join(words)}."])
        answer = sep.join(w for w in words if w in mine) + tail
        rules.append({"type": "equals", "text": answer})
    if end:
        rules.append({"type": "ends_with", "text": end})
    return item("instruction", prompt + extra, answer, "constraints", {"constraints": rules}, 32)


# ---------------------------------------------------------------- retrieval and needles

def retrieval_kv(rng, size=None):
    """`size` is the approximate context length in tokens."""
    if size is None:
        size = rng.randint(20, 160)
    words = rng.random() < 0.4
    n = max(2, min(size // 6, rng.randint(8, 30)))
    keys = rng.sample(KEYS, n)
    pairs = []
    for k in keys:
        if words:
            pool = CATEGORIES[rng.choice(("colour", "fruit"))][:7]
            pairs.append((k, " -> " + rng.choice(pool)))
        else:
            pairs.append((k, f"={rng.randint(10, 99)}"))
    records = [k + v for k, v in pairs]
    rest = size - 6 * n
    if rest > 30:
        prose = filler(rng, rest)
        lines, per = [], max(1, n // 8)
        chunks = [records[i:i + per] for i in range(0, n, per)]
        cuts = sorted(rng.randint(0, len(prose)) for _ in chunks)
        at = 0
        for cut, chunk in zip(cuts, chunks):
            lines += prose[at:cut] + ["Record: " + "; ".join(chunk) + "."]
            at = cut
        body = " ".join(lines + prose[at:])
    else:
        body = "Records: " + "; ".join(records) + "."
    k = rng.choice([1, 1, 2, 3, 4])
    chosen = rng.sample(pairs, min(k, n))
    names = [c[0] for c in chosen]
    listed = " and ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + " and " + names[-1]
    question = rng.choice([f"Look up {listed}.", f"What is stored for {listed}?",
                           f"Give the record of {listed}."])
    answer = "Found: " + "; ".join(a + b for a, b in chosen)
    return item("retrieval_kv", f"{body} {question}", answer, "exact", {}, 32)


def needle(rng, size=None):
    if size is None:
        size = rng.randint(24, 160)
    places = rng.sample(PLACES, 3)
    codes = ["".join(rng.choice("0123456789") for _ in range(rng.choice([3, 4]))) for _ in places]
    facts = [f"The code of the {p} is {c}." for p, c in zip(places, codes)]
    prose = filler(rng, max(0, size - 30))
    for fact in facts[:rng.choice([1, 1, 2, 3])]:
        prose.insert(rng.randint(0, len(prose)), fact)
    question = rng.choice([f"What is the code of the {places[0]}?",
                           f"Find the code of the {places[0]}.",
                           f"Which code does the {places[0]} have?"])
    return item("needle", " ".join(prose) + " " + question, facts[0], "contains",
                {"text": codes[0]}, 32)


def needle_at(rng, size, depth):
    """A needle behind the share `depth` of about `size` tokens of prose."""
    place, code = rng.choice(PLACES), "".join(rng.choice("0123456789") for _ in range(3))
    fact = f"The code of the {place} is {code}."
    prose = filler(rng, max(0, size - 30))
    prose.insert(round(depth * len(prose)), fact)
    return item("needle", " ".join(prose) + f" What is the code of the {place}?", fact, "contains",
                {"text": code}, 32)


# ---------------------------------------------------------------- summaries and stories

def summary(rng, size=None):
    if size is None:
        size = rng.randint(30, 160)
    prose = filler(rng, size)
    n_key = min(len(prose), rng.choice([1, 2, 2, 3, 4]))
    marks = set(rng.sample(range(len(prose)), n_key))
    body = " ".join(("* " + s) if i in marks else s for i, s in enumerate(prose))
    ask = rng.choice(["Summarize: copy the sentences with a star in order.",
                      "Write a summary made of the starred sentences."])
    answer = " ".join(s for i, s in enumerate(prose) if i in marks)
    return item("summary", f"{body} {ask}", answer, "rouge_l", {}, 64)


def story(rng, size=None):
    name, friend = rng.sample(NAMES, 2)
    thing, place, adj = rng.choice(THINGS), rng.choice(PLACES), rng.choice(ADJECTIVES)
    opening = rng.choice([f"One day {name} found a {adj} {thing} near the {place}.",
                          f"{name} lived by the {place} and had a {adj} {thing}.",
                          f"{name} lost a {adj} {thing} in the {place}."])
    prompt = rng.choice(["Continue the story: ", "Tell what happens next: "]) + opening
    lines = []
    for _ in range(rng.randint(3, 12)):
        animal = rng.choice(CATEGORIES["animal"])
        lines.append(rng.choice([
            f"{name} walked to the {rng.choice(PLACES)} with the {thing}.",
            f"{friend} saw the {thing} and {rng.choice(VERBS)}.",
            f"Then a {rng.choice(ADJECTIVES)} {animal} {rng.choice(VERBS)} near {name}.",
            f"The {thing} was {rng.choice(ADJECTIVES)} and {rng.choice(ADJECTIVES)}.",
            f"{name} and {friend} {rng.choice(VERBS)} {rng.choice(ADVERBS)}.",
            f"The {animal} took the {thing} to the {rng.choice(PLACES)}.",
        ]))
    lines[0] = "Then " + lines[0] if lines[0].startswith(("Ana", name, friend)) else lines[0]
    lines.append(f"In the end {name} {rng.choice(['was happy', 'went home', 'slept'])}.")
    return item("story", prompt, " ".join(lines), "none", {}, 128)


# ---------------------------------------------------------------- ledgers

def ledger(rng, size=None):
    """A chain of `size` additions and subtractions whose results are all written: an answer of
    several blocks in which each result needs the one before it. Values stay from 0 to 99, and no
    change comes twice, so that the change before says which one is next."""
    first = value = rng.randint(5, 95)
    asked, work = [], []
    for _ in range(size or rng.randint(2, 30)):
        signs = "+-" if rng.random() < (0.8 if value < 35 else 0.5 if value < 65 else 0.2) else "-+"
        changes = [[f"{sign}{n}" for n in range(2, 41) if f"{sign}{n}" not in asked
                    and 0 <= value + int(f"{sign}{n}") <= 99] for sign in signs]
        change = rng.choice(changes[0] or changes[1])
        asked.append(change)
        work.append(f"{value}{change}={value + int(change)}")
        value += int(change)
    prompt = rng.choice(["Start with {}, then apply {} and write each result.",
                         "The balance is {}. Book {} one by one.",
                         "Begin at {} and do {} in order."]).format(first, " ".join(asked))
    return item("ledger", prompt, f"{', '.join(work)} #### {value}", "final_number",
                {"value": value})


GENERATORS = {"word_problem": word_problem, "equation": equation, "list_program": list_program,
              "instruction": instruction, "retrieval_kv": retrieval_kv, "needle": needle,
              "summary": summary, "story": story, "ledger": ledger, **PARALLEL}
FAMILIES = list(GENERATORS)


def prompt_hash(prompt):
    return hashlib.blake2b(prompt.encode(), digest_size=8).digest()


class Stream:
    """Endless training items; prompts whose hash is in `excluded` never appear."""

    def __init__(self, seed, excluded=()):
        self.rng = random.Random(seed)
        self.excluded = set(excluded)

    def draw(self, family, size=None):
        while True:
            it = GENERATORS[family](self.rng, size)
            if prompt_hash(it["prompt"]) not in self.excluded:
                return it
