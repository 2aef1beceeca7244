"""Fixtures that the tests share: where programs, data and models are, and tiny models made on the spot.

Environment: AMCTL_BIN_DIR (default build/bin), AMCTL_TEST_DATA (default ../shared beside the checkout), AMCTL_MODEL_DIR (default
.cache/inputs/SmolLM2-135M-Instruct). What is absent is skipped by name.
"""
import os
import pathlib

import pytest

from support import tiny
from support.product import Product

ROOT = pathlib.Path(__file__).resolve().parents[1]


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes as well")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes minutes: --slow runs it"))


def place(variable, default, what):
    path = pathlib.Path(os.environ.get(variable) or default).resolve()
    if not path.exists():
        pytest.skip(f"{what} is absent: {variable} names its place")
    return path


@pytest.fixture(scope="session")
def bin_dir():
    path = pathlib.Path(os.environ.get("AMCTL_BIN_DIR") or ROOT / "build" / "bin").resolve()
    for name in ("amctl", "am-rank"):
        if not (path / name).exists():
            pytest.skip(f"{name} is not built: scripts/build builds it, AMCTL_BIN_DIR names its folder")
    return path


@pytest.fixture(scope="session")
def test_data():
    return place("AMCTL_TEST_DATA", ROOT.parent / "shared", "the shared test data")


@pytest.fixture(scope="session")
def smollm2():
    path = place("AMCTL_MODEL_DIR", ROOT / ".cache" / "inputs" / "SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct (scripts/inputs makes it)")
    return path


@pytest.fixture(scope="session")
def wordnet_squad(test_data):
    return test_data / "data" / "wordnet_squad"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    return tiny.make_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    return tiny.make_squad(tmp_path_factory.mktemp("squad"), train=60, validation=10)


@pytest.fixture
def product(bin_dir, tiny_model, tiny_data, tmp_path):
    """amctl in a folder of its own, with a tiny model and data to train on."""
    product = Product(bin_dir, tmp_path, tiny_model, tiny_data)
    yield product
    product.close()
