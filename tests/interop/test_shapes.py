"""The weights that launcher/model counts are those that transformers builds: names, sizes and layers, on the meta device.

For the models of configs/models, and for small ones whose every number is drawn at random.
"""
import json
import os
import pathlib
import random
import re
import subprocess

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ROOT = pathlib.Path(__file__).resolve().parents[2]
FACTS = {path.stem.replace("--", "/", 1): path for path in sorted((ROOT / "configs" / "models").glob("*.json"))}
# Built by another class than the one that config.json names.
CLASSES = {"kimi_k2": ("deepseek_v3", "DeepseekV3ForCausalLM"), "mimo_v2": ("mimo_v2_flash", "MiMoV2FlashForCausalLM")}
TOWERS = ("visual.", "vision_tower.", "multi_modal_projector.")


@pytest.fixture(scope="module")
def print_shape():
    folder = pathlib.Path(os.environ.get("AMCTL_BIN_DIR") or ROOT / "build" / "bin").resolve().parent / "tests"
    program = folder / "print_shape"
    if not program.exists():
        pytest.skip("print_shape is not built: scripts/build builds it, AMCTL_BIN_DIR names the folder beside it")

    def run(config):
        answer = subprocess.run([program], input=json.dumps(config), capture_output=True, text=True, timeout=60, check=True)
        return json.loads(answer.stdout)

    return run


def build(config):
    """The model of transformers without memory, or None where transformers does not have it."""
    kind = config["model_type"]
    kind, name = CLASSES.get(kind, (kind, config["architectures"][0]))
    if kind not in transformers.CONFIG_MAPPING or not hasattr(transformers, name):
        return None
    settings = {key: value for key, value in json.loads(json.dumps(config)).items() if key not in ("model_type", "architectures")}
    for part in (settings, settings.get("text_config")):
        if part is not None:  # what the facts leave out and small vocabularies cannot have
            part.update(pad_token_id=None, eos_token_id=1, rope_parameters={"partial_rotary_factor": 0.5, "rope_theta": 1e4})
            if kind in ("laguna", "gemma3", "gemma3_text", "mimo_v2_flash", "deepseek_v4"):
                del part["rope_parameters"]
    if kind == "mimo_v2_flash":
        settings = {key: value for key, value in settings.items() if not key.startswith(("vision", "has_"))}
    with torch.device("meta"):
        return getattr(transformers, name)(transformers.CONFIG_MAPPING[kind](**settings))


def theirs(model):
    """{layer or None: {parameter: numbers}}, the numbers of the towers, and (layer, name): [out, in] of the matrices."""
    parts, towers, matrices = {}, 0, {}
    for name, parameter in model.named_parameters():
        name = re.sub(r"^model\.", "", name)
        if name.startswith(TOWERS):
            towers += parameter.numel()
            continue
        name = re.sub(r"^language_model\.", "", name)
        name = re.sub(r"\.weight$", "", name)
        layer = re.match(r"layers\.(\d+)\.(.*)", name)
        depth, name = (int(layer[1]), layer[2]) if layer else (None, name)
        parts.setdefault(depth, {})[name] = parameter.numel()
        if parameter.dim() == 2:
            matrices[depth, name] = list(parameter.shape)
    return parts, towers, matrices


def named(weights):
    found = {}
    for weight in weights:
        if weight["numbers"]:
            found[re.sub(r"\.weight$", "", weight["name"])] = weight["numbers"]
    # transformers keeps what checkpoints have apart in one parameter, and calls biases of it otherwise.
    for name in [name for name in found if ".experts.gate_proj" in name]:
        joined = name.replace("gate_proj", "gate_up_proj").replace(".bias", "_bias")
        found[joined] = found.pop(name) + found.pop(name.replace("gate_proj", "up_proj"))
    return {name.replace(".experts.down_proj.bias", ".experts.down_proj_bias"): numbers for name, numbers in found.items()}


def split(parts):
    """MiMo's files have one matrix for query, key and value, its class of transformers three."""
    for part in parts.values():
        if "self_attn.q_proj" in part and "self_attn.v_proj" in part:
            part["self_attn.qkv_proj"] = sum(part.pop(f"self_attn.{name}_proj") for name in "qkv")


