# SPDX-License-Identifier: Apache-2.0
"""Trains the byte-level BPE on generated text and writes tokenizer.json for each model.

Usage: python tokenizer.py --out DIR   (writes DIR/llada.json and DIR/qwen.json)
"""
import argparse
import json
import os
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, trainers

from tasks import FAMILIES, Stream
from words import ALL_WORDS, BY_LETTER, UPPER

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
VOCAB = 1024
FIRST_WORDS = "Evaluate Compute Solve Program Write Make Given Repeat Answer List Copy".split()
# The first six are the same ids in both files: text start, text end, and so on.
LLADA_SPECIALS = ["<|endoftext|>", "<|startoftext|>", "<|start_header_id|>", "<|end_header_id|>",
                  "<|eot_id|>", "<|mdm_mask|>"]
QWEN_SPECIALS = ["<|endoftext|>", "<|unused_0|>", "<|im_start|>", "<|unused_1|>",
                 "<|im_end|>", "<|MASK|>"]
EOS, BOS, TURN, HEADER_END, EOT, MASK = range(VOCAB - 6, VOCAB)


def corpus(seed, per_family):
    stream = Stream(seed)
    for family in FAMILIES:
        for _ in range(per_family):
            it = stream.draw(family)
            yield it["prompt"]
            yield it["answer"]
    for _ in range(per_family):
        yield "user\n\n"
        yield "assistant\n\n"
        yield "user\n"
        yield "assistant\n"
    words = set()
    for family in FAMILIES:
        for _ in range(per_family):
            it = stream.draw(family)
            words.update(re.findall(r"[A-Za-z]+", it["prompt"] + " " + it["answer"]))
    for w in sorted(words):
        yield from [" " + w] * (per_family // 6)
    for w in ALL_WORDS + [w.upper() for w in UPPER]:
        yield from [w] * (per_family // 12)
    for w in list(BY_LETTER) + FIRST_WORDS:
        yield from [w] * (per_family // 6)


def new_tokenizer(model):
    tok = Tokenizer(model)
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    return tok


def add_specials(base_json, names):
    tok = Tokenizer.from_str(base_json)
    tok.add_special_tokens([AddedToken(n, special=True, normalized=False) for n in names])
    assert tok.get_vocab_size() == VOCAB, tok.get_vocab_size()
    assert [tok.token_to_id(n) for n in names] == list(range(VOCAB - 6, VOCAB))
    return tok


def train(out, seed=11, per_family=3000):
    tok = new_tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=VOCAB - 6, special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(corpus(seed, per_family), trainer)
    base = tok.to_str()
    os.makedirs(out, exist_ok=True)
    for name, specials in (("llada", LLADA_SPECIALS), ("qwen", QWEN_SPECIALS)):
        add_specials(base, specials).save(os.path.join(out, name + ".json"))
    json.loads(base)


class Codec:
    """Fast text <-> ids with the chat template of one model family."""

    def __init__(self, path, kind):
        self.tok, self.llada = Tokenizer.from_file(path), kind == "llada"
        self.cache = {}

    def encode(self, text):
        return self.tok.encode(text, add_special_tokens=False).ids

    def template(self, prompt):
        if self.llada:
            return ("<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n" + prompt
                    + "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")
        return f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"

    def pair(self, it):
        """Prompt ids with the template, and answer ids closed by the end-of-turn token."""
        return self.encode(self.template(it["prompt"])), self.encode(it["answer"]) + [EOT]

    def decode(self, ids):
        out = []
        for i in ids:
            if i in (EOS, EOT):
                break
            out.append(i)
        return self.tok.decode(out, skip_special_tokens=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--seed", type=int, default=11)
    a = ap.parse_args()
    train(a.out, a.seed)
