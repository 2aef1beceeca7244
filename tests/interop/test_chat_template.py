"""Chat templates: our interpreter against transformers' environment, and the stored corpus against jinja2."""
import importlib.util
import json
import os
import pathlib
import subprocess

import pytest

pytest.importorskip("transformers")
ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "golden" / "chat_templates"


@pytest.fixture(scope="module")
def corpus():
    spec = importlib.util.spec_from_file_location("render", CORPUS / "render.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tokenizer_dirs():
    """Model directories whose own templates are compared: AMCTL_TOKENIZER_DIRS, separated by colons."""
    dirs = [pathlib.Path(d) for d in os.environ.get("AMCTL_TOKENIZER_DIRS", "").split(":") if d]
    if not dirs:
        pytest.skip("AMCTL_TOKENIZER_DIRS names no model directories")
    return dirs


def test_stored_corpus_is_what_jinja2_renders(corpus):
    assert json.loads((CORPUS / "expected.json").read_text()) == corpus.render_corpus()


def test_renders_the_templates_of_real_models_as_transformers_does(corpus, bin_dir, tokenizer_dirs):
    from transformers import AutoTokenizer

    conversations = json.loads((CORPUS / "conversations.json").read_text())
    compared = 0
    for directory in tokenizer_dirs:
        tokenizer = AutoTokenizer.from_pretrained(directory)
        if not tokenizer.chat_template:
            continue
        for conversation in conversations:
            request = {"messages": conversation["messages"], "tools": conversation.get("tools")}
            try:
                expected = tokenizer.apply_chat_template(request["messages"], tools=request["tools"], tokenize=False)
            except Exception:  # noqa: BLE001 - any refusal counts
                expected = None
            run = subprocess.run([bin_dir / "am-tokenize", directory, "--render"], input=json.dumps(request) + "\n",
                                 capture_output=True, text=True, timeout=60)
            got = json.loads(run.stdout) if run.returncode == 0 else None
            assert got == expected, f"{directory} with {conversation['name']}: {run.stderr}"
            compared += 1
    assert compared
