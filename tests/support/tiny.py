"""A tiny random Llama with a tokenizer and a chat template, and a tiny data set in SQuAD form: a second to make, a second to train."""
import json
import random

WORDS = ("river mountain copper lantern orchard velvet harbour thunder meadow cinder walnut bridge candle mirror anchor feather "
         "basket marble saddle pepper window garden silver needle cotton timber falcon barley ribbon canyon pebble cradle").split()
QUALITIES = "small old bright heavy quiet narrow round yellow hollow smooth broken distant".split()

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def sentence(rng):
    return f"A {rng.choice(QUALITIES)} {rng.choice(WORDS)} stands near the {rng.choice(QUALITIES)} {rng.choice(WORDS)}."


def make_squad(folder, train, validation, seed=5):
    rng = random.Random(seed)
    for split, count in (("train", train), ("validation", validation)):
        with open(folder / f"{split}.jsonl", "w", encoding="utf-8") as out:
            for index in range(count):
                word, answer = rng.choice(WORDS), f"{rng.choice(QUALITIES)} {rng.choice(WORDS)}"
                lead = " ".join(sentence(rng) for _ in range(rng.randint(0, 3)))
                text = f"{lead} The {word} is a {answer}.".strip()
                out.write(json.dumps({
                    "id": f"{split}-{index}", "title": word, "context": text, "question": f"What is the {word}?",
                    "answers": {"text": [answer], "answer_start": [text.rindex(answer)]}}) + "\n")
    return folder


def make_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    rng = random.Random(1)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator((sentence(rng) for _ in range(400)), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>",
                                   pad_token="<|im_end|>", unk_token="<|endoftext|>")
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_model(folder, seed=0, dtype="float32", **config):
    """Writes a Hugging Face model directory; `config` overrides LlamaConfig's fields."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer()
    settings = dict(vocab_size=512, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, initializer_range=0.1,
                    bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**settings, **config}))
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
