"""Writes small models whose rotary positions depend on a row's length, or whose rows are longer than
max_position_embeddings, with transformers' results.

    rope_rows.py FOLDER

FOLDER/NAME/model is the Hugging Face folder, FOLDER/NAME/rows/a.safetensors are examples of several lengths, and
FOLDER/NAME/stepped/model.safetensors is the model after a step of gradient descent on all of them. Each row is a forward of
its own, without padding, of a model that has seen no other: transformers computes the frequencies of all rows of a batch by
the longest, and keeps those of the longest so far.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

RATE = 0.5
ORIGINAL = 16  # positions
LENGTHS = (9, 40, 16, 27, 17, 33)
SMALL = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, max_position_embeddings=ORIGINAL, attention_dropout=0.0,
)
FACTORS = dict(short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 3.0, 5.0])


def rope(kind, **settings):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=100.0, **settings))


def neox(**rope_parameters):
    settings = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
    return transformers.GPTNeoXConfig(**settings, **rope_parameters)


CASES = {
    "llama-dynamic-2": transformers.LlamaConfig(**SMALL, **rope("dynamic", factor=2.0)),
    "llama-dynamic-8": transformers.LlamaConfig(**SMALL, tie_word_embeddings=True, **rope("dynamic", factor=8.0)),
    "mistral-dynamic-3": transformers.MistralConfig(**SMALL, sliding_window=11, **rope("dynamic", factor=3.0)),
    "qwen2-dynamic-1": transformers.Qwen2Config(**SMALL, **rope("dynamic", factor=1.5)),
    "neox-dynamic-4": neox(**rope("dynamic", factor=4.0, partial_rotary_factor=0.5)),
    "phi3-longrope": transformers.Phi3Config(
        **SMALL, original_max_position_embeddings=ORIGINAL // 2, **rope("longrope", **FACTORS)
    ),
    "phi3-longrope-factor": transformers.Phi3Config(
        **SMALL, **rope("longrope", factor=4.0, original_max_position_embeddings=20, **FACTORS)
    ),
    "llama-beyond": transformers.LlamaConfig(**SMALL, **rope("default")),
    "qwen3-yarn-beyond": transformers.Qwen3Config(
        **SMALL, head_dim=8, **rope("yarn", factor=2.0, original_max_position_embeddings=ORIGINAL // 2)
    ),
    "llama3-beyond": transformers.LlamaConfig(
        **SMALL,
        **rope("llama3", factor=4.0, original_max_position_embeddings=8, low_freq_factor=1.0, high_freq_factor=4.0),
    ),
}


def forget_longest(model):
    """Resets the model's frequencies to those before any sequence."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq"):
            module.register_buffer("inv_freq", module.original_inv_freq.clone(), persistent=False)
            module.max_seq_len_cached = module.original_max_seq_len


def write(folder, config):
    transformers.set_seed(len(folder.name))
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # so that positions matter
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder / "model")
    ids = torch.randint(3, config.vocab_size, (len(LENGTHS), max(LENGTHS)))
    mask = torch.stack([(torch.arange(max(LENGTHS)) < length).long() for length in LENGTHS])
    labels = ids.masked_fill(mask == 0, -100)
    (folder / "rows").mkdir()
    save_file({"input_ids": ids, "attention_mask": mask, "labels": labels}, folder / "rows" / "a.safetensors")
    targets = sum(length - 1 for length in LENGTHS)
    for row, length in zip(ids, LENGTHS):
        forget_longest(model)
        logits = model(row[None, :length]).logits[0, :-1]
        (torch.nn.functional.cross_entropy(logits, row[1:length], reduction="sum") / targets).backward()
    torch.optim.SGD(model.parameters(), lr=RATE).step()
    model.save_pretrained(folder / "stepped")


for name, config in CASES.items():
    write(pathlib.Path(sys.argv[1]) / name, config)
