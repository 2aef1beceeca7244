"""How fast the tokenizer is, beside the `tokenizers` package on one thread: loading, and encoding real text afresh.

    python tests/bench/bench_tokenizer.py [MODEL_DIR ...]

Ours is measured as am-tokenize runs it, reading and writing JSON included: CPU time with the text less CPU time without.
Theirs is `encode` and `encode_batch_fast` within Python. Without arguments the directories are those of
AMCTL_TEST_TOKENIZERS (default .cache/tokenizers) and AMCTL_MODEL_DIR. Ends with status 1 when ours encodes slower.
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("AMCTL_BIN_DIR") or ROOT / "build" / "bin") / "am-tokenize"
DATA = pathlib.Path(os.environ.get("AMCTL_TEST_DATA") or ROOT.parent / "shared") / "data" / "wordnet_squad" / "train.jsonl"


def model_directories():
    folder = pathlib.Path(os.environ.get("AMCTL_TEST_TOKENIZERS") or ROOT / ".cache" / "tokenizers")
    model = pathlib.Path(os.environ.get("AMCTL_MODEL_DIR") or ROOT / ".cache" / "inputs" / "SmolLM2-135M-Instruct")
    found = sorted(path.parent for path in folder.glob("**/tokenizer.json"))
    return found + ([model] if (model / "tokenizer.json").exists() else [])


def texts():
    rows = [json.loads(line) for line in DATA.open()]
    return [f"Context: {r['context']} Question: {r['question']} Answer: {''.join(r['answers']['text'][:1])}" for r in rows]


def program_seconds(directory, source):
    def children():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    best = float("inf")
    for _ in range(3):
        begin = children()
        with open(source) as stdin:
            subprocess.run([PROGRAM, directory], stdin=stdin, stdout=subprocess.DEVNULL, check=True)
        best = min(best, children() - begin)
    return best


def timed(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main():
    lines = texts()
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    slower = []
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as source:
        source.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        source.flush()
        print(f"{megabytes:.2f} MB of text; MB/s of one thread, load in ms of CPU time")
        print(f"{'':34} {'load':>6} {'theirs':>7} {'encode':>8} {'theirs':>7} {'batch':>7} {'ratio':>6}")
        for directory in map(pathlib.Path, sys.argv[1:] or model_directories()):
            file = str(directory / "tokenizer.json")
            load = program_seconds(directory, os.devnull)
            ours = megabytes / max(program_seconds(directory, source.name) - load, 1e-9)
            theirs_load = timed(lambda: Tokenizer.from_file(file))
            one, many = Tokenizer.from_file(file), Tokenizer.from_file(file)
            theirs = megabytes / timed(lambda: [one.encode(line) for line in lines])
            batch = megabytes / timed(lambda: many.encode_batch_fast(lines))
            ratio = ours / max(theirs, batch)
            print(f"{str(directory)[-34:]:34} {load * 1e3:6.0f} {theirs_load * 1e3:7.0f} {ours:8.1f} {theirs:7.1f} {batch:7.1f} "
                  f"{ratio:6.1f}", flush=True)
            if ratio < 1:
                slower.append(directory.name)
    return f"slower than the package: {', '.join(slower)}" if slower else 0


sys.exit(main())
