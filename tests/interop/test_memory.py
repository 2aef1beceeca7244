"""The memory estimate's activations against what autograd keeps of a layer of transformers.

Counted are the storages that backward holds, each once, without parameters. Equal up to what the estimate leaves out on purpose:
row statistics of norms, indices and weights of routing (under 1 %), and the float32 copy that DeepSeek's router makes of its input
(5 % of so narrow a layer in bfloat16).
"""
import json
import subprocess

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek  # noqa: E402
from transformers.models.llama import modeling_llama as llama  # noqa: E402
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen  # noqa: E402

TOKENS = 256
COMMON = {"hidden_size": 512, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
          "intermediate_size": 1408, "vocab_size": 1000, "tie_word_embeddings": False}
EXPERTS = {"moe_intermediate_size": 256, "num_experts_per_tok": 4}
LATENT = {"num_key_value_heads": 8, "n_routed_experts": 16, "n_shared_experts": 1, "first_k_dense_replace": 0, "q_lora_rank": 192,
          "kv_lora_rank": 128, "qk_nope_head_dim": 48, "qk_rope_head_dim": 16, "v_head_dim": 64, "n_group": 4, "topk_group": 2}
FAMILIES = {
    "llama": (COMMON, transformers.LlamaConfig, llama.LlamaDecoderLayer, llama.LlamaRotaryEmbedding),
    "qwen3_moe": (COMMON | EXPERTS | {"num_experts": 16}, transformers.Qwen3MoeConfig, qwen.Qwen3MoeDecoderLayer,
                  qwen.Qwen3MoeRotaryEmbedding),
    "deepseek_v3": ({k: v for k, v in COMMON.items() if k != "head_dim"} | EXPERTS | LATENT, transformers.DeepseekV3Config,
                    deepseek.DeepseekV3DecoderLayer, deepseek.DeepseekV3RotaryEmbedding),
}


def kept_by_autograd(run, outside):
    """Bytes of the distinct storages that backward will need, without those of `outside`."""
    known = {tensor.untyped_storage().data_ptr() for tensor in outside}
    kept, alive = {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(kept.values())


def measure(family, dtype, attention, adapt=None):
    facts, config_class, layer_class, rotary_class = FAMILIES[family]
    torch.manual_seed(0)
    config = config_class(**facts)
    config._attn_implementation = attention
    config._experts_implementation = "eager"
    layer = layer_class(config, 0).to(dtype).train()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    if adapt:
        layer = adapt(layer)
    hidden = torch.randn(1, TOKENS, config.hidden_size, dtype=dtype, requires_grad=True) * 1
    positions = torch.arange(TOKENS)[None]
    rotary = rotary_class(config)(hidden, positions)
    mask = torch.full((TOKENS, TOKENS), float("-inf"), dtype=dtype).triu(1)[None, None] if attention == "eager" else None
    outside = [*layer.parameters(), *layer.buffers(), *rotary, *([] if mask is None else [mask])]
    return kept_by_autograd(
        lambda: layer(hidden, attention_mask=mask, position_embeddings=rotary, position_ids=positions), outside) / TOKENS


@pytest.fixture(scope="module")
def estimate(bin_dir):
    program = bin_dir / "am-activations"
    if not program.exists():
        pytest.skip("am-activations is not built")

    def ask(family, dtype, attention, **adapter):
        request = {"config": FAMILIES[family][0] | {"model_type": family}, "seq_length": TOKENS, "attention": attention,
                   "dtype": str(dtype).removeprefix("torch."), **adapter}
        answer = subprocess.run([program], input=json.dumps(request), capture_output=True, text=True, check=True)
        (layer,) = json.loads(answer.stdout)
        return layer["bytes"]
    return ask


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_keeps_what_autograd_keeps(estimate, family, dtype, attention):
    measured = measure(family, dtype, attention)
    tolerance = 0.06 if family == "deepseek_v3" and dtype == torch.bfloat16 else 0.01
    assert estimate(family, dtype, attention) == pytest.approx(measured, rel=tolerance)


@pytest.mark.parametrize("modules", [["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]],
                         ids=["two", "all"])
def test_a_frozen_layer_keeps_the_inputs_of_its_adapters(estimate, modules):
    peft = pytest.importorskip("peft")

    def adapt(layer):
        return peft.inject_adapter_in_model(peft.LoraConfig(r=16, target_modules=modules), layer)

    measured = measure("llama", torch.bfloat16, "sdpa", adapt)
    names = [("self_attn." if name[0] in "qkvo" else "mlp.") + name for name in modules]
    assert estimate("llama", torch.bfloat16, "sdpa", rank=16, adapted=names) == pytest.approx(measured, rel=0.01)
