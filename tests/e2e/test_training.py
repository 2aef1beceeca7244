"""A job from its recipe to its checkpoint, through the built programs, on a tiny random Llama."""
import json
import math
import socket

import pytest
from support.product import STEP_LINE, jsonl

LOSSES = {
    "masked_ce.MaskedCrossEntropy": {},
    "chunked_ce.ChunkedCrossEntropy": {"chunk_len": 8},
    "linear_ce.FusedLinearCrossEntropy": {},
    "te_parallel_ce.TEParallelCrossEntropy": {},
}


def relative(losses, reference):
    assert losses.keys() == reference.keys()
    return max(abs(losses[step] - reference[step]) / abs(reference[step]) for step in reference)


def test_a_run_prints_its_steps_and_leaves_metrics_and_a_checkpoint(product):
    result = product.train(validation_dataset=product.validation_set(),
                           step_scheduler={"max_steps": 6, "ckpt_every_steps": 3, "val_every_steps": 3})
    lines = result.out.splitlines()
    steps = [STEP_LINE.match(line) for line in lines if line.startswith("step ")]
    assert [int(match[1]) for match in steps] == [1, 2, 3, 4, 5, 6]
    assert any(line.startswith("[val] step 3 | epoch 0 | loss ") for line in lines)
    assert "epoch_0_step_3" in result.out + result.err

    root = product.checkpoints()
    training, validation = product.training(), jsonl(root / "validation.jsonl")
    assert [line["step"] for line in training] == [1, 2, 3, 4, 5, 6]
    assert {"epoch", "timestamp", "loss", "grad_norm", "lr", "mem", "tps", "num_label_tokens", "attempt"} <= training[0].keys()
    assert [line["step"] for line in validation] == [3, 6]
    for match, line in zip(steps, training, strict=True):
        assert math.isclose(float(match[3]), line["loss"], abs_tol=5e-5)
    assert training[-1]["loss"] < training[0]["loss"]

    last = root / "epoch_0_step_6"
    assert (root / "LATEST").resolve() == last.resolve()
    for name in ("config.yaml", "manifest.json", "state.json", "model/consolidated/model.safetensors", "model/consolidated/config.json",
                 "model/consolidated/tokenizer.json"):
        assert (last / name).is_file(), name
    assert not [path.name for path in root.iterdir() if "staging" in path.name]
    manifest = json.loads((last / "manifest.json").read_text())
    assert manifest["format"] == 1 and {file["path"] for file in manifest["files"]} >= {"model/consolidated/model.safetensors"}


@pytest.fixture(scope="module")
def one_rank(bin_dir, tiny_model, tiny_data, tmp_path_factory):
    """Losses of 20 steps on one rank, for full fine-tuning and for LoRA."""
    from support.product import Product

    product = Product(bin_dir, tmp_path_factory.mktemp("one"), tiny_model, tiny_data)
    product.train("full", ranks=1, step_scheduler={"max_steps": 20}, distributed={"strategy": "ddp"})
    product.train("lora", ranks=1, step_scheduler={"max_steps": 20}, distributed={"strategy": "ddp"}, peft=product.lora())
    yield {"full": product.losses("full"), "lora": product.losses("lora")}
    product.close()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("mode", ["full", "lora"])
def test_the_losses_of_n_ranks_are_those_of_one(product, one_rank, ranks, strategy, mode):
    if ranks == 1 and strategy == "ddp":
        pytest.skip("that is the run which the others are compared with")
    batch = {"max_steps": 20}
    sections = {"peft": product.lora()} if mode == "lora" else {}
    if ranks == 3:  # a global batch of 8 cannot be had with micro-batches of 2 on three ranks
        batch.update(global_batch_size=12, local_batch_size=2)
        product.train("one", ranks=1, step_scheduler=batch, distributed={"strategy": "ddp"}, **sections)
        reference = product.losses("one")
    else:
        reference = one_rank[mode]
    product.train(ranks=ranks, step_scheduler=batch, distributed={"strategy": strategy}, **sections)
    assert relative(product.losses(), reference) < 1e-4


def test_sharded_replicas_have_the_losses_of_one_rank(product, one_rank):
    product.train(ranks=4, step_scheduler={"max_steps": 20}, distributed={"strategy": "fsdp2", "dp_replicate_size": 2})
    assert relative(product.losses(), one_rank["full"]) < 1e-4


def test_dropout_does_not_depend_on_the_layout(product):
    sections = {"step_scheduler": {"max_steps": 8}, "peft": product.lora(dropout=0.2)}
    product.train("one", **sections)
    product.train("two", ranks=2, **sections)
    assert relative(product.losses("two"), product.losses("one")) < 1e-4


@pytest.mark.parametrize("local_batch_size", [1, 4, 8])
def test_the_losses_do_not_depend_on_the_micro_batch(product, one_rank, local_batch_size):
    product.train(step_scheduler={"max_steps": 20, "local_batch_size": local_batch_size})
    assert relative(product.losses(), one_rank["full"]) < 1e-4


