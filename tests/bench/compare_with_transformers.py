#!/usr/bin/env python3
"""Speed, memory and start-up of amctl against a plain loop over PyTorch, transformers and peft.

Both train the same model on the same samples in the same order, micro-batch 4 accumulated twice, on one rank with all cores; runs
are interleaved and medians reported. The loop is what a user writes: padded micro-batches, model(...), backward, optimizer.

  tokens/s   without padding, over the steps after the first: tokens / time of the steps
  memory     high-water mark of resident memory, summed over the process tree
  start      from the command to the beginning of the first step (model loaded, batch ready), and to its end

In bfloat16 amctl keeps float32 master weights and moments. Its speed is set against the loop with bfloat16 weights, its memory
against the loop with the same states: bfloat16 autocast over float32 weights.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
MICRO_BATCH, ACCUMULATION = 4, 2
MODES = {
    "full float32": {"lora": False, "dtype": "float32"},
    "full bfloat16": {"lora": False, "dtype": "bfloat16"},
    "LoRA float32": {"lora": True, "dtype": "float32"},
    "LoRA bfloat16": {"lora": True, "dtype": "bfloat16"},
}


# ---- the loop: runs in a process of its own and pays its imports, as a user's script does


def run_loop(args):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    sys.path.insert(0, str(ROOT / "tests"))
    from support import reference

    states = torch.float32 if args.autocast else getattr(torch, args.dtype)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=states)
    if args.lora:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=32, target_modules=PROJECTIONS, task_type="CAUSAL_LM"),
                                    autocast_adapter_dtype=False)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=1e-5)
    count = args.steps * MICRO_BATCH * ACCUMULATION
    samples = [reference.render(tokenizer, record) for record in reference.records(pathlib.Path(args.data) / "train.jsonl", count)]

    steps, begun = [], time.time()
    for step in range(args.steps):
        picked = samples[step * MICRO_BATCH * ACCUMULATION:(step + 1) * MICRO_BATCH * ACCUMULATION]
        batches = [reference.collate(picked[begin:begin + MICRO_BATCH]) for begin in range(0, len(picked), MICRO_BATCH)]
        label_tokens = sum(int((labels != reference.IGNORE).sum()) for _, labels, _ in batches)
        started = time.time()
        if step == 0:
            begun = started
        total = 0.0
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=args.autocast):
                loss = reference.loss_sum(model, batch) / label_tokens
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        steps.append({"tokens": sum(len(ids) for ids, _ in picked), "seconds": time.time() - started, "loss": total})
    print(json.dumps({"begun": begun, "ended": begun + steps[0]["seconds"], "steps": steps}))


# ---- both, as processes that are watched


def watch(command, environment, folder):
    """Runs a command; returns its standard output, the time of its start and the peak memory of its process tree."""
    import psutil

    peaks, done = {}, threading.Event()
    started = time.time()
    with open(folder / "stderr.txt", "w+b") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment, cwd=folder, text=True)

        def sample():
            root = psutil.Process(process.pid)
            while not done.wait(0.05):
                try:
                    for child in [root, *root.children(recursive=True)]:
                        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
                        peaks[child.pid] = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")),
                                                peaks.get(child.pid, 0))
                except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                    continue

        watcher = threading.Thread(target=sample)
        watcher.start()
        out, _ = process.communicate()
        done.set()
        watcher.join()
        if process.returncode != 0:
            stderr.seek(0)
            sys.exit(f"{command[0]} ended with {process.returncode}:\n{stderr.read().decode(errors='replace')[-3000:]}")
    return out, started, sum(peaks.values()) / 2**20


def measured(steps, started, begun, ended, memory_gib):
    later = steps[1:] or steps
    return {"tokens_per_s": sum(step["tokens"] for step in later) / sum(step["seconds"] for step in later), "memory_gib": memory_gib,
            "first_step_begins_s": begun - started, "first_step_ends_s": ended - started, "losses": [step["loss"] for step in steps]}


def measure_loop(args, mode, autocast=False):
    command = [sys.executable, __file__, "--loop", "--model", args.model, "--data", args.data, "--steps", str(args.steps),
               "--dtype", mode["dtype"], *(["--lora"] if mode["lora"] else []), *(["--autocast"] if autocast else [])]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "HF_HUB_OFFLINE": "1"}
        out, started, memory = watch(command, environment, pathlib.Path(folder))
    result = json.loads(out.splitlines()[-1])
    return measured(result["steps"], started, result["begun"], result["ended"], memory)


def measure_amctl(args, mode):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipe = {
            "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
            "step_scheduler": {"global_batch_size": MICRO_BATCH * ACCUMULATION, "local_batch_size": MICRO_BATCH, "max_steps": args.steps,
                               "num_epochs": 100},
            "dist_env": {"backend": "gloo"},
            "distributed": {"strategy": "ddp"},
            "model": {"_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
                      "pretrained_model_name_or_path": args.model, "torch_dtype": mode["dtype"]},
            "checkpoint": {"enabled": False, "checkpoint_dir": str(folder / "checkpoints")},
            "dataset": {"_target_": "nemo_automodel.components.datasets.llm.squad.make_squad_dataset", "dataset_name": args.data,
                        "split": "train"},
            "dataloader": {"_target_": "torchdata.stateful_dataloader.StatefulDataLoader", "shuffle": False},
            "optimizer": {"_target_": "torch.optim.Adam", "lr": 1e-5},
            "clip_grad_norm": {"max_norm": 1.0},
        }
        if mode["lora"]:
            recipe["peft"] = {"_target_": "nemo_automodel.components._peft.lora.PeftConfig", "target_modules": PROJECTIONS, "dim": 8, "alpha": 32}
        (folder / "recipe.yaml").write_text(json.dumps(recipe, indent=1))  # JSON is YAML
        environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        environment.update(XDG_STATE_HOME=str(folder / "state"), XDG_RUNTIME_DIR=str(folder))
        command = [str(args.bin_dir / "amctl"), "run", "recipe.yaml", "--nproc-per-node=1"]
        _, started, memory = watch(command, environment, folder)
        lines = [json.loads(line) for line in (folder / "checkpoints" / "training.jsonl").read_text().splitlines()]
    steps = [{"tokens": line["num_tokens_per_step"], "seconds": line["num_tokens_per_step"] / line["tps"], "loss": line["loss"]} for line in lines]
    ended = datetime.datetime.fromisoformat(lines[0]["timestamp"].replace("Z", "+00:00")).timestamp()
    return measured(steps, started, ended - steps[0]["seconds"], ended, memory)


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def compare(args, name):
    mode, runs = MODES[name], {"amctl": [], "loop": [], "loop with the same states": []}
    for repeat in range(args.repeats):
        runs["amctl"].append(measure_amctl(args, mode))
        runs["loop"].append(measure_loop(args, mode))
        if mode["dtype"] == "bfloat16" and repeat == 0:
            runs["loop with the same states"].append(measure_loop(args, mode, autocast=True))
        print(f"{name}, repeat {repeat + 1}: amctl {runs['amctl'][-1]['tokens_per_s']:.0f} tokens/s, loop {runs['loop'][-1]['tokens_per_s']:.0f}",
              file=sys.stderr, flush=True)
    ours, loop = runs["amctl"], runs["loop"]
    same_states = runs["loop with the same states"] or loop
    row = {"mode": name, "runs": runs}
    for who, of in (("amctl", ours), ("loop", loop)):
        for key in ("tokens_per_s", "first_step_begins_s", "first_step_ends_s"):
            row[f"{who}_{key}"] = median(of, key)
    row["amctl_memory_gib"], row["loop_memory_gib"] = median(ours, "memory_gib"), median(same_states, "memory_gib")
    row["speed_ratio"] = row["amctl_tokens_per_s"] / row["loop_tokens_per_s"]
    row["memory_ratio"] = row["amctl_memory_gib"] / row["loop_memory_gib"]
    row["start_ratio"] = row["loop_first_step_begins_s"] / row["amctl_first_step_begins_s"]
    row["loss_difference"] = max(abs(a / b - 1) for a, b in zip(ours[0]["losses"], same_states[0]["losses"], strict=True))
    return row


def markdown(rows, args):
    lines = [f"{args.threads} threads, {args.steps} steps, median of {args.repeats}; micro-batch {MICRO_BATCH}, accumulation {ACCUMULATION}", "",
             "| | tokens/s amctl | loop | ratio | peak GiB amctl | loop, same states | ratio | first step begins, s: amctl | loop | times shorter "
             "| ends, s: amctl | loop | largest loss difference |", "|---" * 13 + "|"]
    for row in rows:
        lines.append(f"| {row['mode']} | {row['amctl_tokens_per_s']:.0f} | {row['loop_tokens_per_s']:.0f} | {row['speed_ratio']:.2f} "
                     f"| {row['amctl_memory_gib']:.2f} | {row['loop_memory_gib']:.2f} | {row['memory_ratio']:.2f} "
                     f"| {row['amctl_first_step_begins_s']:.2f} | {row['loop_first_step_begins_s']:.2f} | {row['start_ratio']:.1f} "
                     f"| {row['amctl_first_step_ends_s']:.2f} | {row['loop_first_step_ends_s']:.2f} | {row['loss_difference']:.1e} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face model directory")
    parser.add_argument("--data", required=True, help="a directory with train.jsonl in SQuAD form")
    parser.add_argument("--bin-dir", type=pathlib.Path, default=os.environ.get("AMCTL_BIN_DIR") or ROOT / "build" / "bin")
    parser.add_argument("--mode", action="append", choices=list(MODES), help="default: all")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    for hidden in ("--loop", "--lora", "--autocast"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.model, args.data = str(pathlib.Path(args.model).resolve()), str(pathlib.Path(args.data).resolve())
    if args.loop:
        run_loop(args)
        return
    args.bin_dir = pathlib.Path(args.bin_dir).resolve()
    rows = [compare(args, name) for name in args.mode or MODES]
    table = markdown(rows, args)
    print(table)
    if args.json:
        args.json.write_text(json.dumps({"threads": args.threads, "steps": args.steps, "repeats": args.repeats, "rows": rows}, indent=1))
    if args.markdown:
        args.markdown.write_text(table)


main()
