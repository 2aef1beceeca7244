"""The real model against recorded numbers of transformers and peft: SmolLM2-135M on WordNet's glosses, float32."""
import json

import pytest
from support.logits import engine_logits
from support.product import Product, jsonl

pytestmark = pytest.mark.real_model
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.fixture(scope="module")
def golden(test_data):
    return test_data / "oracle" / "golden"


@pytest.fixture
def real(bin_dir, smollm2, wordnet_squad, tmp_path):
    product = Product(bin_dir, tmp_path, smollm2, wordnet_squad)
    yield product
    product.close()


def train(product, lr, **sections):
    product.train(seconds=900, optimizer={"lr": lr}, dataloader={"shuffle": False},
                  validation_dataset=product.validation_set(limit_dataset_samples=64),
                  **{"step_scheduler": {"max_steps": 20, "global_batch_size": 8, "local_batch_size": 4, "val_every_steps": 20},
                     "checkpoint": {"enabled": False}, **sections})


def compare(product, recorded):
    lines = product.training()
    assert len(lines) == len(recorded["steps"]) == 20
    worst_loss = worst_norm = 0
    for line, step in zip(lines, recorded["steps"], strict=True):
        assert line["num_label_tokens"] == step["num_label_tokens"] and line["num_tokens_per_step"] == step["num_tokens"]
        worst_loss = max(worst_loss, abs(line["loss"] / step["loss"] - 1))
        worst_norm = max(worst_norm, abs(line["grad_norm"] / step["grad_norm"] - 1))
    validation = jsonl(product.checkpoints() / "validation.jsonl")[-1]["val_loss"]
    off = abs(validation - recorded["val64_final"]["loss_mean"])
    print(f"largest relative difference: loss {worst_loss:.2e}, gradient norm {worst_norm:.2e}; validation loss off by {off:.2e}")
    assert worst_loss < 1e-3 and worst_norm < 1e-3
    assert off < 1e-3 * recorded["val64_final"]["loss_mean"]


def test_twenty_steps_of_full_fine_tuning(real, golden):
    train(real, 1e-5)
    compare(real, json.loads((golden / "sft_adam.json").read_text()))


def test_twenty_steps_of_lora(real, golden):
    train(real, 1e-4, peft=real.lora(target_modules=PROJECTIONS, dim=8, alpha=32, adapter_path=str(golden / "lora_init")))
    compare(real, json.loads((golden / "lora_adam.json").read_text()))


def test_validation_loss_of_64_samples(real, golden):
    # A learning rate of zero leaves the weights as they are.
    train(real, 0.0, step_scheduler={"max_steps": 1, "global_batch_size": 1, "local_batch_size": 1, "val_every_steps": 1},
          peft=real.lora(target_modules=["q_proj"]))
    recorded = json.loads((golden / "eval.json").read_text())["val64_initial"]
    line = jsonl(real.checkpoints() / "validation.jsonl")[0]
    assert line["num_label_tokens"] == recorded["num_label_tokens"]
    assert line["val_loss"] == pytest.approx(recorded["loss_mean"], abs=1e-4)


def test_logits_and_token_ids_of_three_prompts(real, golden):
    prompts = json.loads((golden / "eval.json").read_text())["prompts"]
    answers = engine_logits(real.bin_dir, real.model, [prompt["input_ids"] for prompt in prompts])
    for answer, prompt in zip(answers, prompts, strict=True):
        for token, logit in zip(prompt["last_top5_ids"], prompt["last_top5_logits"], strict=True):
            assert answer["last_logits"][token] == pytest.approx(logit, abs=2e-4)
        assert answer["last_logits"][:8] == pytest.approx(prompt["last_logits_first8"], abs=2e-4)
        assert answer["argmax"] == prompt["every_position_argmax"]
        assert answer["max"] == pytest.approx(prompt["every_position_max_logit"], abs=2e-4)


def test_the_tokenizer_gives_the_recorded_ids(real, golden):
    prompts = json.loads((golden / "eval.json").read_text())["prompts"]
    import subprocess

    plain = [prompt for prompt in prompts if isinstance(prompt["prompt"], str)]
    assert plain
    result = subprocess.run([real.bin_dir / "amctl", "tokenize", real.model], capture_output=True, text=True,
                            input="".join(json.dumps(prompt["prompt"]) + "\n" for prompt in plain))
    assert result.returncode == 0, result.stderr
    assert [json.loads(line) for line in result.stdout.splitlines()] == [prompt["input_ids"] for prompt in plain]
