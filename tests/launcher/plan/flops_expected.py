"""FLOPs a token by the published formulas, written down a second time, apart from launcher/plan.

    python tests/launcher/plan/flops_expected.py ../shared/models > tests/launcher/plan/flops_expected.tsv

Symbols as in the page of formulas: h hidden, L layers, a query heads, k KV heads, d head width,
i dense width, m expert width, t experts a token, V vocabulary, S sequence length.
"""
import json
import pathlib
import sys


def llama(c, S):
    h, L, a, k = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
    return 6 * (L * (2 * h * h + 2 * h * h * k / a + 3 * h * c["intermediate_size"] + h * S) + c["vocab_size"] * h)


def qwen(c, S):
    h, L, a, k = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
    d = c.get("head_dim") or h // a
    m, t = c.get("moe_intermediate_size"), c.get("num_experts_per_tok")
    if not c.get("num_experts"):
        m, t = c["intermediate_size"], 1
    return 6 * (L * (h * d * (2 * a + 2 * k) + a * d * S + 3 * h * m * t) + c["vocab_size"] * h)


def glm45(c, S):
    h, L, a, k = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
    d, m, first = c["head_dim"], c["moe_intermediate_size"], c["first_k_dense_replace"]
    attention = h * d * (2 * a + 2 * k) + a * d * S
    moe = 3 * h * m * (c["num_experts_per_tok"] + c["n_shared_experts"])
    return 6 * (L * attention + first * 3 * h * c["intermediate_size"] + (L - first) * moe + c["vocab_size"] * h)


def latent_attention(c):
    h, a, r = c["hidden_size"], c["num_attention_heads"], c["qk_rope_head_dim"]
    n, v, q, low = c["qk_nope_head_dim"], c["v_head_dim"], c["q_lora_rank"], c["kv_lora_rank"]
    Q = h * q + q * a * (n + r) if q else h * a * (n + r)
    return Q + h * r + h * low + low * a * (n + v) + a * v * h


def deepseek_recorded(c, S):
    h, L, a = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    widths = c["qk_nope_head_dim"] + c["qk_rope_head_dim"] + c["v_head_dim"]
    moe = 3 * h * c["moe_intermediate_size"] * (c["num_experts_per_tok"] + 1)
    return 6 * (L * (latent_attention(c) + S / 2 * a * widths + moe) + c["vocab_size"] * h)


def deepseek(c, S, mtp=0):
    h, L, a, V = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["vocab_size"]
    widths = c["qk_nope_head_dim"] + c["qk_rope_head_dim"] + c["v_head_dim"]
    pairs = S / 2 * a * widths
    indexer = 0
    if c.get("index_topk"):
        pairs = c["index_topk"] * a * widths
        H, D = c["index_n_heads"], c["index_head_dim"]
        indexer = c["q_lora_rank"] * H * D + h * D + h * H + H * D * S
    attention = latent_attention(c) + pairs + indexer
    moe = 3 * h * c["moe_intermediate_size"] * (c["num_experts_per_tok"] + c["n_shared_experts"])
    first = c["first_k_dense_replace"]
    layers = L * attention + first * 3 * h * c["intermediate_size"] + (L - first) * moe
    return 6 * (layers + V * h + mtp * (attention + moe + V * h + 2 * h * h))


def gpt_oss(c, S, d):
    h, L, a, k, w = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"], c["sliding_window"]
    full, window = S * (S + 1) / 2, w * (w + 1) / 2 + (S - w) * w
    mlp = 3 * h * c["intermediate_size"] * c["num_experts_per_tok"]
    return 6 * (L * (h * d * (2 * a + 2 * k) + mlp) + c["vocab_size"] * h + L / 2 * 2 * a * d * (full + window) / S)


def nemotron(c, S, z, mtp=0):
    h, a, k = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    x, nh = c["mamba_num_heads"] * c["mamba_head_dim"], c["mamba_num_heads"]
    s, G = c["ssm_state_size"], c["n_groups"]
    e, m, t, E = c.get("moe_latent_size") or 0, c["moe_intermediate_size"], c["num_experts_per_tok"], c["n_routed_experts"]
    shared = c["moe_shared_expert_intermediate_size"]
    attention = 6 * h * (2 * h + 2 * h * k / a + S)
    mamba = 6 * h * (2 * x + 2 * G * s + nh) + z * x * s + 6 * x * h
    moe = 6 * (2 * t * (e or h) * m + 2 * h * shared + h * E + 2 * h * e)
    blocks = {"M": mamba, "*": attention, "E": moe}
    head = 6 * h * c["vocab_size"]
    return sum(blocks[b] for b in c["hybrid_override_pattern"]) + head + mtp * (attention + moe + 12 * h * h + head)


