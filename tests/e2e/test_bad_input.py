"""Bad input: what amctl answers. Data-driven: each document of bad_input/*.yaml is one case.

  name:     a sentence
  recipe:   sections merged over the tiny recipe (null removes one), or
  text:     the recipe's text; {model} {data} {checkpoints} {folder} stand for paths
  files:    further files to write, name: text
  prepare:  one of the functions below, for what is no text; more than one as a list
  command:  arguments, default [run, recipe.yaml]
  status:   the exit status
  says:     regular expressions that standard error matches
  silent:   regular expressions that it does not match (default: no traceback, no abort)
  seconds:  the longest that the answer may take, default 10
"""
import json
import pathlib
import re
import shutil
import struct

import pytest
import yaml

CASES = [case for path in sorted((pathlib.Path(__file__).parent / "bad_input").glob("*.yaml"))
         for case in yaml.safe_load_all(path.read_text(encoding="utf-8")) if case]
NEVER = [r"terminate called", r"Traceback", r"Segmentation fault", r"core dumped", r"c10::Error", r"frame #\d"]


def own_model(product):
    copy = product.folder / "model"
    if not copy.exists():
        shutil.copytree(product.model, copy)
        product.model = copy
    return copy


def edit_config(product, **values):
    path = own_model(product) / "config.json"
    config = json.loads(path.read_text())
    config.update(values)
    path.write_text(json.dumps(config))


def rewrite_header(product, change):
    """Reads the safetensors header, lets `change` edit it, writes it back before the same data."""
    path = own_model(product) / "model.safetensors"
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])


class Prepare:
    def model_without_config(product):
        (own_model(product) / "config.json").unlink()

    def model_with_broken_config(product):
        (own_model(product) / "config.json").write_text('{"architectures": ["LlamaForCausalLM"],')

    def model_of_unknown_architecture(product):
        edit_config(product, architectures=["PantherForCausalLM"], model_type="panther")

    def model_without_tokenizer(product):
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            (own_model(product) / name).unlink(missing_ok=True)

    def model_without_weights(product):
        (own_model(product) / "model.safetensors").unlink()

    def truncated_header(product):
        path = own_model(product) / "model.safetensors"
        path.write_bytes(path.read_bytes()[:100])

    def truncated_data(product):
        path = own_model(product) / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1000])

    def empty_weights(product):
        (own_model(product) / "model.safetensors").write_bytes(b"")

    def huge_header_length(product):
        path = own_model(product) / "model.safetensors"
        path.write_bytes(struct.pack("<Q", 2**63) + path.read_bytes()[8:])

    def header_that_is_no_json(product):
        path = own_model(product) / "model.safetensors"
        path.write_bytes(struct.pack("<Q", 16) + b"not a json header" + b"\0" * 64)

    def offsets_outside_the_file(product):
        rewrite_header(product, lambda header: header["model.norm.weight"].update(data_offsets=[0, 2**40]))

    def offsets_backwards(product):
        rewrite_header(product, lambda header: header["model.norm.weight"].update(data_offsets=[256, 0]))

    def shape_that_overflows(product):
        rewrite_header(product, lambda header: header["model.norm.weight"].update(shape=[2**62, 2**62]))

    def negative_shape(product):
        rewrite_header(product, lambda header: header["model.norm.weight"].update(shape=[-1, 64]))

    def unknown_dtype(product):
        rewrite_header(product, lambda header: header["model.norm.weight"].update(dtype="F77"))

    def missing_tensor(product):
        from safetensors.torch import load_file, save_file

        path = own_model(product) / "model.safetensors"
        tensors = load_file(path)
        del tensors["model.layers.1.mlp.up_proj.weight"]
        save_file(tensors, path, metadata={"format": "pt"})

    def hole_between_tensors(product):
        rewrite_header(product, lambda header: header.pop("model.layers.1.mlp.up_proj.weight"))

    def wrong_shape(product):
        edit_config(product, intermediate_size=96)

    def empty_data(product):
        (product.folder / "data").mkdir()
        (product.folder / "data" / "train.jsonl").write_text("")

    def broken_line(product):
        lines = (product.data / "train.jsonl").read_text().splitlines()
        lines[16] = lines[16][:-9]
        (product.folder / "data").mkdir()
        (product.folder / "data" / "train.jsonl").write_text("\n".join(lines))

    def line_without_question(product):
        lines = (product.data / "train.jsonl").read_text().splitlines()
        lines[3] = json.dumps({"context": "no question here", "answers": {"text": ["no"], "answer_start": [0]}})
        (product.folder / "data").mkdir()
        (product.folder / "data" / "train.jsonl").write_text("\n".join(lines))

    def invalid_utf8(product):
        lines = (product.data / "train.jsonl").read_bytes().splitlines()
        lines[4] = lines[4].replace(b"river", b"ri\xffver").replace(b"What", b"Wh\xff")
        (product.folder / "data").mkdir()
        (product.folder / "data" / "train.jsonl").write_bytes(b"\n".join(lines))

    def checkpoints_of_another_model(product):
        product.train("recipe", step_scheduler={"max_steps": 1})
        edit_config(product, num_hidden_layers=2)

    def checkpoints_is_a_file(product):
        product.checkpoints().write_text("a file")


def merged(product, sections, own_data):
    if own_data:
        sections = {**sections, "dataset": {"dataset_name": str(product.folder / "data"), **sections.get("dataset", {})}}
    return product.recipe(**sections)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_bad_input(product, case):
    for name in [case.get("prepare")] if isinstance(case.get("prepare"), str) else case.get("prepare", []):
        getattr(Prepare, name)(product)
    places = {"model": str(product.model), "data": str(product.data), "checkpoints": str(product.checkpoints()),
              "folder": str(product.folder)}

    def fill(text):
        return re.sub(r"\{(model|data|checkpoints|folder)\}", lambda match: str(places[match[1]]), text)

    def fill_all(value):
        if isinstance(value, dict):
            return {key: fill_all(inner) for key, inner in value.items()}
        return fill(value) if isinstance(value, str) else value

    recipe = product.folder / "recipe.yaml"
    if "text" in case:
        recipe.write_text(fill(case["text"]), encoding="utf-8")
    else:
        merged(product, fill_all(case.get("recipe") or {}), (product.folder / "data").exists())
    for name, text in (case.get("files") or {}).items():
        (product.folder / name).write_text(fill(text), encoding="utf-8")
    command = [str(recipe) if word == "recipe.yaml" else fill(str(word)) for word in case.get("command", ["run", "recipe.yaml"])]

    result = product.amctl(*command, seconds=120, env=case.get("env"))
    assert result.status == case["status"], result
    for pattern in case["says"]:
        assert re.search(fill(pattern), result.err, re.MULTILINE), f"standard error does not say {pattern!r}\n{result}"
    for pattern in [*case.get("silent", []), *NEVER]:
        assert not re.search(pattern, result.err), f"standard error says {pattern!r}\n{result}"
    assert len(result.err.splitlines()) <= case.get("lines", 40), f"an answer, not a dump\n{result}"
    assert result.seconds < case.get("seconds", 10), result
