"""Logits as the engine computes them, through am-logits: JSON arrays of token ids in, one JSON object a line out."""
import json
import subprocess


def engine_logits(bin_dir, model, prompts, adapter=None):
    command = [bin_dir / "am-logits", model, *(["--adapter", adapter] if adapter else [])]
    result = subprocess.run(command, input="".join(json.dumps(ids) + "\n" for ids in prompts), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]
