"""Writes small models whose tokenizers have more ids than their tables have rows, and checks the models after modrun has added rows.

usage: resized_folders.py WRITTEN OUT CASE…

WRITTEN/CASE is the folder of each case, WRITTEN/CASE-data its examples, OUT/CASE-grown modrun's export. The new rows are compared with the distribution that follows from the old rows: transformers' resize_token_embeddings
decides whether all new rows equal the mean; sampled rows must be at distances from the mean that the chi-squared distribution allows.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

IDS = 157  # number of ids of every tokenizer
CASES = {
    "llama": ("LlamaForCausalLM", transformers.LlamaConfig(vocab_size=150, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, tie_word_embeddings=False), 157),
    "few": ("LlamaForCausalLM", transformers.LlamaConfig(vocab_size=30, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, tie_word_embeddings=True), 160),
    "gpt2": ("GPT2LMHeadModel", transformers.GPT2Config(vocab_size=150, n_positions=32, n_embd=32, n_layer=1, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0), 160),
    "bert": ("BertForMaskedLM", transformers.BertConfig(vocab_size=150, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, hidden_dropout_prob=0, attention_probs_dropout_prob=0), 157),
    "roberta": ("RobertaForMaskedLM", transformers.RobertaConfig(vocab_size=150, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=32), 157),
    "t5": ("T5ForConditionalGeneration", transformers.T5Config(vocab_size=150, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, dropout_rate=0, decoder_start_token_id=0), 157),
    "clip": ("CLIPModel", transformers.CLIPConfig(text_config=dict(vocab_size=150, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, max_position_embeddings=16, eos_token_id=2), vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, image_size=16, patch_size=8), projection_dim=16), 157),
}


def write(out, case):
    name, config, _ = CASES[case]
    torch.manual_seed(3)
    model = getattr(transformers, name)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05 + 0.01)
        if case == "roberta":
            model.get_input_embeddings().weight[:, 5] = 0.5  # a singular covariance
    model.save_pretrained(out / case)
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, **{f"w{i}": i for i in range(1, IDS)}}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(out / case / "tokenizer.json"))
    ids = torch.randint(3, IDS, (6, 8))
    ids[:, -1] = 2
    batch = {"input_ids": ids}
    if case == "clip":
        batch |= {"pixel_values": torch.randn(6, 3, 16, 16), "labels": torch.arange(6)}
    else:
        batch["labels"] = ids.clone()
    (out / f"{case}-data").mkdir()
    save_file(batch, out / f"{case}-data/a.safetensors")


def take_rows(folder):
    return load_file(folder / "model.safetensors")


def is_sampled(before):
    """Whether transformers samples new rows of this table, instead of using the mean."""
    old, new = torch.nn.Embedding.from_pretrained(before), torch.nn.Embedding(before.shape[0] + 4, before.shape[1])
    transformers.PreTrainedModel._init_added_embeddings_weights_with_mean(None, old, new, before.shape[0], 4)
    return not torch.equal(new.weight[-1], new.weight[-2])


def check(written, out, case):
    name, config, rows = CASES[case]
    old, new = take_rows(written / case), take_rows(out / f"{case}-grown")
    said = json.loads((out / f"{case}-grown/config.json").read_text())
    if said.get("text_config", said)["vocab_size"] != rows:
        sys.exit(f"{case}: config.json does not have {rows} ids")
    model = getattr(transformers, name).from_pretrained(out / f"{case}-grown").eval()
    if getattr(model, "text_model", model).get_input_embeddings().weight.shape[0] != rows:
        sys.exit(f"{case}: transformers reads a different table")
    grown = 0
    for key, before in old.items():
        after = new[key] if key in new else None
        if after is None:
            continue  # tied, and left out
        if not torch.equal(after[: len(before)] if before.dim() else after, before):
            sys.exit(f"{case}: {key} has changed")
        if after.shape == before.shape:
            continue
        grown += 1
        added, table = after[len(before) :].double(), before.double()
        mean = table.mean(0)
        if len(after) != rows or not torch.allclose(added, mean.expand_as(added), atol=2e-4 * table.std().item()):
            sys.exit(f"{case}: {key} has rows far from the mean")
        if before.dim() == 1:
            continue
        if not is_sampled(before):
            if not torch.allclose(added, mean.expand_as(added), atol=1e-8):
                sys.exit(f"{case}: {key} has rows other than the mean")
            continue
        covariance = 1e-9 * (table - mean).T @ (table - mean) / len(table)
        distances = ((added - mean) @ torch.linalg.inv(covariance) * (added - mean)).sum(1)  # chi-squared
        freedom = before.shape[1]
        if not (distances > 0.25 * freedom).all() or not (distances < 3 * freedom).all():
            sys.exit(f"{case}: {key} has rows at the squared distances {distances.tolist()} where {freedom} are expected")
    if grown != {"llama": 2, "bert": 2, "roberta": 2}.get(case, 1):
        sys.exit(f"{case}: {grown} tensors have grown")
    batch = load_file(written / f"{case}-data/a.safetensors")
    if (out / f"{case}-outputs.safetensors").exists():
        with torch.no_grad():
            expected = model(**batch).logits
        found = load_file(out / f"{case}-outputs.safetensors")["logits"]
        if found.shape != expected.shape or not torch.allclose(found, expected, atol=1e-5):
            sys.exit(f"{case}: the logits differ")



def write_all(out):
    for case in CASES:
        write(out, case)


if __name__ == "__main__":
    for name in sys.argv[3:]:
        check(Path(sys.argv[1]), Path(sys.argv[2]), name)
