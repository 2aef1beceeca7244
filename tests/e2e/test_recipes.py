"""Every recipe that the project ships is valid."""
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "configs" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_shipped_recipes_are_valid(product, path):
    result = product.amctl("validate", "--strict", path)
    assert result.status == 0, result
