"""The engine's losses and gradient norms are those of a plain PyTorch loop over transformers and peft."""
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from support import reference, tiny  # noqa: E402

torch.set_num_threads(1)  # a tiny model gains nothing from more, and threads that spin slow the machine down

STEPS = 20
BATCH = {"max_steps": STEPS, "global_batch_size": 8, "local_batch_size": 2}
# One dense Llama in the shapes that its family comes in.
SHAPES = {
    "tied embeddings, grouped heads": {},
    "an own head": {"tie_word_embeddings": False},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "one key head for each query head": {"num_key_value_heads": 4},
    "wide heads": {"head_dim": 32},
    "linear RoPE": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_theta": 5000.0},
    "llama3 RoPE": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": 64}},
    "yarn RoPE": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}},
}


def samples_of(model_dir, data_dir):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
    return [reference.render(tokenizer, record) for record in reference.records(data_dir / "train.jsonl")]


def expected(model, product, **more):
    samples = samples_of(product.model, product.data)
    order = [index for _ in range(4) for index in range(len(samples) // 8 * 8)]
    return list(reference.train(model, samples, order, STEPS, 8, 2, **more))


def compare(product, steps, tolerance=1e-4):
    lines = product.training()
    assert len(lines) == len(steps)
    for line, step in zip(lines, steps, strict=True):
        assert line["loss"] == pytest.approx(step["loss"], rel=tolerance), f"loss of step {line['step']}"
        assert line["grad_norm"] == pytest.approx(step["grad_norm"], rel=1e-3), f"gradient norm of step {line['step']}"


@pytest.fixture
def in_file_order(product):
    """Training sections that make an order which the loop can follow: no shuffle, the smaller last batch dropped."""
    return {"step_scheduler": BATCH, "dataloader": {"shuffle": False, "drop_last": True}}


@pytest.mark.parametrize("shape", SHAPES)
def test_full_fine_tuning_follows_the_loop(product, in_file_order, tmp_path, shape):
    product.model = tiny.make_model(tmp_path / "model", **SHAPES[shape])
    product.train(**in_file_order)
    model = transformers.AutoModelForCausalLM.from_pretrained(product.model, dtype=torch.float32, attn_implementation="sdpa")
    compare(product, expected(model, product, make_optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3)))


@pytest.mark.parametrize("name,arguments", [
    ("AdamW", {"lr": 1e-3, "weight_decay": 0.1, "betas": [0.8, 0.95], "eps": 1e-6}),
    ("Adam", {"lr": 1e-3, "weight_decay": 0.01, "amsgrad": True}),
    ("SGD", {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("SGD", {"lr": 1e-2}),
])
def test_optimizers_follow_torchs(product, in_file_order, name, arguments):
    import yaml

    path = product.recipe(optimizer=None, **in_file_order)
    path.write_text(path.read_text() + yaml.safe_dump({"optimizer": {"_target_": f"torch.optim.{name}", **arguments}}))
    result = product.amctl("run", path)
    assert result.status == 0, result
    model = transformers.AutoModelForCausalLM.from_pretrained(product.model, dtype=torch.float32)
    compare(product, expected(model, product, make_optimizer=lambda parameters: getattr(torch.optim, name)(parameters, **arguments)))


def test_switching_clipping_off_follows_the_loop(product, in_file_order):
    product.train(clip_grad_norm={"max_norm": None}, **in_file_order)
    model = transformers.AutoModelForCausalLM.from_pretrained(product.model, dtype=torch.float32)
    compare(product, expected(model, product, max_norm=float("inf"), make_optimizer=lambda p: torch.optim.Adam(p, lr=1e-3)))


@pytest.mark.parametrize("ranks", [1, 2])
def test_lora_follows_peft(product, in_file_order, tmp_path, ranks):
    peft = pytest.importorskip("peft")
    base = transformers.AutoModelForCausalLM.from_pretrained(product.model, dtype=torch.float32)
    torch.manual_seed(3)
    model = peft.get_peft_model(base, peft.LoraConfig(
        r=4, lora_alpha=16, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        task_type="CAUSAL_LM"))
    model.save_pretrained(tmp_path / "adapter")
    product.train(ranks=ranks, peft=product.lora(adapter_path=str(tmp_path / "adapter")), **in_file_order)
    compare(product, expected(model, product, make_optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3)))


def test_the_epochs_order_is_torchs_seeded_permutation(product):
    product.train(step_scheduler={**BATCH, "max_steps": 16})
    samples = samples_of(product.model, product.data)
    order = []
    for epoch in range(2):
        generator = torch.Generator().manual_seed(1111 + epoch)
        order.append(torch.randperm(len(samples), generator=generator).tolist())
    batches = [epoch[begin:begin + 8] for epoch in order for begin in range(0, len(samples), 8)]
    tokens = [sum(len(samples[index][0]) for index in batch) for batch in batches]
    assert [line["num_tokens_per_step"] for line in product.training()] == tokens


def test_validation_loss_is_the_models(product):
    product.train(step_scheduler={"max_steps": 1, "val_every_steps": 1}, optimizer={"lr": 0.0}, ranks=2,
                  validation_dataset=product.validation_set())
    tokenizer = transformers.AutoTokenizer.from_pretrained(product.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(product.model, dtype=torch.float32)
    samples = [reference.render(tokenizer, record) for record in reference.records(product.data / "validation.jsonl")]
    labels = sum(label != reference.IGNORE for _, row in samples for label in row)
    with torch.no_grad():
        wanted = sum(reference.loss_sum(model, reference.collate([sample])).item() for sample in samples) / labels
    from support.product import jsonl

    line = jsonl(product.checkpoints() / "validation.jsonl")[0]
    assert line["num_label_tokens"] == labels
    assert line["val_loss"] == pytest.approx(wanted, rel=1e-5)