def compare(config, model, shape):
    assert "error" not in shape, shape
    parts, towers, matrices = theirs(model)
    if (config.get("text_config") or config).get("attention_projection_layout") == "fused_qkv":
        split(parts)
    assert named(shape["embedding"] + shape["head"]) == parts.pop(None)
    ours = {depth: named(shape["kinds"][kind]) for depth, kind in enumerate(shape["layers"])}
    assert ours.keys() == parts.keys()
    for depth in ours:
        assert ours[depth] == parts[depth], f"layer {depth}"
        for weight in shape["kinds"][shape["layers"][depth]]:
            if weight["in"] and (depth, weight["name"]) in matrices:
                assert matrices[depth, weight["name"]] == [weight["out"] * weight["copies"], weight["in"]], weight
    assert sum(weight["numbers"] for tower in shape["towers"] for weight in tower) == towers
    assert shape["parameters"] == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", FACTS)
def test_known_models_have_the_weights_of_transformers(name, print_shape):
    config = json.loads(FACTS[name].read_text())
    if "llm_config" in config:
        config = config["llm_config"]
    model = build(config)
    if model is None:
        pytest.skip(f"transformers does not have {config['model_type']}")
    compare(config, model, print_shape(config))


def drawn(config, rng):
    """A small model of the same family: every number another one, what must divide divides."""
    text = config.get("text_config", config)
    kind = text["model_type"]
    heads, groups = rng.choice([2, 4, 6]) * 2, rng.choice([1, 2])
    layers = rng.randint(5, 9)
    dim = rng.choice([8, 16, 24])
    new = {
        "vocab_size": rng.randint(50, 300), "hidden_size": rng.choice([32, 40, 48, 64]), "intermediate_size": rng.randint(17, 99),
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads // 2 if groups == 2 else 1,
        "head_dim": dim, "tie_word_embeddings": rng.random() < 0.5, "moe_intermediate_size": rng.randint(9, 40),
        "shared_expert_intermediate_size": rng.randint(9, 40), "moe_shared_expert_intermediate_size": rng.randint(9, 40),
        "num_experts": rng.randint(5, 12), "num_local_experts": rng.randint(5, 12), "n_routed_experts": rng.randint(2, 5) * 4,
        "num_experts_per_tok": rng.randint(1, 4), "n_shared_experts": rng.randint(1, 3), "num_shared_experts": rng.randint(1, 3),
        "first_k_dense_replace": rng.randint(1, 3), "q_lora_rank": rng.randint(5, 30), "kv_lora_rank": rng.randint(5, 30),
        "qk_nope_head_dim": rng.choice([8, 12]), "qk_rope_head_dim": rng.choice([4, 8]), "v_head_dim": rng.choice([8, 10]),
        "o_lora_rank": rng.randint(5, 20), "o_groups": rng.choice([1, 2]), "hc_mult": rng.randint(2, 4), "hc_count": rng.randint(2, 4),
        "hc_lowrank": rng.randint(3, 12), "index_n_heads": rng.randint(2, 5), "index_head_dim": rng.choice([8, 16]),
        "index_topk": 32, "index_kpool": rng.choice([2, 4, 8]), "sliding_window": rng.randint(8, 40), "attention_bias": rng.random() < 0.5,
        "linear_num_key_heads": 2, "linear_num_value_heads": rng.choice([2, 4]), "linear_key_head_dim": rng.choice([8, 16]),
        "linear_value_head_dim": rng.choice([8, 12]), "linear_conv_kernel_dim": rng.randint(2, 5), "mamba_num_heads": 4,
        "mamba_head_dim": rng.choice([8, 12]), "ssm_state_size": rng.randint(4, 20), "n_groups": rng.choice([1, 2, 4]),
        "conv_kernel": rng.randint(2, 5), "moe_latent_size": rng.choice([None, 20]), "use_bias": rng.random() < 0.5,
        "use_conv_bias": rng.random() < 0.5, "mlp_bias": rng.random() < 0.5, "use_qk_norm": rng.random() < 0.5,
        "ngram_vocab_size_base": rng.randint(1000, 5000), "ple_embed_dim": 64, "ple_conv_kernel_size": rng.randint(2, 5),
        "make_ngram_vocab_size_divisible_by": rng.choice([1, 64, 100]), "indexer_n_heads": rng.randint(1, 4), "indexer_head_dim": 64,
        "indexer_budget": 32, "decoder_sparse_step": rng.choice([1, 2]),
        "num_attention_heads_per_layer": [rng.choice([heads, 2 * heads]) for _ in range(layers)],
        "hybrid_override_pattern": "".join(rng.choice("M*E-") for _ in range(layers)),
        "compress_ratios": [rng.choice([0, 4, 128]) for _ in range(layers)], "ple_layer_ids": sorted(rng.sample([1, 2, 3], 2)),
        "num_nextn_predict_layers": 0,
    }
    if kind in ("llama", "mistral", "mixtral"):
        new["hidden_size"] = heads * 8
    if kind in ("phi3", "gemma2", "gemma3_text", "gpt_oss"):
        new["attention_bias"] = kind == "gpt_oss"
        new["hidden_size"] = heads * dim
    if kind in ("deepseek_v3", "kimi_k2", "kimi_linear", "glm_moe_dsa", "deepseek_v32", "glm5_next_text"):
        new["num_key_value_heads"] = heads
    if kind in ("kimi_linear", "glm5_next_text"):
        new["q_lora_rank"] = rng.choice([None, 12]) if kind == "kimi_linear" else 12
        new["qk_rope_head_dim"] = 0 if kind == "glm5_next_text" else 4
        new["linear_attn_config"] = {**text["linear_attn_config"], "num_heads": rng.choice([2, 4]), "head_dim": rng.choice([8, 16]),
                                     "short_conv_kernel_size": rng.randint(2, 4)}
        if kind == "kimi_linear":
            full = sorted(rng.sample(range(1, layers + 1), 2))
            new["linear_attn_config"] |= {"full_attn_layers": full, "kda_layers": [i for i in range(1, layers + 1) if i not in full]}
            new["num_shared_experts"] = new["n_shared_experts"]
    if kind == "qwen4_exp_text":
        new |= {"head_dim": 64, "decoder_sparse_step": 1}
    if kind == "deepseek_v4":
        new |= {"num_key_value_heads": 1, "head_dim": 32, "n_shared_experts": 1}
    if kind in ("kimi_linear", "nemotron_h"):
        new["tie_word_embeddings"] = False  # their classes of transformers never tie
    if kind == "mimo_v2":
        new["num_key_value_heads"], new["num_attention_heads"] = rng.choice([1, 2]), 8
        new["attention_bias"] = False
    small = {key: new.get(key, value) for key, value in text.items()}
    if kind in ("mimo_v2", "laguna", "glm4_moe", "glm_moe_dsa", "deepseek_v32", "glm5_next_text"):
        # A class of transformers reads the list, not first_k_dense_replace.
        small["mlp_layer_types"] = ["dense" if i < small.pop("first_k_dense_replace", 1) else "sparse" for i in range(1)] + \
            ["sparse"] * (layers - 1)
    if "layer_types" in small:
        small["layer_types"] = [rng.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]
    if "text_config" not in config:
        return small
    vision = {key: value for key, value in config["vision_config"].items()}
    drawn_vision = {"hidden_size": 24, "intermediate_size": rng.randint(10, 50), "num_hidden_layers": 3, "depth": 3, "num_attention_heads": 4,
                    "num_heads": 4, "out_hidden_size": small["hidden_size"], "num_position_embeddings": rng.choice([16, 64]),
                    "patch_size": rng.choice([4, 7]), "image_size": 28, "projection_intermediate_size": rng.randint(10, 50)}
    return {**config, "text_config": small, "tie_word_embeddings": small["tie_word_embeddings"],
            "vision_config": {key: drawn_vision.get(key, value) for key, value in vision.items()}}


FAMILIES = {config["model_type"]: config for config in (json.loads(path.read_text()) for path in FACTS.values())}
# Families that no known model is of, but that are built of the same parts.
FAMILIES["deepseek_v32"] = {**FAMILIES["glm_moe_dsa"], "model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"],
                            "index_topk_freq": 1}
FAMILIES["qwen3_5_moe"] = FAMILIES["qwen3_5"] | {
    "model_type": "qwen3_5_moe", "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "text_config": FAMILIES["qwen3_5"]["text_config"] | {
        "model_type": "qwen3_5_moe_text", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
        "shared_expert_intermediate_size": 8}}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_models_of_any_size_have_the_weights_of_transformers(family, print_shape):
    config = FAMILIES[family]
    if family not in CLASSES and family not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers does not have {family}")
    for seed in range(8):
        small = drawn(config, random.Random(seed))
        compare(small, build(small), print_shape(small))
