"""What the checkpoint room writes, read by Hugging Face's own libraries; and what they write, read by it.

Needs the programs of a build (AMCTL_BIN_DIR, default build/bin; checkpoint_tool is in tests/ beside it), transformers, peft and
safetensors. Models are tiny, random and made on the spot.
"""

import json
import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
safetensors_torch = pytest.importorskip("safetensors.torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("AMCTL_BIN_DIR", ROOT / "build" / "bin"))
TOOL = BIN.parent / "tests" / "checkpoint_tool"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason=f"{TOOL} is not built")

IDS = torch.tensor([[1, 5, 9, 2, 30, 7]])


def tool(*arguments):
    return subprocess.run([str(TOOL), *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def make_model(path, tied=True, dtype=torch.float32, **options):
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied, max_position_embeddings=64)
    model = transformers.LlamaForCausalLM(config).to(dtype).eval()
    model.save_pretrained(path, **options)
    return model


def make_tokenizer(path):
    tokenizers = pytest.importorskip("tokenizers")
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"<unk>": 0, "a": 1, "b": 2, "ab": 3}, merges=[("a", "b")],
                                                      unk_token="<unk>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", eos_token="b")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(path)


def assert_same_tokenizer(a, b):
    first, second = (transformers.AutoTokenizer.from_pretrained(path) for path in (a, b))
    assert first("ab b").input_ids == second("ab b").input_ids
    assert first.chat_template and first.chat_template == second.chat_template


def load(path, **options):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(path, output_loading_info=True, **options)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), (kind, info[kind])
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model(IDS).logits.float()


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_transformers_loads_what_is_exported_from_shards(tmp_path, tied, ranks):
    model = make_model(tmp_path / "source", tied)
    make_tokenizer(tmp_path / "source")
    tool("export", tmp_path / "source", tmp_path / "out", "--ranks", ranks)
    out = tmp_path / "out" / "consolidated"
    assert torch.equal(logits(load(out)), logits(model))
    assert_same_tokenizer(out, tmp_path / "source")
    for name in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (out / name).read_bytes() == (tmp_path / "source" / name).read_bytes()


