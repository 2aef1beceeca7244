"""Renders the corpus with transformers' chat template environment: `python3 render.py` rewrites expected.json."""
import json
import pathlib

from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
SNIPPET_MESSAGES = [
    {"role": "system", "content": "Sys ✓"},
    {"role": "user", "content": "Hi <b> 'q' \"d\""},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {
        "name": "f", "arguments": {"x": 1, "y": [1.0, None, True], "z": "é😀"}}}]},
    {"role": "tool", "content": "res", "tool_call_id": "c1"},
    {"role": "assistant", "content": "Done."},
]
SNIPPET_VARIABLES = TOKENS | {
    "n": 7, "f": 2.5, "big": 1e20, "small": 1e-7, "neg": -3, "lst": [3, 1, 2], "words": ["b", "A", "c"],
    "d": {"k": 1, "a": {"b": [10, 20]}, "items": 5}, "s": "Hello Wörld ß", "e": "", "none": None, "t": True,
}


def render(template, request):
    """{"text", "spans"} with spans in bytes, or None where the template or the conversation is refused."""
    try:
        texts, spans = render_jinja_template(
            [request["messages"]], chat_template=template, tools=request.get("tools"),
            add_generation_prompt=request.get("add_generation_prompt", False), return_assistant_tokens_mask=True,
            **(TOKENS | request.get("variables", {})))
    except Exception:  # noqa: BLE001 - any refusal counts
        return None
    text = texts[0]
    return {"text": text, "spans": [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans[0]]}


def render_corpus():
    conversations = json.loads((HERE / "conversations.json").read_text())
    snippets = json.loads((HERE / "snippets.json").read_text())
    return {
        "tokens": TOKENS,
        "templates": {path.stem: {c["name"]: render(path.read_text(), c) for c in conversations}
                      for path in sorted(HERE.glob("*.jinja"))},
        "snippet_request": {"messages": SNIPPET_MESSAGES, "variables": SNIPPET_VARIABLES},
        "snippets": [render(s, {"messages": SNIPPET_MESSAGES, "variables": SNIPPET_VARIABLES}) for s in snippets],
    }


if __name__ == "__main__":
    (HERE / "expected.json").write_text(json.dumps(render_corpus(), ensure_ascii=False, indent=1) + "\n")
