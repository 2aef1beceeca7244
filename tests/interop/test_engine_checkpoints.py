"""What a run leaves behind loads in transformers and peft, with nothing missing or unexpected, and gives our logits."""
import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors import safe_open  # noqa: E402
from support import tiny  # noqa: E402
from support.logits import engine_logits  # noqa: E402

torch.set_num_threads(1)
PROMPTS = [[5, 17, 33, 101, 7, 256], [1, 44], [300, 12, 9, 9, 9, 210, 77, 3, 180, 42]]


@pytest.fixture(scope="module")
def am_logits(bin_dir):
    if not (bin_dir / "am-logits").exists():
        pytest.skip("am-logits is not built")
    return bin_dir


def same_logits(ours, model, prompts=PROMPTS):
    model.eval()
    for answer, ids in zip(ours, prompts, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].float()
        assert torch.allclose(torch.tensor(answer["last_logits"]), logits[-1], atol=2e-4, rtol=0)
        assert answer["argmax"] == logits.argmax(-1).tolist()
        assert torch.allclose(torch.tensor(answer["max"]), logits.amax(-1), atol=2e-4, rtol=0)


def load_whole(directory):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    return model


@pytest.mark.parametrize("rope", [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
], ids=lambda rope: rope["rope_type"])
def test_logits_of_every_rope_scaling_are_those_of_transformers(am_logits, tmp_path, rope):
    # Longer and shorter than the positions that the model was made for. A fresh model a prompt: dynamic scaling remembers the longest.
    prompts = [[(7 * i) % 480 for i in range(length)] for length in (5, 60)]
    directory = tiny.make_model(tmp_path / "model", rope_scaling=rope, max_position_embeddings=32)
    ours = engine_logits(am_logits, directory, prompts)
    for answer, ids in zip(ours, prompts, strict=True):
        same_logits([answer], load_whole(directory), [ids])


@pytest.mark.parametrize("ranks,strategy", [(1, "ddp"), (2, "ddp"), (2, "fsdp2"), (3, "fsdp2")])
def test_transformers_loads_what_was_trained(product, am_logits, ranks, strategy):
    product.train(ranks=ranks, distributed={"strategy": strategy}, step_scheduler={"global_batch_size": 12, "max_steps": 4})
    directory = product.checkpoints() / "LATEST" / "model" / "consolidated"
    model = load_whole(directory)
    before = load_whole(product.model)
    assert not torch.equal(model.model.layers[0].mlp.up_proj.weight, before.model.layers[0].mlp.up_proj.weight)
    same_logits(engine_logits(am_logits, directory, PROMPTS), model)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_export_keeps_the_trained_dtype_and_says_so(product, tmp_path, dtype, tied):
    product.model = tiny.make_model(tmp_path / "model", dtype=dtype, tie_word_embeddings=tied)
    product.train(model={"torch_dtype": "auto"}, step_scheduler={"max_steps": 2})
    directory = product.checkpoints() / "LATEST" / "model" / "consolidated"
    config = json.loads((directory / "config.json").read_text())
    assert config.get("dtype", config.get("torch_dtype")) == dtype
    names = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    with safe_open(directory / "model.safetensors", "pt") as ours, safe_open(product.model / "model.safetensors", "pt") as theirs:
        assert sorted(ours.keys()) == sorted(theirs.keys())
        assert {ours.get_tensor(name).dtype for name in ours.keys()} == {names[dtype]}
    load_whole(directory)


def test_tokenizer_template_and_generation_config_come_along(product):
    product.train(step_scheduler={"max_steps": 1})
    directory = product.checkpoints() / "LATEST" / "model" / "consolidated"
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (directory / name).read_bytes() == (product.model / name).read_bytes(), name
    ours, theirs = (transformers.AutoTokenizer.from_pretrained(place) for place in (directory, product.model))
    chat = [{"role": "user", "content": "What is the river?"}]
    assert ours.apply_chat_template(chat, tokenize=False) == theirs.apply_chat_template(chat, tokenize=False)


def test_a_model_in_several_files_is_read_and_written(product, am_logits, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(product.model)
    sharded = tmp_path / "sharded"
    model.save_pretrained(sharded, max_shard_size="60KB")
    transformers.AutoTokenizer.from_pretrained(product.model).save_pretrained(sharded)
    assert (sharded / "model.safetensors.index.json").exists()
    same_logits(engine_logits(am_logits, sharded, PROMPTS), model)
    product.model = sharded
    product.train(ranks=2, step_scheduler={"max_steps": 2})
    load_whole(product.checkpoints() / "LATEST" / "model" / "consolidated")


@pytest.mark.parametrize("targets", ["*_proj", "*.proj", ["q_proj", "v_proj"], "model.layers.1.*"])
def test_peft_loads_the_adapter(product, am_logits, targets):
    peft = pytest.importorskip("peft")
    product.train(ranks=2, peft=product.lora(target_modules=targets), step_scheduler={"max_steps": 6})
    directory = product.checkpoints() / "LATEST" / "model"
    base = transformers.AutoModelForCausalLM.from_pretrained(product.model)
    model = peft.PeftModel.from_pretrained(base, directory)
    with safe_open(directory / "adapter_model.safetensors", "pt") as file:
        stored = set(file.keys())
    assert stored == {name.replace(".default.", ".") for name, _ in model.named_parameters() if "lora_" in name}
    assert any(parameter.abs().max() > 0 for name, parameter in model.named_parameters() if "lora_B" in name), "it learned something"
    same_logits(engine_logits(am_logits, product.model, PROMPTS, adapter=directory), model)
    assert not list((product.checkpoints() / "LATEST").rglob("consolidated")), "the base is not copied"


def test_an_adapter_written_by_peft_is_read(product, am_logits, tmp_path):
    peft = pytest.importorskip("peft")
    base = transformers.AutoModelForCausalLM.from_pretrained(product.model)
    torch.manual_seed(11)
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"],
                                                      init_lora_weights=False, task_type="CAUSAL_LM"))
    model.save_pretrained(tmp_path / "adapter")
    same_logits(engine_logits(am_logits, product.model, PROMPTS, adapter=tmp_path / "adapter"), model)
