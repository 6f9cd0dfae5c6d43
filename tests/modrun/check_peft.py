"""Loads an exported adapter in PEFT, and compares the model and further training steps with modrun's.

usage: check_peft.py BASE ADAPTER LATER MERGED EXAMPLES LEARNING_RATE STEPS

BASE is the Hugging Face folder that ADAPTER was trained on; LATER is the adapter after STEPS more steps of SGD on all of EXAMPLES; MERGED is the folder that LATER was merged into.
"""

import sys

import torch
from peft import AutoPeftModelForCausalLM, AutoPeftModelForSequenceClassification, PeftConfig, PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

base, adapter, later, merged, examples, rate, steps = sys.argv[1:]
batch = load_file(examples)
classifies = batch["labels"].dim() == 1
classes = (AutoPeftModelForSequenceClassification, AutoModelForSequenceClassification) if classifies else (AutoPeftModelForCausalLM, AutoModelForCausalLM)


def load(folder):
    if PeftConfig.from_pretrained(folder).task_type:
        return classes[0].from_pretrained(folder, is_trainable=True).eval()
    return PeftModel.from_pretrained(classes[1].from_pretrained(base), folder, is_trainable=True).eval()


def differ(one, other, what):
    difference = (one - other).abs().max().item() / max(1.0, other.abs().max().item())
    if one.shape != other.shape or not difference <= 1e-5:
        sys.exit(f"{what} differ by {difference}")


model, expected = load(adapter), load(later)
trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
if not trained or all(torch.equal(parameter, dict(expected.named_parameters())[name]) for name, parameter in trained.items()):
    sys.exit("nothing was trained")
optimizer = torch.optim.SGD(trained.values(), lr=float(rate))
for _ in range(int(steps)):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for name, parameter in expected.named_parameters():
    differ(dict(model.named_parameters())[name], parameter, name)
with torch.no_grad():
    logits = expected(**batch).logits
    differ(classes[1].from_pretrained(merged).eval()(**batch).logits, logits, "logits of the merged model")
    plain = classes[1].from_pretrained(base).eval()(**batch).logits
    if torch.allclose(plain, logits, atol=1e-3):
        sys.exit("the adapter changes nothing")
