"""The shape of the tree: which folder may include which, and what no file may hold.

The edges are those of docs/architecture.md. A new edge is a decision: change the table here and say why there.
"""
import pathlib
import re
import statistics

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("common", "launcher", "controller", "worker")
SKIPPED = {".git", ".venv", ".cache", "checkpoints", "__pycache__"}

# room -> rooms of ours that it may include, besides itself. Rooms are matched by their longest prefix.
PLAN = {"common", "launcher/recipe", "launcher/model", "launcher/plan"}
DECIDE = {"controller/job", "controller/node", "controller/schedule"}
CARRY_OUT = {"controller/backend", "controller/store"}
ALLOWED = {
    "common": set(),
    "launcher/recipe": {"common"},
    "launcher/model": {"common"},
    "launcher/plan": {"common", "launcher/recipe", "launcher/model"},
    "controller/job": PLAN | DECIDE,
    "controller/node": PLAN | DECIDE,
    "controller/schedule": PLAN | DECIDE,
    "controller/backend": PLAN | DECIDE | CARRY_OUT,
    "controller/store": PLAN | DECIDE | CARRY_OUT,
    "controller/daemon": PLAN | DECIDE | CARRY_OUT,
    "controller/server": PLAN | DECIDE | CARRY_OUT | {"controller/daemon", "worker/rank_io", "proto"},
    "worker/rank_io": PLAN,
    "worker/text": {"common"},
    "worker/agent": {"common", "worker/rank_io", "proto"},
    "worker/engine": {"common", "worker/rank_io", "worker/text"},
    "launcher/cli": PLAN | DECIDE | CARRY_OUT | {"controller/daemon", "controller/server", "worker/rank_io", "worker/text", "worker/agent", "proto"},
}

# A library's headers -> the rooms that may see them.
LIBRARIES = {
    "LibTorch": (re.compile(r"^(ATen|c10|torch|caffe2|gloo)/"), {"worker/engine"}),
    "yaml-cpp": (re.compile(r"^yaml-cpp/"), {"launcher/recipe"}),
    "gRPC and protobuf": (re.compile(r"^(grpc|grpcpp|google/protobuf)/"), {"launcher/cli", "controller/server", "worker/agent"}),
    "SQLite": (re.compile(r"^sqlite3"), {"controller/store"}),
}
SLOW_HEADERS = {"torch/torch.h", "torch/nn.h", "torch/optim.h", "torch/all.h", "ATen/ATen.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def files(*suffixes):
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if any(part in SKIPPED or part.startswith("build") for part in parts[:-1]) or not path.is_file():
            continue
        if not suffixes or path.suffix in suffixes:
            yield path


def room_of(name):
    if name.startswith("proto/") or name.startswith("amctl/v1/") or re.search(r"\.(grpc\.)?pb\.h$", name):
        return "proto"
    matches = [room for room in ALLOWED if name.startswith(room + "/")]
    return max(matches, key=len, default=None)


def includes():
    """(file, room of the file, included name) for every include of the code that ships."""
    for path in files(".h", ".cc", ".cu"):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] in CODE_FOLDERS:
            for match in INCLUDE.finditer(path.read_text(encoding="utf-8")):
                yield name, room_of(name), match[2]


def test_every_folder_of_code_is_a_known_room():
    unknown = {name for name, room, _ in includes() if room is None}
    assert not unknown, f"files in no room of the table: {sorted(unknown)}"


def test_rooms_include_only_what_the_architecture_allows():
    wrong = []
    for name, room, included in includes():
        target = room_of(included)
        if target and room and target != room and target not in ALLOWED[room]:
            wrong.append(f"{name} includes {included}: {room} may not see {target}")
    assert not wrong, "\n".join(wrong)


def test_the_engine_reaches_no_recipe_and_no_plan():
    """worker/rank_io turns a plan into a RankSpec, but what the engine reads of it stands alone: am-rank builds without the launcher."""
    graph = {}
    for name, _, included in includes():
        graph.setdefault(name, set()).add(included)
    reached, todo = set(), [name for name in graph if name.startswith("worker/engine/")]
    while todo:
        for included in graph.get(todo.pop(), set()) - reached:
            reached.add(included)
            todo.append(included)
    wrong = sorted(name for name in reached if name.startswith(("launcher/", "controller/", "worker/agent/")))
    assert not wrong, f"worker/engine reaches {wrong}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_are_seen_only_by_their_rooms(library):
    pattern, rooms = LIBRARIES[library]
    wrong = [f"{name} includes {included}" for name, room, included in includes() if pattern.match(included) and room not in rooms]
    assert not wrong, "\n".join(wrong)


def test_the_model_never_knows_of_ranks():
    wrong = [f"{name} includes {included}" for name, _, included in includes()
             if name.startswith("worker/engine/model/") and re.match(r"worker/engine/(parallel|comm)/", included)]
    assert not wrong, "\n".join(wrong)


def test_nobody_includes_the_headers_that_make_a_build_slow():
    wrong = []
    for path in files(".h", ".cc"):
        wrong += [f"{path.relative_to(ROOT)} includes {match[2]}" for match in INCLUDE.finditer(path.read_text(encoding="utf-8"))
                  if match[2] in SLOW_HEADERS]
    assert not wrong, "\n".join(wrong)


def test_our_headers_are_included_from_the_root_and_guarded_by_pragma_once():
    wrong = []
    for path in files(".h"):
        if path.relative_to(ROOT).parts[0] in CODE_FOLDERS and "#pragma once" not in path.read_text(encoding="utf-8"):
            wrong.append(f"{path.relative_to(ROOT)}: no #pragma once")
    for name, _, included in includes():
        if included.startswith(".") or (ROOT / name).parent.joinpath(included).is_file() and "/" not in included:
            wrong.append(f"{name} includes {included}: write the path from the root")
    assert not wrong, "\n".join(wrong)


def test_no_file_holds_leftovers_or_paths_of_one_machine():
    leftovers = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    machine_paths = re.compile(r"(?<![\w.$}])/(wo" r"rk|ro" r"ot|ho" r"me)/\w")
    wrong = []
    for path in files(".h", ".cc", ".cu", ".py", ".sh", ".md", ".yaml", ".yml", ".json", ".txt", ".cmake", ".proto", ""):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            found = leftovers.search(line) or machine_paths.search(line)
            if found:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {found[0]}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)


def test_sizes_of_headers_and_sources_are_reported(record_property):
    """No limit, a look: when a file is large, which noun is missing?"""
    report = []
    for suffix, large in ((".h", 250), (".cc", 600)):
        sizes = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in files(suffix)
                 if path.relative_to(ROOT).parts[0] in CODE_FOLDERS}
        if sizes:
            report.append(f"{suffix}: {len(sizes)} files, median {statistics.median_low(sizes.values())} lines")
            report += [f"  {lines} lines: {name}" for name, lines in sorted(sizes.items(), key=lambda item: -item[1]) if lines > large]
    record_property("sizes", "\n".join(report))
    print("\n".join(report))
