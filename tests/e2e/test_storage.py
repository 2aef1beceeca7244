"""A file system that refuses: the disk is full, the folder belongs to somebody else."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from support.product import wait_until

NOBODY = 65534


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB: room for one checkpoint of the tiny model and not for two."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"this root may not mount: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_named_and_the_last_complete_checkpoint_survives(product, small_disk):
    recipe = product.recipe(step_scheduler={"max_steps": 40, "ckpt_every_steps": 4},
                            checkpoint={"checkpoint_dir": str(small_disk / "checkpoints"), "save_consolidated": False})
    result = product.amctl("run", recipe, "--nproc-per-node=2")
    assert result.status in (1, 6), result
    assert re.search("not enough room|No space left on device", result.err) and str(small_disk) in result.err, result
    complete = [path for path in (small_disk / "checkpoints").glob("epoch_*") if (path / "manifest.json").exists()]
    assert complete, "the first checkpoint fitted and is still there"
    assert (small_disk / "checkpoints" / "LATEST").resolve() in [path.resolve() for path in complete]

    # With room again the run goes on from there.
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    result = product.amctl("run", recipe, "--nproc-per-node=2", "--step_scheduler.max_steps=12")
    assert result.status == 0, result
    assert (small_disk / "checkpoints" / "LATEST").resolve().name.endswith("_step_12")


@pytest.fixture
def unprivileged(product):
    """(words before a command, environment) that run it as a user who owns nothing, with model and data where that user can read."""
    if os.geteuid() != 0:
        yield [], {}
        return
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is absent, and root may write everywhere")
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    if subprocess.run([*prefix, product.bin_dir / "amctl", "version"], capture_output=True).returncode != 0:
        pytest.skip(f"an unprivileged user cannot run {product.bin_dir / 'amctl'}")
    public = pathlib.Path(tempfile.mkdtemp(prefix="amctl-test-"))
    public.chmod(0o755)
    for name in ("model", "data"):
        setattr(product, name, shutil.copytree(getattr(product, name), public / name))
        subprocess.run(["chmod", "-R", "a+rX", public / name], check=True)
    product.folder = public
    (public / "state").mkdir()
    os.chown(public / "state", NOBODY, NOBODY)
    yield prefix, {"XDG_RUNTIME_DIR": "", "HOME": str(public / "state"), "TMPDIR": str(public / "state")}
    shutil.rmtree(public)


def test_a_checkpoint_folder_without_permission_is_refused_before_training(product, unprivileged):
    prefix, environment = unprivileged
    locked = product.folder / "locked"
    locked.mkdir(mode=0o555)
    recipe = product.recipe(checkpoint={"checkpoint_dir": str(locked / "checkpoints")})
    recipe.chmod(0o644)
    result = product.amctl("run", recipe, prefix=prefix, env=environment)
    assert result.status == 2, result
    assert str(locked) in result.err and "ermission denied" in result.err, result
    assert not result.out.startswith("step"), "no step was trained in vain"


def test_a_folder_that_becomes_full_of_somebody_elses_file_is_named(product):
    root = product.checkpoints()
    recipe = product.recipe(step_scheduler={"max_steps": 200, "ckpt_every_steps": 50})
    root.mkdir()
    (root / "epoch_6_step_50").write_text("in the way")  # eight steps an epoch
    running = product.start("run", recipe)
    wait_until(lambda: running.finished() or len(product.training()) >= 50, 60, "50 steps")
    result = running.wait()
    assert result.status == 0, result
    assert [path for path in root.iterdir() if "superseded" in path.name], "what was in the way is kept under another name"


def test_a_write_that_fails_in_the_middle_of_a_save_is_named_and_leaves_no_checkpoint(product):
    limited = ["bash", "-c", 'ulimit -f 200; exec "$@"', "bash"]  # no file over 200 KiB: the weights are larger
    result = product.amctl("run", product.recipe(step_scheduler={"max_steps": 3}), "--nproc-per-node=2", prefix=limited)
    assert result.status in (1, 6), result
    assert "File too large" in result.err and str(product.checkpoints()) in result.err, result
    assert not list(product.checkpoints().glob("epoch_*")) and not (product.checkpoints() / "LATEST").exists()
    product.train(ranks=2, step_scheduler={"max_steps": 3})


def test_a_second_run_in_the_same_folder_is_refused(product):
    recipe = product.recipe(step_scheduler={"max_steps": 100000, "num_epochs": 100000})
    first = product.start("run", recipe)
    wait_until(lambda: first.finished() or len(product.training()) >= 2, 60, "two steps")
    second = product.amctl("run", recipe)
    assert second.status == 2, second
    assert "another run" in second.err and str(product.checkpoints()) in second.err, second
    assert not first.finished()