def gated_delta(c):
    Kq = c["linear_key_head_dim"] * c["linear_num_key_heads"]
    nv, vd = c["linear_num_value_heads"], c["linear_value_head_dim"]
    Vv, h = nv * vd, c["hidden_size"]
    return h * (2 * Kq + 2 * Vv + 2 * nv) + c["linear_conv_kernel_dim"] * (2 * Kq + Vv) + 4 * nv * vd * vd + h * Vv


def count(c, kind):
    return sum(t == kind for t in c["layer_types"])


def qwen_next(c, S, mtp=0):
    h, a, k, d, V = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["vocab_size"]
    full = h * d * (3 * a + 2 * k) + a * d * S
    if c.get("num_experts"):
        mlp = 3 * h * (c["num_experts_per_tok"] * c["moe_intermediate_size"] + c["shared_expert_intermediate_size"])
    else:
        mlp = 3 * h * c["intermediate_size"]
    layers = count(c, "full_attention") * full + count(c, "linear_attention") * gated_delta(c) + c["num_hidden_layers"] * mlp
    return 6 * (layers + V * h) + mtp * 6 * (2 * h * h + full + mlp + V * h)


def flash_next(c, S):
    h, a, k, d, V, L = (c[n] for n in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "num_hidden_layers"))
    u, lr, R = c["hc_count"], c["hc_lowrank"], c["indexer_compress_ratio"]
    F, B = u * h, c["indexer_budget"] // c["indexer_compress_ratio"]
    Nf, Ng = count(c, "full_attention"), count(c, "linear_attention")
    lin = h * d * (3 * a + 2 * k)
    E = c["num_experts"]
    moe = 3 * h * (c["num_experts_per_tok"] * c["moe_intermediate_size"] + c["shared_expert_intermediate_size"]) + h * E + h
    hc = 2 * (2 * F * lr + F * u)
    keys = R * sum(min(B, j // R) for j in range(1, S + 1)) + sum(j % R for j in range(1, S + 1))
    P, p = len(c["ple_layer_ids"]), c["ple_embed_dim"]
    trained = Nf * lin + Ng * gated_delta(c) + L * (moe + hc) + 2 * F * lr
    trained += P * (p * F + p * h + F * c["ple_conv_kernel_size"]) + V * h
    H, Hk, D = c["indexer_n_heads"], c["indexer_kv_heads"], c["indexer_head_dim"]
    indexer = Nf * (h * (H + Hk) * D + H * D * sum(j // R for j in range(1, S + 1)) / S)
    return 6 * trained + 6 * Nf * 2 * a * d * keys / S + 2 * indexer


def deepseek_v4(c, S):
    h, L, a, d, V = (c[n] for n in ("hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim", "vocab_size"))
    q, o, g, u, w = c["q_lora_rank"], c["o_lora_rank"], c["o_groups"], c["hc_mult"], c["sliding_window"]
    H, D, E = c["index_n_heads"], c["index_head_dim"], c["n_routed_experts"]
    att = h * q + q * a * d + h * d + a * d * o + g * o * h
    moe = 3 * h * c["moe_intermediate_size"] * (c["num_experts_per_tok"] + c["n_shared_experts"]) + h * E
    hc = 2 * u * (u + 2) * u * h + 2 * u * u * h
    keys = comp6 = comp2 = idx = 0
    for R in c["compress_ratios"][:L]:
        keys += sum(min(j, w) for j in range(1, S + 1))
        if not R:
            continue
        cap = c["index_topk"] if R == 4 else S // R
        keys += sum(min(j // R, cap) for j in range(1, S + 1))
        compressor = 2 * h * d * (2 if R == 4 else 1)
        if R > S:
            comp2 += compressor
        else:
            comp6 += compressor
        if R == 4:
            idx += 4 * h * D + q * H * D + h * H + H * D * sum(j // R for j in range(1, S + 1)) / S
    return 6 * (L * (att + moe + hc) + u * u * h + V * h + comp6 + 2 * a * d * keys / S) + 2 * (comp2 + idx)


def deepseek_v41(c, S):
    h, L, a, d, V = (c[n] for n in ("hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim", "vocab_size"))
    q, o, g, u, w = c["q_lora_rank"], c["o_lora_rank"], c["o_groups"], c["hc_mult"], c["sliding_window"]
    H, D, E = c["index_n_heads"], c["index_head_dim"], c["n_routed_experts"]
    att = h * q + q * a * d + h * d + a * d * o + g * o * h
    moe = 3 * h * c["moe_intermediate_size"] * (c["num_experts_per_tok"] + c["n_shared_experts"]) + h * E
    hc = 2 * u * (u + 2) * u * h
    keys = comp6 = comp2 = idx = 0
    for layer, R in enumerate(c["compress_ratios"][:L]):
        keys += sum(min(j, w) for j in range(1, S + 1))
        if R:
            keys += sum(min(j // R, c["index_topk"]) for j in range(1, S + 1))
        if layer in c["kv_source_layer_ids"]:
            compressor = h * d * (2 if R > 1 else 1)
            if R > S:
                comp2 += compressor
            else:
                comp6 += compressor
        if layer in c["index_source_layer_ids"]:
            idx += q * H * D + h * H + H * D * sum(j // R for j in range(1, S + 1)) / S
            if layer in c["kv_source_layer_ids"]:
                idx += S // R * d * D / S
    ngram = len(c["engram_layer_ids"]) * (c["engram_max_ngram_size"] - 1) * c["engram_n_heads"] * c["engram_head_dim"] * h * (u + 1)
    return 6 * (L * (att + moe + hc) + V * h + comp6 + ngram + 2 * a * d * keys / S) + 2 * (comp2 + idx)


def rows(c):
    """(convention, depths of multi-token prediction, formula) of a config.json."""
    text = c.get("text_config") or c.get("llm_config") or c
    kind = text["model_type"]
    if kind == "llama":
        return text, [("current", 0, llama)]
    if kind in ("qwen2", "qwen3", "qwen3_moe"):
        return text, [("current", 0, qwen)]
    if kind == "glm4_moe":
        return text, [("current", 0, glm45)]
    if kind in ("deepseek_v3", "kimi_k2"):
        return text, [("current", 0, deepseek), ("current", 1, lambda c, S: deepseek(c, S, 1)), ("recorded", 0, deepseek_recorded)]
    if kind == "glm_moe_dsa":
        return text, [("current", 0, deepseek), ("current", 1, lambda c, S: deepseek(c, S, 1))]
    if kind == "gpt_oss":
        return text, [("current", 0, lambda c, S: gpt_oss(c, S, c["head_dim"])),
                      ("recorded", 0, lambda c, S: gpt_oss(c, S, c["hidden_size"] // c["num_attention_heads"]))]
    if kind == "nemotron_h":
        return text, [("current", 0, lambda c, S: nemotron(c, S, 21)), ("recorded", 0, lambda c, S: nemotron(c, S, 6)),
                      ("current", 2, lambda c, S: nemotron(c, S, 21, 2)), ("recorded", 2, lambda c, S: nemotron(c, S, 21, 2))]
    if kind in ("qwen3_next", "qwen3_5_text"):
        return text, [("current", 0, qwen_next), ("current", 1, lambda c, S: qwen_next(c, S, 1))]
    if kind == "qwen4_exp_text":
        return text, [("current", 0, flash_next)]
    if kind == "deepseek_v4":
        return text, [("current", 0, deepseek_v4)]
    if kind == "deepseek_v41_text":
        return text, [("current", 0, deepseek_v41)]
    return text, []


def main():
    print("model\tseq_length\tconvention\tmtp_depths\tflops_per_token")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*/config.json")):
        config = json.loads(path.read_text())
        if "transformer" in config:
            continue
        text, formulas = rows(config)
        for convention, depths, formula in formulas:
            for S in (1024, 4096, 8192):
                print(path.parent.name, S, convention, depths, f"{formula(text, S):.12g}", sep="\t")


if __name__ == "__main__":
    main()
