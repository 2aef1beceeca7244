"""What PyTorch, transformers and peft compute for the same model, data and order: the reference of the engine's numbers."""
import json

import torch

IGNORE = -100


def records(path, count=None):
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return rows[:count]


def render(tokenizer, record):
    """(input_ids, labels) of a SQuAD record: a chat of prompt and answer, labels on the assistant's turn, shifted by one."""
    prompt = f"Context: {record['context']} Question: {record['question']} Answer: "
    user = [{"role": "user", "content": prompt}]
    chat = [*user, {"role": "assistant", "content": record["answers"]["text"][0].strip()}]
    ids = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False)
    begin = len(tokenizer.apply_chat_template(user, tokenize=True, return_dict=False))
    supervised = [position >= begin for position in range(len(ids))]
    labels = [ids[i + 1] if supervised[i + 1] else IGNORE for i in range(len(ids) - 1)]
    return ids[:-1], labels


def collate(samples):
    width = max(len(ids) for ids, _ in samples)

    def pad(rows, value):
        return torch.tensor([row + [value] * (width - len(row)) for row in rows])

    return (pad([ids for ids, _ in samples], 0), pad([labels for _, labels in samples], IGNORE),
            pad([[1] * len(ids) for ids, _ in samples], 0))


def loss_sum(model, batch):
    ids, labels, mask = batch
    logits = model(input_ids=ids, attention_mask=mask).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")


def train(model, samples, order, steps, global_batch_size, micro_batch_size, make_optimizer, max_norm=1.0):
    """Plain training; yields {"loss", "grad_norm"} a step. `order` lists sample indices, epoch after epoch."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = make_optimizer(parameters)
    for step in range(steps):
        picked = [samples[index] for index in order[step * global_batch_size:(step + 1) * global_batch_size]]
        label_tokens = sum(label != IGNORE for _, labels in picked for label in labels)
        total = 0.0
        for begin in range(0, len(picked), micro_batch_size):
            loss = loss_sum(model, collate(picked[begin:begin + micro_batch_size]))
            (loss / label_tokens).backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        optimizer.step()
        optimizer.zero_grad()
        yield {"loss": total / label_tokens, "grad_norm": norm.item()}
