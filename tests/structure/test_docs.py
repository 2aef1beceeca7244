"""What the documentation points at is there."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "worker").rglob("*.md"), *(ROOT / "launcher").rglob("*.md")])
PLACE = re.compile(r"[`\s(]((?:docs|scripts|configs|common|launcher|controller|worker|proto|tests|cmake)/[\w./-]*\w)")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_pages_point_at_files_that_exist(page):
    missing = {name for name in PLACE.findall(page.read_text(encoding="utf-8")) if not (ROOT / name).exists()}
    assert not missing, f"{page.relative_to(ROOT)} points at {sorted(missing)}"
