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
    """Model directories whose own templates are compared: those of AMCTL_TEST_TOKENIZERS, as for the tokenizer's tests."""
    folder = pathlib.Path(os.environ.get("AMCTL_TEST_TOKENIZERS") or ROOT / ".cache" / "tokenizers")
    dirs = sorted(path.parent for path in folder.glob("*/tokenizer.json"))
    if not dirs:
        pytest.skip("no real tokenizers: scripts/fetch_tokenizers fetches them, AMCTL_TEST_TOKENIZERS names their place")
    return dirs


def test_stored_corpus_is_what_jinja2_renders(corpus):
    assert json.loads((CORPUS / "expected.json").read_text()) == corpus.render_corpus()


def render_lines(bin_dir, directory, requests):
    """The texts that am-tokenize renders, or None when it refuses any of them."""
    run = subprocess.run([bin_dir / "am-tokenize", directory, "--render"], capture_output=True, text=True, timeout=120,
                         input="".join(json.dumps(request) + "\n" for request in requests))
    return [json.loads(line) for line in run.stdout.strip("\n").split("\n")] if run.returncode == 0 else None


def test_renders_the_templates_of_real_models_as_transformers_does(bin_dir, tokenizer_dirs):
    from transformers import AutoTokenizer

    # apply_chat_template itself looks at the first message.
    conversations = [c for c in json.loads((CORPUS / "conversations.json").read_text()) if c["messages"]]
    requests = [{"messages": c["messages"], "tools": c.get("tools")} for c in conversations]
    for directory in tokenizer_dirs:
        tokenizer = AutoTokenizer.from_pretrained(directory)
        if not tokenizer.chat_template:
            continue
        accepted, texts, refused = [], [], []
        for request in requests:
            try:
                texts.append(tokenizer.apply_chat_template(request["messages"], tools=request["tools"], tokenize=False))
                accepted.append(request)
            except Exception:  # noqa: BLE001 - any refusal counts
                refused.append(request)
        assert render_lines(bin_dir, directory, accepted) == texts, directory
        for request in refused:
            assert render_lines(bin_dir, directory, [request]) is None, (directory, request)
