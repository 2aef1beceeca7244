"""The user guide's recipe runs as it is printed, but for where the model and the data are."""
import re

import pytest
import yaml


@pytest.fixture
def full_config(test_data, product):
    """The "Full Config" of the guide, as text; nothing in it is changed."""
    guide = (test_data / "seeds" / "sft_peft_guide.txt").read_text(encoding="utf-8")
    text = re.search(r"^Full Config\n\n(# Recipe\n.*?)^Config Field Reference", guide, re.MULTILINE | re.DOTALL)[1]
    path = product.folder / "full_config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def overrides(product):
    return [f"--model.pretrained_model_name_or_path={product.model}", f"--dataset.dataset_name={product.data}",
            f"--validation_dataset.dataset_name={product.data}", f"--checkpoint.checkpoint_dir={product.checkpoints()}"]


def test_the_full_config_trains_an_adapter(product, full_config, overrides):
    # 60 samples, batches of 4 accumulated * 8 * 2 ranks = 64: one step an epoch.
    result = product.amctl("run", full_config, *overrides, "--nproc-per-node=2")
    assert result.status == 0, result
    assert len(product.training()) == 1
    assert "gloo" in result.err.lower(), "a warning says that NCCL became Gloo"
    assert "triton" in result.err.lower(), "a warning says that no Triton kernel runs"
    model = product.checkpoints() / "LATEST" / "model"
    assert (model / "adapter_model.safetensors").is_file() and (model / "adapter_config.json").is_file()
    # the validation loss is the last thing that the run says of the model
    assert re.search(r"^\[val\] step 1 \| epoch 0 \| loss \d", result.out, re.MULTILINE), result


def test_without_its_peft_section_it_trains_all_weights(product, full_config, overrides):
    result = product.amctl("run", full_config, *overrides, "--peft-", "--nproc-per-node=1", "--dataloader.batch_size=2")
    assert result.status == 0, result
    assert len(product.training()) == 8
    assert (product.checkpoints() / "LATEST" / "model" / "consolidated" / "model.safetensors").is_file()


def test_it_is_valid_and_has_a_plan(product, full_config, overrides):
    result = product.amctl("validate", full_config, *overrides)
    assert result.status == 0, result
    result = product.amctl("plan", full_config, *overrides, "--gpus-per-node=2", "--json")
    assert result.status == 0, result
    plan = yaml.safe_load(result.out)
    assert plan["world_size"] == 2 and plan["global_batch_size"] == 64 and plan["grad_acc_steps"] == 4
