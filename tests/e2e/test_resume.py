"""A run that stops and goes on is the run that did not stop: the same samples, the same losses."""
import signal

import pytest
from support.product import wait_until

# 60 samples in batches of 8 are 8 steps an epoch, so 8 is an epoch's edge.
STEPS = 20
EXACT = 1e-6


def same(product, name, reference):
    losses, expected = product.losses(name), product.losses(reference)
    assert list(losses) == list(expected)
    for step, loss in expected.items():
        assert losses[step] == pytest.approx(loss, rel=EXACT), f"step {step}"
    tokens = [line["num_tokens_per_step"] for line in product.training(name)]
    assert tokens == [line["num_tokens_per_step"] for line in product.training(reference)]


@pytest.mark.parametrize("ranks,strategy", [(1, "ddp"), (2, "fsdp2")])
@pytest.mark.parametrize("stops", [[7], [5, 13], [8], [8, 16]], ids=["once", "twice", "at an epoch's edge", "at two edges"])
def test_a_resumed_run_has_the_losses_of_an_undisturbed_one(product, ranks, strategy, stops):
    sections = dict(ranks=ranks, distributed={"strategy": strategy})
    product.train("straight", step_scheduler={"max_steps": STEPS}, **sections)
    for stop in [*stops, STEPS]:
        product.train("resumed", step_scheduler={"max_steps": stop}, **sections)
    same(product, "resumed", "straight")


def test_adapters_resume_too(product):
    product.train("straight", ranks=2, peft=product.lora(dropout=0.1), step_scheduler={"max_steps": STEPS})
    for stop in (6, STEPS):
        product.train("resumed", ranks=2, peft=product.lora(dropout=0.1), step_scheduler={"max_steps": stop})
    same(product, "resumed", "straight")


def test_the_saved_learning_rate_schedule_wins_unless_overridden(product):
    schedule = {"lr_decay_style": "linear", "lr_warmup_steps": 0, "max_lr": 1e-3, "min_lr": 1e-4}
    for name, override in (("saved", False), ("overridden", True)):
        for stop in (4, 8):
            product.train(name, step_scheduler={"max_steps": stop}, optimizer={"lr": 1e-3},
                          lr_scheduler={**schedule, "override_opt_param_scheduler": override})
    rates = {name: [line["lr"] for line in product.training(name)] for name in ("saved", "overridden")}
    assert rates["saved"][:4] == rates["overridden"][:4]
    assert rates["saved"][4:] == pytest.approx([1e-4] * 4)
    assert rates["overridden"][4:] == pytest.approx([1e-3 - 9e-4 * step / 8 for step in range(4, 8)])


def test_saves_beside_the_steps_resume_like_others(product):
    product.train("straight", ranks=2, step_scheduler={"max_steps": STEPS})
    for stop in (9, STEPS):
        product.train("resumed", ranks=2, step_scheduler={"max_steps": stop, "ckpt_every_steps": 2}, checkpoint={"is_async": True})
    same(product, "resumed", "straight")


def test_a_run_resumes_on_another_number_of_ranks(product):
    product.train("straight", ranks=1, step_scheduler={"max_steps": STEPS})
    product.train("resumed", ranks=2, step_scheduler={"max_steps": 7})
    product.train("resumed", ranks=1, step_scheduler={"max_steps": STEPS}, distributed={"strategy": "ddp"})
    losses, expected = product.losses("resumed"), product.losses("straight")
    assert max(abs(losses[step] - expected[step]) / expected[step] for step in expected) < 1e-4


def test_a_finished_run_says_so_and_writes_nothing(product):
    product.train(step_scheduler={"max_steps": 3})
    before = {path: path.stat().st_mtime_ns for path in product.checkpoints().rglob("*") if path.is_file()}
    result = product.train(step_scheduler={"max_steps": 3})
    assert "already complete at step 3" in result.out + result.err
    assert {path: path.stat().st_mtime_ns for path in product.checkpoints().rglob("*") if path.is_file()} == before


def test_another_runs_directory_is_refused_and_fresh_is_the_cure(product):
    product.train(step_scheduler={"max_steps": 2})
    path = product.recipe(step_scheduler={"max_steps": 2}, rng={"seed": 7})
    result = product.amctl("run", path)
    assert result.status == 2, result
    assert "seed" in result.err and "--fresh" in result.err
    result = product.amctl("run", path, "--fresh")
    assert result.status == 0, result


@pytest.mark.parametrize("number,status", [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_a_signal_saves_at_the_step_boundary_and_leaves(product, number, status):
    product.train("straight", ranks=2, step_scheduler={"max_steps": 60})
    path = product.recipe("stopped", step_scheduler={"max_steps": 60})
    running = product.start("run", path, "--nproc-per-node=2")
    wait_until(lambda: len(product.training("stopped")) >= 5 or running.finished(), 60, "five steps")
    running.signal(number)
    result = running.wait()
    assert result.status == status, result
    running.expect_nothing_left()
    done = len(product.training("stopped"))
    assert done < 60 and (product.checkpoints("stopped") / "LATEST").resolve().name.endswith(f"_step_{done}")
    product.train("stopped", ranks=2, step_scheduler={"max_steps": 60})
    same(product, "stopped", "straight")


@pytest.mark.parametrize("damage", ["no manifest", "a truncated file", "a missing file"])
def test_a_damaged_checkpoint_is_not_trusted(product, damage):
    product.train("straight", step_scheduler={"max_steps": 8})
    product.train("damaged", step_scheduler={"max_steps": 6, "ckpt_every_steps": 3})
    last = product.checkpoints("damaged") / "epoch_0_step_6"
    largest = max((path for path in last.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    if damage == "no manifest":
        (last / "manifest.json").unlink()
    elif damage == "a truncated file":
        with open(largest, "r+b") as file:
            file.truncate(largest.stat().st_size // 2)
    else:
        largest.unlink()
    result = product.train("damaged", step_scheduler={"max_steps": 8, "ckpt_every_steps": 3})
    assert "epoch_0_step_6" in result.out + result.err, "the user is told which checkpoint was passed over"
    same(product, "damaged", "straight")