def test_a_large_model_is_split_with_an_index(tmp_path):
    model = make_model(tmp_path / "source")
    tool("export", tmp_path / "source", tmp_path / "out", "--max-file-bytes", 10_000)
    out = tmp_path / "out" / "consolidated"
    index = json.loads((out / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in out.glob("*.safetensors"))
    assert files == sorted(set(index["weight_map"].values())) and len(files) > 3
    assert index["metadata"]["total_size"] == sum(
        t.numel() * 4 for name in files for t in safetensors_torch.load_file(out / name).values())
    assert torch.equal(logits(load(out)), logits(model))


def test_sharded_models_of_transformers_are_read(tmp_path):
    model = make_model(tmp_path / "source", max_shard_size="10KB")
    assert len(list((tmp_path / "source").glob("model-*.safetensors"))) > 1
    tool("export", tmp_path / "source", tmp_path / "out")
    assert torch.equal(logits(load(tmp_path / "out" / "consolidated")), logits(model))


@pytest.mark.parametrize("key", ["dtype", "torch_dtype", None])
def test_the_dtype_asked_for_is_in_weights_and_config(tmp_path, key):
    model = make_model(tmp_path / "source")
    path = tmp_path / "source" / "config.json"
    config = json.loads(path.read_text())
    config.pop("dtype", None)
    if key:
        config[key] = "float32"
    config["quantization_config"] = {"quant_method": "fp8"}
    path.write_text(json.dumps(config))
    tool("export", tmp_path / "source", tmp_path / "out", "--dtype", "bfloat16")
    out = tmp_path / "out" / "consolidated"
    written = json.loads((out / "config.json").read_text())
    assert written.pop(key or "torch_dtype") == "bfloat16"
    config.pop(key, None), config.pop("quantization_config")
    assert written == config
    loaded = load(out, dtype="auto")
    assert loaded.dtype == torch.bfloat16
    assert torch.equal(logits(loaded), logits(model.to(torch.bfloat16)))


def test_the_safetensors_package_agrees_on_every_dtype(tmp_path):
    base = torch.arange(0, 24).reshape(4, 6)
    tensors = {str(dtype): base.to(dtype) for dtype in (
        torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2)}
    tensors["bool"] = base > 3
    tensors["scalar"] = torch.tensor(1.5)
    safetensors_torch.save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    seen = [json.loads(line) for line in tool("dump", tmp_path).splitlines()]
    assert [entry["name"] for entry in seen] == sorted(tensors)
    for entry in seen:
        tensor = tensors[entry["name"]]
        data = tensor.contiguous().flatten().view(torch.uint8).tolist()
        assert entry["sum"] == sum(byte * (i % 65521 + 1) for i, byte in enumerate(data)) % 2**32
        assert entry["shape"] == list(tensor.shape)


def make_adapter(path, model, **options):
    settings = dict(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM") | options
    wrapped = peft.get_peft_model(model, peft.LoraConfig(**settings))
    torch.manual_seed(5)
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    wrapped.eval().save_pretrained(path)
    return wrapped


def test_peft_loads_the_adapter_we_write_from_the_one_it_wrote(tmp_path):
    model = make_model(tmp_path / "base")
    make_tokenizer(tmp_path / "base")
    plain = logits(model)
    expected = logits(make_adapter(tmp_path / "theirs", model))
    tool("adapter", tmp_path / "theirs", tmp_path / "ours", "--source", tmp_path / "base")

    loaded = peft.PeftModel.from_pretrained(load(tmp_path / "base"), tmp_path / "ours").eval()
    assert torch.equal(logits(loaded), expected)
    assert not torch.allclose(expected, plain)
    ours = safetensors_torch.load_file(tmp_path / "ours" / "adapter_model.safetensors")
    theirs = safetensors_torch.load_file(tmp_path / "theirs" / "adapter_model.safetensors")
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)

    text = (tmp_path / "ours" / "adapter_config.json").read_text()
    config = json.loads(text)
    assert list(config) == sorted(config)
    assert config["target_modules"] == sorted(
        f"model.layers.{i}.{name}" for i in range(2) for name in ("mlp.down_proj", "self_attn.q_proj"))
    assert '"lora_alpha": 8,' in text
    assert_same_tokenizer(tmp_path / "ours", tmp_path / "base")
    assert (tmp_path / "ours" / "automodel_peft_config.json").exists()


@pytest.mark.parametrize("options, fault", [
    (dict(use_dora=True), "use_dora: true is not supported"),
    (dict(bias="all"), 'bias: "all" is not supported'),
    (dict(modules_to_save=["lm_head"]), "modules_to_save"),
    (dict(rank_pattern={"q_proj": 2}), "rank_pattern"),
])
def test_adapters_of_other_kinds_are_refused_by_name(tmp_path, options, fault):
    make_adapter(tmp_path / "theirs", make_model(tmp_path / "base", tied=False), **options)
    with pytest.raises(subprocess.CalledProcessError) as failure:
        tool("adapter", tmp_path / "theirs", tmp_path / "ours")
    assert fault in failure.value.stderr


def test_an_adapter_whose_rank_is_not_that_of_its_config_is_refused(tmp_path):
    make_adapter(tmp_path / "theirs", make_model(tmp_path / "base"))
    path = tmp_path / "theirs" / "adapter_config.json"
    path.write_text(path.read_text().replace('"r": 4', '"r": 8'))
    with pytest.raises(subprocess.CalledProcessError) as failure:
        tool("adapter", tmp_path / "theirs", tmp_path / "ours")
    assert "lora_A has 4 rows and lora_B 4 columns, but r in adapter_config.json is 8" in failure.value.stderr


def test_a_pickled_model_gets_the_way_to_convert_it(tmp_path):
    model = make_model(tmp_path / "source")
    (tmp_path / "source" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "source" / "pytorch_model.bin")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        tool("dump", tmp_path / "source")
    command = [line.strip() for line in failure.value.stderr.splitlines() if line.strip().startswith("python -c")][0]
    subprocess.run(["bash", "-c", command.replace("python -c", f"{os.sys.executable} -c")], check=True, capture_output=True)
    assert len(tool("dump", f"{tmp_path / 'source'}-safetensors").splitlines()) == len(
        {t.data_ptr() for t in model.state_dict().values()})
