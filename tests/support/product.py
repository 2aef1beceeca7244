"""Runs the built programs as a user does, and reads what they leave behind."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import psutil
import yaml

STEP_LINE = re.compile(
    r"^step (\d+) \| epoch (\d+) \| loss (-?[\d.]+|nan|inf) \| grad_norm ([\d.]+|nan|inf) \| mem: ([\d.]+) GiB \| tps ([\d.]+)")


class Result:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

    def __repr__(self):
        return f"exit status {self.status} after {self.seconds:.1f} s\n--- stdout\n{self.out[-4000:]}\n--- stderr\n{self.err[-6000:]}"


def jsonl(path):
    path = pathlib.Path(path)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def wait_until(condition, seconds, what):
    """Polls; the product has no hook to be told by from outside, and what is waited for is a process or a file."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.005)


def alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Running:
    """An amctl that runs."""

    def __init__(self, arguments, folder, environment):
        self.stdout, self.stderr = open(folder / "stdout.txt", "w+b"), open(folder / "stderr.txt", "w+b")
        self.begun = time.monotonic()
        self.popen = subprocess.Popen(arguments, cwd=folder, stdout=self.stdout, stderr=self.stderr, stdin=subprocess.DEVNULL,
                                      env=environment, start_new_session=True)
        self.process = psutil.Process(self.popen.pid)
        self.seen = {}

    def descendants(self):
        try:
            for child in self.process.children(recursive=True):
                self.seen[(child.pid, child.create_time())] = child
        except psutil.NoSuchProcess:
            pass
        return [child for child in self.seen.values() if alive(child)]

    def ranks(self):
        found = []
        for child in self.descendants():
            try:
                if child.name() == "am-rank":
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return found

    def finished(self):
        return self.popen.poll() is not None

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, seconds=300):
        try:
            status = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            result = self.kill()
            raise AssertionError(f"amctl still ran after {seconds} s\n{result}") from None
        return self.result(status)

    def result(self, status):
        texts = []
        for stream in (self.stdout, self.stderr):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
        return Result(status, *texts, time.monotonic() - self.begun)

    def kill(self):
        for process in [self.process, *self.descendants()]:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                pass
        return self.result(self.popen.wait(30))

    def expect_nothing_left(self, seconds=20):
        wait_until(lambda: not self.descendants(), seconds, f"processes left behind: {self.descendants()}")


class Product:
    def __init__(self, bin_dir, folder, model, data):
        self.bin_dir, self.folder, self.model, self.data = bin_dir, folder, model, data
        self.running = []

    def environment(self, **more):
        environment = {**os.environ, "HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state"),
                       "XDG_RUNTIME_DIR": str(self.folder / "run"), "NO_COLOR": "1", **more}
        environment.pop("AMCTL_SERVER", None)
        return environment

    def start(self, *arguments, env=None, prefix=()):
        number = len(self.running)
        folder = self.folder / f"run-{number}"
        folder.mkdir(parents=True)
        (self.folder / "run").mkdir(mode=0o700, exist_ok=True)
        running = Running([*prefix, str(self.bin_dir / "amctl"), *map(str, arguments)], folder, self.environment(**(env or {})))
        self.running.append(running)
        return running

    def amctl(self, *arguments, seconds=300, **more):
        return self.start(*arguments, **more).wait(seconds)

    def recipe(self, name="recipe", **sections):
        """Writes a recipe for the tiny model; `sections` are merged over it, None removes a section."""
        recipe = {
            "recipe": "TrainFinetuneRecipeForNextTokenPrediction",
            "step_scheduler": {"global_batch_size": 8, "local_batch_size": 2, "max_steps": 6, "num_epochs": 10, "ckpt_every_steps": 100,
                               "save_checkpoint_every_epoch": False},
            "dist_env": {"backend": "gloo", "timeout_minutes": 1},
            "distributed": {"strategy": "fsdp2"},
            "rng": {"_target_": "nemo_automodel.components.training.rng.StatefulRNG", "seed": 1111},
            "model": {"_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained",
                      "pretrained_model_name_or_path": str(self.model), "torch_dtype": "float32"},
            "checkpoint": {"enabled": True, "checkpoint_dir": str(self.checkpoints(name)), "model_save_format": "safetensors",
                           "save_consolidated": "final"},
            "dataset": {"_target_": "nemo_automodel.components.datasets.llm.squad.make_squad_dataset",
                        "dataset_name": str(self.data), "split": "train"},
            "dataloader": {"_target_": "torchdata.stateful_dataloader.StatefulDataLoader", "shuffle": True},
            "loss_fn": {"_target_": "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy"},
            "optimizer": {"_target_": "torch.optim.Adam", "lr": 1.0e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0},
        }
        for section, values in sections.items():
            if values is None:
                recipe.pop(section, None)
            elif isinstance(values, dict):
                recipe[section] = {**recipe.get(section, {}), **values}
            else:
                recipe[section] = values
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
        return path

    def checkpoints(self, name="recipe"):
        return self.folder / f"{name}-checkpoints"

    def training(self, name="recipe"):
        return jsonl(self.checkpoints(name) / "training.jsonl")

    def losses(self, name="recipe"):
        return {line["step"]: line["loss"] for line in self.training(name)}

    def validation_set(self, **more):
        return {"_target_": "nemo_automodel.components.datasets.llm.squad.make_squad_dataset", "dataset_name": str(self.data),
                "split": "validation", **more}

    def lora(self, **more):
        return {"_target_": "nemo_automodel.components._peft.lora.PeftConfig", "target_modules": "*_proj", "dim": 4, "alpha": 16, **more}

    def train(self, name="recipe", ranks=1, arguments=(), seconds=300, env=None, **sections):
        """Runs a recipe to its end and expects success."""
        path = self.recipe(name, **sections)
        result = self.amctl("run", path, "--nproc-per-node", ranks, *arguments, seconds=seconds, env=env)
        assert result.status == 0, result
        return result

    def close(self):
        for running in self.running:
            if not running.finished() or running.descendants():
                running.kill()
