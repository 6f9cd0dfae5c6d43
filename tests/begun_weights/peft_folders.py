"""Has PEFT write small models and their adapters, and compares what modrun made of them.

usage: peft_folders.py WRITTEN OUT CASE…

WRITTEN/CASE has base, adapter, examples/a.safetensors, and expected.safetensors with the logits, and with those after two steps of SGD. OUT/CASE has what modrun made: merged (a folder for transformers),
outputs.safetensors (logits) merged of some, and trained of some (a PEFT folder, after these steps).
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

RATE = 0.2
ROWS, LENGTH, VOCABULARY = 6, 10, 256
LLAMA = transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0)
BERT = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
ROBERTA = transformers.RobertaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
GPT2 = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
T5 = transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0, decoder_start_token_id=0)

# The class of the base, its config, the class that PEFT wraps, the arguments of LoraConfig, and labels.
CASES = {
    "llama": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(task_type="CAUSAL_LM", r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj"]), None),
    "layers": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(r=3, lora_alpha=5, target_modules=["up_proj", "down_proj"], layers_to_transform=[1], alpha_pattern={"mlp.up_proj": 7, "down_proj": 7}), None),
    "rows": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens", "lm_head"]), None),
    "head": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(task_type="CAUSAL_LM", r=4, target_modules=["lm_head", "o_proj"]), None),
    "pattern": ("LlamaForCausalLM", LLAMA, "LlamaForSequenceClassification", dict(task_type="SEQ_CLS", target_modules=r".*\.self_attn\.[qk]_proj", r=2), 3),
    "bert": ("BertForSequenceClassification", BERT, "BertForSequenceClassification", dict(task_type="SEQ_CLS", r=4, target_modules=["query", "value"]), 3),
    "roberta": ("RobertaForMaskedLM", ROBERTA, "RobertaForTokenClassification", dict(task_type="TOKEN_CLS", r=4, lora_alpha=3, target_modules=["query", "dense"]), 5),
    "saved": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"]), None),
    "tied": ("GPT2LMHeadModel", GPT2, "GPT2LMHeadModel", dict(task_type="CAUSAL_LM", r=4, target_modules=["c_attn"]), None),
    "tokens": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], trainable_token_indices={"embed_tokens": [200, 7, 31], "lm_head": [9]}), None),
    "tied-tokens": ("GPT2LMHeadModel", GPT2, "GPT2LMHeadModel", dict(task_type="CAUSAL_LM", r=4, target_modules=["c_attn"], trainable_token_indices=[5, 130, 6]), None),
    "saved-tokens": ("LlamaForCausalLM", LLAMA, "LlamaForCausalLM", dict(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], trainable_token_indices=[260, 3, 258]), None),
    "grown-tokens": ("GPT2LMHeadModel", GPT2, "GPT2LMHeadModel", dict(task_type="CAUSAL_LM", r=4, target_modules=["c_attn"], trainable_token_indices={"wte": [8, 259]}), None),
    "t5-tokens": ("T5ForConditionalGeneration", T5, "T5ForConditionalGeneration", dict(task_type="SEQ_2_SEQ_LM", r=4, target_modules=["q", "v"], trainable_token_indices=[11, 100, 3]), None),
    "bert-tokens": ("BertForSequenceClassification", BERT, "BertForSequenceClassification", dict(task_type="SEQ_CLS", r=4, target_modules=["query"], trainable_token_indices={"word_embeddings": [77, 40]}), 3),
    "gpt2": ("GPT2LMHeadModel", GPT2, "GPT2LMHeadModel", dict(task_type="CAUSAL_LM", r=4, target_modules="all-linear"), None),
    "t5": ("T5ForConditionalGeneration", T5, "T5ForConditionalGeneration", dict(task_type="SEQ_2_SEQ_LM", r=4, target_modules=["q", "v", "wo"]), None),
}


# Of tables that have more rows than the base's: trained, and only saved by PEFT because they have.
ROWS_OF_CASE = {"rows": VOCABULARY + 9, "saved": VOCABULARY + 9, "tied": VOCABULARY + 8, "saved-tokens": VOCABULARY + 9, "grown-tokens": VOCABULARY + 8}


def load_base(folder, case):
    name, labels = CASES[case][2], CASES[case][4]
    model = getattr(transformers, name).from_pretrained(folder / "base", **(dict(num_labels=labels, ignore_mismatched_sizes=True) if labels else {}))
    if case in ROWS_OF_CASE:
        model.resize_token_embeddings(ROWS_OF_CASE[case])
    return model


def write(folder, case):
    base_class, config, wrapped_class, options, labels = CASES[case]
    torch.manual_seed(len(case))
    getattr(transformers, base_class)(config).save_pretrained(folder / "base")
    base = load_base(folder, case)
    if case in ROWS_OF_CASE:
        with torch.no_grad():
            for table in (base.get_input_embeddings(), base.get_output_embeddings()):
                table.weight[VOCABULARY:] = 0.1 * torch.randn_like(table.weight[VOCABULARY:])  # rows that the adapter alone has
    model = get_peft_model(base, LoraConfig(init_lora_weights=False, **options)).eval()
    rows = [parameter for name, parameter in model.named_parameters() if "trainable_tokens_delta" in name]
    with torch.no_grad():
        for parameter in rows:
            parameter.add_(0.5 * torch.randn_like(parameter))
    model.save_pretrained(folder / "adapter")
    ids = torch.randint(3, ROWS_OF_CASE.get(case, VOCABULARY), (ROWS, LENGTH))
    trained_ids = options.get("trainable_token_indices", [])
    for ids_of_module in trained_ids.values() if isinstance(trained_ids, dict) else [trained_ids]:
        ids[:, : len(ids_of_module)] = torch.tensor(ids_of_module)
    by_row = wrapped_class.endswith("SequenceClassification")
    batch = {"input_ids": ids, "labels": ids.clone() if not labels else torch.randint(labels, (ROWS,) if by_row else (ROWS, LENGTH))}
    (folder / "examples").mkdir()
    save_file(batch, folder / "examples/a.safetensors")
    expected = {"logits": model(**batch).logits.detach()}
    for parameter in rows:
        parameter.requires_grad_(False)  # as modrun keeps them
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=RATE)
    for _ in range(2):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    expected["later"] = model(**batch).logits.detach()
    save_file(expected, folder / "expected.safetensors")


def check(folder, made, case):
    batch, expected = load_file(folder / "examples/a.safetensors"), load_file(folder / "expected.safetensors")

    def differ(found, key, what):
        difference = (found - expected[key]).abs().max().item() / max(1.0, expected[key].abs().max().item())
        if found.shape != expected[key].shape or not difference <= 1e-5:
            sys.exit(f"{case}: {what} differs by {difference}")

    if torch.allclose(expected["logits"], expected["later"], atol=1e-3) or torch.allclose(expected["logits"], load_base(folder, case).eval()(**batch).logits, atol=1e-3):
        sys.exit(f"{case}: nothing is compared")
    with torch.no_grad():
        differ(load_file(made / "outputs.safetensors")["logits"], "logits", "modrun forward")
        if (made / "merged").exists():
            differ(getattr(transformers, CASES[case][2]).from_pretrained(made / "merged")(**batch).logits, "logits", "the merged model")
        if (made / "trained").exists():
            differ(PeftModel.from_pretrained(load_base(folder, case), made / "trained").eval()(**batch).logits, "later", "the trained adapter")
            theirs, ours = (json.loads((place / "adapter_config.json").read_text())["fan_in_fan_out"] for place in (folder / "adapter", made / "trained"))
            if theirs != ours:  # PEFT would correct it when it loads the adapter
                sys.exit(f"{case}: fan_in_fan_out is {ours}, and PEFT writes {theirs}")



def write_all(out):
    for case in CASES:
        write(out / case, case)


if __name__ == "__main__":
    for name in sys.argv[3:]:
        check(Path(sys.argv[1]) / name, Path(sys.argv[2]) / name, name)