@pytest.mark.parametrize("target", LOSSES)
def test_the_four_loss_functions_agree(product, one_rank, target):
    arguments = {"_target_": f"nemo_automodel.components.loss.{target}", **LOSSES[target]}
    product.train(step_scheduler={"max_steps": 20}, loss_fn=arguments)
    assert relative(product.losses(), one_rank["full"]) < 1e-4


def test_both_spellings_of_the_batch_give_the_same_run(product, one_rank):
    path = product.recipe(step_scheduler=None)
    path.write_text(path.read_text() + "step_scheduler: {grad_acc_steps: 4, max_steps: 20, num_epochs: 10, ckpt_every_steps: 100}\n")
    result = product.amctl("run", path, "--dataloader.batch_size=2")
    assert result.status == 0, result
    assert relative(product.losses(), one_rank["full"]) < 1e-4


def test_activation_checkpointing_changes_no_loss(product, one_rank):
    product.train(ranks=2, step_scheduler={"max_steps": 20}, distributed={"strategy": "fsdp2", "activation_checkpointing": True})
    assert relative(product.losses(), one_rank["full"]) < 1e-4


def test_the_last_batch_of_an_epoch_may_be_smaller_and_is_used(product):
    # 60 samples in batches of 8: seven full ones and one of 4, on two ranks and on three.
    product.train(ranks=2, step_scheduler={"max_steps": None, "num_epochs": 2})
    lines = product.training()
    assert [line["epoch"] for line in lines] == [0] * 8 + [1] * 8
    assert lines[7]["num_tokens_per_step"] < 0.8 * lines[6]["num_tokens_per_step"]


def test_a_data_set_smaller_than_a_batch_trains_with_what_there_is(product):
    product.train(ranks=2, step_scheduler={"max_steps": 3}, dataset={"limit_dataset_samples": 1})
    assert [line["epoch"] for line in product.training()] == [0, 1, 2]


def test_bfloat16_trains_with_float32_master_weights(product, one_rank):
    product.train(model={"torch_dtype": "bfloat16"}, step_scheduler={"max_steps": 20})
    losses = product.losses()
    assert losses[20] < losses[1]
    assert relative(losses, one_rank["full"]) < 0.05


@pytest.mark.parametrize("optimizer", [
    {"_target_": "torch.optim.AdamW", "lr": 1e-3, "weight_decay": 0.1},
    {"_target_": "torch.optim.SGD", "lr": 1e-2, "momentum": 0.9, "betas": None, "eps": None},
])
def test_other_optimizers_learn_too(product, optimizer):
    path = product.recipe(optimizer=None, step_scheduler={"max_steps": 20})
    given = {key: value for key, value in optimizer.items() if value is not None}
    path.write_text(path.read_text() + f"optimizer: {json.dumps(given)}\n")
    result = product.amctl("run", path, "--nproc-per-node=2")
    assert result.status == 0, result
    losses = product.losses()
    assert losses[20] < losses[1]


def test_a_learning_rate_schedule_is_followed(product):
    product.train(step_scheduler={"max_steps": 10}, lr_scheduler={"lr_decay_style": "cosine", "lr_warmup_steps": 2, "min_lr": 1e-5})
    rates = [line["lr"] for line in product.training()]
    assert rates[0] == pytest.approx(1e-4) and rates[2] == pytest.approx(1e-3, rel=1e-6)
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_only_the_newest_checkpoints_are_kept(product):
    product.train(step_scheduler={"max_steps": 6, "ckpt_every_steps": 1}, checkpoint={"max_recent_checkpoints": 2, "save_consolidated": False})
    kept = sorted(path.name for path in product.checkpoints().iterdir() if path.name.startswith("epoch_"))
    assert [name for name in kept if not (product.checkpoints() / name).is_symlink()] == ["epoch_0_step_5", "epoch_0_step_6"]


def test_overrides_are_part_of_the_run(product):
    path = product.recipe()
    result = product.amctl("run", path, "--step_scheduler.max_steps=2", "--optimizer.lr", "5e-4", "--nproc-per-node", "1")
    assert result.status == 0, result
    lines = product.training()
    assert len(lines) == 2 and lines[0]["lr"] == pytest.approx(5e-4)
    assert "max_steps: 2" in (product.checkpoints() / "epoch_0_step_2" / "config.yaml").read_text()


def test_a_run_without_checkpoints_writes_none(product):
    product.train(checkpoint={"enabled": False}, step_scheduler={"max_steps": 2})
    assert not [path for path in product.checkpoints().glob("epoch_*")]


def test_ports_that_are_taken_and_a_neighbour_change_nothing(product, one_rank):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = product.recipe("first", step_scheduler={"max_steps": 20})
        neighbour = product.start("run", product.recipe("second", step_scheduler={"max_steps": 20}), "--nproc-per-node=2")
        result = product.amctl("run", path, "--nproc-per-node=2", env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])})
        assert result.status == 0, result
        assert neighbour.wait().status == 0
    for name in ("first", "second"):
        assert relative(product.losses(name), one_rank["full"]) < 1e-4
