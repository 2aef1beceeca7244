"""The programs work from an installed prefix as they do from the build tree."""
import shutil
import subprocess

import pytest


def test_an_installed_amctl_finds_its_am_rank_and_trains(product):
    build = product.bin_dir.parent
    if shutil.which("cmake") is None or not (build / "CMakeCache.txt").exists():
        pytest.skip(f"{build} is no build tree to install from")
    prefix = product.folder / "prefix"
    installed = subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    product.bin_dir = prefix / "bin"
    product.train(ranks=2, step_scheduler={"max_steps": 2}, env={"PATH": "/usr/bin:/bin"})
    running_from = subprocess.run([prefix / "bin" / "amctl", "version"], capture_output=True, text=True)
    assert running_from.returncode == 0 and running_from.stdout.strip()
