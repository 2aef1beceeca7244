#!/usr/bin/env python3
"""Makes a data set in SQuAD form from WordNet's glosses, as Debian's wordnet-base installs them.

usage: make_wordnet_squad.py WORDNET_DIR OUT_DIR [--train N] [--validation N] [--seed S]

A record has the fields of SQuAD v1.1. Its context is the glosses and examples of a word and of its two neighbours in the
file, its question asks what the word means, and the answer is a span of the context. The same seed gives the same files.
"""
import argparse
import json
import pathlib
import random
import re

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")


def synsets(path):
    """Yields (lemmas, gloss, examples); the format is wndb(5WN)."""
    for line in open(path, encoding="latin-1"):
        if line.startswith("  "):  # the licence
            continue
        head, text = line.rstrip("\n").split(" | ", 1)
        fields = head.split()
        word_count = int(fields[3], 16)
        lemmas = [re.sub(r"\(.*\)", "", word).replace("_", " ") for word in fields[4:4 + 2 * word_count:2]]
        gloss, *examples = text.strip().split('; "')
        yield lemmas, gloss.strip().rstrip(";").strip(), [example.rstrip('"; ') for example in examples]


def record(synset_rows, index):
    sentences, answers, position = [], [], 0
    for lemmas, gloss, examples in synset_rows[index - 1:index + 2]:
        lead = " or ".join(lemmas[:3]) + ": "
        sentence = lead + gloss + "." + "".join(f' For example: "{example}".' for example in examples[:2])
        answers.append((lemmas[0], gloss, position + len(lead)))
        sentences.append(sentence)
        position += len(sentence) + 1
    word, answer, start = answers[1]
    return {"id": f"wn-{index}", "title": word, "context": " ".join(sentences), "question": f'What does "{word}" mean?',
            "answers": {"text": [answer], "answer_start": [start]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wordnet_dir", type=pathlib.Path)
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=8000)
    parser.add_argument("--validation", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    rows = [row for part in PARTS_OF_SPEECH for row in synsets(args.wordnet_dir / f"data.{part}")]
    picked = random.Random(args.seed).sample(range(1, len(rows) - 1), args.train + args.validation)
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for split, indices in (("train", picked[:args.train]), ("validation", picked[args.train:])):
        part = args.out_dir / f"{split}.jsonl.part"
        with open(part, "w", encoding="utf-8") as out:
            for index in indices:
                out.write(json.dumps(record(rows, index), ensure_ascii=False) + "\n")
        part.rename(args.out_dir / f"{split}.jsonl")
    print(f"{args.train} training and {args.validation} validation records in {args.out_dir.name}/")


main()
