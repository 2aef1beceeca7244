"""What happens when processes die: the group restarts from its last checkpoint, and nothing outlives amctl."""
import datetime
import json
import random
import signal
import time

import pytest
from support.product import wait_until

STEPS = 60
SCHEDULE = {"max_steps": STEPS, "ckpt_every_steps": 5}


@pytest.fixture(scope="module")
def straight(bin_dir, tiny_model, tiny_data, tmp_path_factory):
    from support.product import Product

    product = Product(bin_dir, tmp_path_factory.mktemp("straight"), tiny_model, tiny_data)
    product.train(ranks=2, step_scheduler=SCHEDULE)
    yield product.losses()
    product.close()


def same(losses, expected):
    assert list(losses) == list(expected)
    for step, loss in expected.items():
        assert losses[step] == pytest.approx(loss, rel=1e-6), f"step {step}"


def trials(few, many):
    """`few` always, the rest with --slow."""
    return [pytest.param(seed, marks=[] if seed < few else pytest.mark.slow) for seed in range(many)]


def unix_time(line):
    return datetime.datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp()


@pytest.mark.parametrize("seed", trials(2, 20))
def test_a_killed_rank_costs_time_and_changes_no_loss(product, straight, seed, record_property):
    rng = random.Random(seed)
    step, rank = rng.randint(1, STEPS - 10), rng.randint(0, 1)
    running = product.start("run", product.recipe(step_scheduler=SCHEDULE), "--nproc-per-node=2")
    wait_until(lambda: len(product.training()) >= step or running.finished(), 60, f"step {step}")
    victims = running.ranks()
    assert len(victims) == 2, running.wait()
    killed_at = time.time()
    victims[rank].send_signal(signal.SIGKILL)
    result = running.wait()
    assert result.status == 0, result
    assert "rank" in result.err and ("SIGKILL" in result.err or "signal 9" in result.err), result
    same(product.losses(), straight)
    again = [line for line in product.training() if line["attempt"] > 1]
    assert again, "the run went on in a second attempt"
    seconds = unix_time(again[0]) - killed_at
    record_property("seconds_from_death_to_next_step", round(seconds, 2))
    print(f"killed rank {rank} after step {step}: next step done {seconds:.2f} s later")
    assert seconds < 30
    running.expect_nothing_left()


@pytest.mark.parametrize("seed", trials(2, 20))
def test_nothing_outlives_a_killed_amctl_and_the_rerun_goes_on(product, straight, seed):
    rng = random.Random(1000 + seed)
    recipe = product.recipe(step_scheduler=SCHEDULE)
    running = product.start("run", recipe, "--nproc-per-node=2")
    root = product.checkpoints()
    if seed % 2 == 0:  # in the middle of a save
        after = rng.choice([5, 10, 15])
        wait_until(lambda: running.finished() or (len(product.training()) >= after - 1 and root.exists() and
                                                  any("staging" in path.name for path in root.iterdir())), 60, "a save")
    else:
        step = rng.randint(0, STEPS - 5)
        wait_until(lambda: running.finished() or (running.ranks() and len(product.training()) >= step), 60, f"step {step}")
    running.descendants()
    running.signal(signal.SIGKILL)
    running.popen.wait(30)
    running.expect_nothing_left()

    latest = root / "LATEST"
    if latest.exists():
        assert json.loads((latest / "manifest.json").read_text())["format"] == 1
    result = product.amctl("run", recipe, "--nproc-per-node=2")
    assert result.status == 0, result
    same(product.losses(), straight)
    assert not [path.name for path in root.iterdir() if "staging" in path.name]


def test_a_rank_that_keeps_dying_fails_the_job_and_names_the_cause(product):
    recipe = product.recipe(step_scheduler={"max_steps": 100000, "num_epochs": 100000, "ckpt_every_steps": 100000})
    running = product.start("run", recipe, "--nproc-per-node=2", "--restart.max_restarts=1")
    killed = set()
    for attempt in (1, 2):
        wait_until(lambda: running.finished() or any(line["attempt"] == attempt for line in product.training()), 90, f"attempt {attempt}")
        victim = next(rank for rank in running.ranks() if rank.pid not in killed)
        killed.update(rank.pid for rank in running.ranks())
        victim.send_signal(signal.SIGSEGV)
    result = running.wait()
    assert result.status in (1, 6), result
    assert "SIGSEGV" in result.err or "signal 11" in result.err, result
    running.expect_nothing_left()


def test_a_frozen_amctl_is_not_needed_for_ranks_to_die_with_it(product):
    running = product.start("run", product.recipe(step_scheduler={"max_steps": 100000, "num_epochs": 100000}), "--nproc-per-node=2")
    wait_until(lambda: running.finished() or len(product.training()) >= 2, 60, "two steps")
    assert len(running.ranks()) == 2
    running.signal(signal.SIGSTOP)
    running.signal(signal.SIGKILL)
    running.popen.wait(30)
    running.expect_nothing_left()
