"""The JSON Schema that `amctl schema` prints, against the reference implementation: public recipes keep to it, broken ones do not."""
import json
import os
import pathlib
import subprocess

import pytest
import yaml
from jsonschema import Draft202012Validator

from conftest import ROOT

MINIMAL = """
recipe: TrainFinetuneRecipeForNextTokenPrediction
model: {pretrained_model_name_or_path: org/model}
dataset: {_target_: nemo_automodel.components.datasets.llm.squad.make_squad_dataset, dataset_name: org/data}
"""


@pytest.fixture(scope="module")
def validator():
    amctl = pathlib.Path(os.environ.get("AMCTL_BIN_DIR") or ROOT / "build" / "bin") / "amctl"
    if not amctl.exists():
        pytest.skip("amctl is not built: scripts/build builds it, AMCTL_BIN_DIR names its folder")
    schema = json.loads(subprocess.run([amctl, "schema"], check=True, capture_output=True).stdout)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def complaints(validator, text):
    """Each error, and what each of the ways that a value may be said about it, deepest last."""
    found = []
    errors = list(validator.iter_errors(yaml.safe_load(text)))
    while errors:
        error = errors.pop(0)
        found.append(f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}")
        errors += error.context
    return found


def test_every_public_recipe_keeps_to_the_schema(validator, test_data):
    files = sorted((test_data / "corpus" / "recipes").rglob("*.yaml"))
    if not files:
        pytest.skip("the public recipes are absent")
    wrong = {}
    for path in files:
        if found := complaints(validator, path.read_text()):
            wrong[path.name] = found[:3]
    assert not wrong
    assert len(files) == 384


def test_our_recipes_keep_to_the_schema(validator):
    for path in (ROOT / "configs").glob("recipes/*.yaml"):
        assert complaints(validator, path.read_text()) == [], path


@pytest.mark.parametrize("text", [
    "seed: 7",
    "optimizer: {_target_: torch.optim.AdamW, lr: 1e-5, weight_decay: 0.1}",
    "optimizer: {_target_: AdamW, lr: '${LR,1e-4}', betas: [0.9, 0.95]}",
    "step_scheduler: {num_epochs: null, max_steps: none, save_checkpoint_every_epoch: 'no'}",
    "distributed: {activation_checkpointing: Selective, dp_size: none, strategy: ddp}",
    "checkpoint: {save_consolidated: true, checkpoint_dir: 007}",
    "slurm: {time: 2-12, nodes: 2, env: {OMP_NUM_THREADS: 8}}",
    "slurm: {time: '04:00:00'}",
    "model: {pretrained_model_name_or_path: org/model, num_hidden_layers: 2, anything_else: [1]}",
    "recipe: my.module.TrainFinetuneRecipeForNextTokenPrediction",
    "neftune: 5.0",
    "x-mine: {a: 1}",
    "validation_dataset_hard: {_target_: make_squad_dataset, dataset_name: org/data}",
])
def test_what_is_right_is_accepted(validator, text):
    assert complaints(validator, yaml.safe_dump(yaml.safe_load(MINIMAL) | yaml.safe_load(text))) == []


@pytest.mark.parametrize("text,where", [
    ("seed: -1", "seed"),
    ("optimizer: {_target_: torch.optim.AdamW, lrr: 1e-5}", "optimizer"),
    ("optimizer: {_target_: torch.optim.AdamW, momentum: 0.9}", "optimizer"),
    ("optimizer: {_target_: torch.optim.AdamX}", "optimizer._target_"),
    ("optimizer: {_target_: torch.optim.AdamW, lr: fast}", "optimizer.lr"),
    ("optimizer: {_target_: torch.optim.AdamW, betas: [0.9, 1.5]}", "optimizer.betas"),
    ("step_scheduler: {max_steps: 0}", "step_scheduler.max_steps"),
    ("step_scheduler: {max_stepz: 10}", "step_scheduler"),
    ("step_scheduler: [1]", "step_scheduler"),
    ("distributed: {strategy: fsdp3}", "distributed.strategy"),
    ("distributed: {tp_size: two}", "distributed.tp_size"),
    ("peft: {dim: null}", "peft.dim"),
    ("peft: {dropout: 1.5}", "peft.dropout"),
    ("model: {pretrained_model_name_or_path: org/model, torch_dtype: bfloat17}", "model.torch_dtype"),
    ("checkpoint: {save_consolidated: sometimes}", "checkpoint.save_consolidated"),
    ("slurm: {time: 90m}", "slurm.time"),
    ("dataloader: {num_workers: -1}", "dataloader.num_workers"),
    ("dataset: {_target_: make_squad_datasets}", "dataset._target_"),
    ("validation_dataset_hard: {_target_: make_squad_dataset, dataset: org/data}", "validation_dataset_hard"),
    ("recipe: TrainFinetuneRecipe", "recipe"),
])
def test_what_is_wrong_is_refused_at_its_place(validator, text, where):
    found = complaints(validator, yaml.safe_dump(yaml.safe_load(MINIMAL) | yaml.safe_load(text)))
    assert any(complaint.startswith(where + ":") for complaint in found), found
