"""Trains the task of one of the presets in torch with the models and losses of other libraries, and reports the speed and the metric.

usage: task_training.py PRESET [--steps N] [--threads T] [--without-evaluation]

PRESET is a TOML file of modrun. pairs: transformers' MPNet and Sentence Transformers' MultipleNegativesRankingLoss; classes: transformers' BERT; sessions: GPT-2 as in Transformers4Rec
(tests/parity/cases/session.py). With several ranks (RANK, WORLD_SIZE and so on) it uses DistributedDataParallel. Data, batch size, optimizer and schedule are the preset's; the order of the samples is its own. The first
rank prints JSON: samples_per_second of the steps alone, and the preset's first metric on all validation samples.
"""

import argparse
import datetime
import glob
import json
import math
import os
import pathlib
import sys
import time
import tomllib

import torch
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/parity"))

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Pairs(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
        from transformers import MPNetConfig, MPNetModel

        self.model = MPNetModel(MPNetConfig(**settings), add_pooling_layer=False)
        self.compare = MultipleNegativesRankingLoss(torch.nn.Identity(), gather_across_devices=RANKS > 1)

    def embed(self, ids, mask):
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)

    def forward(self, batch):
        return [self.embed(batch["input_ids"][:, text], batch["attention_mask"][:, text]) for text in (0, 1)]

    def loss(self, outputs, batch):
        return self.compare.compute_loss_from_embeddings(outputs, None)

    def metric(self, outputs, batch):  # mrr@10
        queries, answers = (torch.nn.functional.normalize(torch.cat(each), dim=-1) for each in zip(*outputs))
        cosines = queries @ answers.T
        ranks = 1 + (cosines > cosines.diagonal().unsqueeze(1)).sum(1)
        return torch.where(ranks <= 10, 1 / ranks, 0.0).mean().item()


class Classes(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        self.model = BertForSequenceClassification(BertConfig(**settings))

    def forward(self, batch):
        return self.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits

    def loss(self, outputs, batch):
        return torch.nn.functional.cross_entropy(outputs, batch["labels"])

    def metric(self, outputs, batch):  # accuracy
        return (torch.cat(outputs).argmax(-1) == batch["labels"]).float().mean().item()


class Sessions(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        from oracle import load_family

        cases = pathlib.Path(__file__).resolve().parents[2] / "tests/parity/cases"
        family = load_family("session", cases)
        self.model = family.models[0](family.config(**settings))

    def forward(self, batch):
        return self.model(input_ids=batch["input_ids"], feature_ids=batch["feature_ids"]).logits

    def loss(self, outputs, batch):
        targets = batch["input_ids"][:, 1:]
        return torch.nn.functional.cross_entropy(outputs[:, :-1].flatten(0, 1), targets.masked_fill(targets == 0, -100).flatten())

    def metric(self, outputs, batch):  # recall@20
        best, targets = torch.cat(outputs)[:, :-1].topk(20).indices, batch["input_ids"][:, 1:]
        return (best == targets.unsqueeze(-1)).any(-1)[targets != 0].float().mean().item()


TASKS = {"MPNetModel": Pairs, "BertForSequenceClassification": Classes, "SessionForNextItem": Sessions}


def read(data, validation):
    """Returns the training or the validation rows of the preset's files; the latter are the last of all rows, or those of separate files."""
    files = sorted(file for path in data["paths"] for file in glob.glob(os.path.join(path, "*.safetensors")))
    part = data.get("held_out_part", 0.0)
    tensors = [load_file(file) for file in files if part or ("held-out" in file) == validation]
    joined = {key: torch.cat([each[key] for each in tensors]).long() for key in tensors[0]}
    first = len(joined["input_ids"]) - round(len(joined["input_ids"]) * part) if part else 0
    return {key: tensor[first:] if validation else tensor[: first or None] for key, tensor in joined.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("preset", type=pathlib.Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without-evaluation", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    preset = tomllib.loads(arguments.preset.read_text())
    if RANKS > 1:
        torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
    task = TASKS[preset["model"]["entry"]](preset["model"]["config"]).train()
    model = DistributedDataParallel(task, gradient_as_bucket_view=True) if RANKS > 1 else task
    data = read(preset["data"], validation=False)
    samples, batch_size, steps = len(data["input_ids"]), preset["train"]["batch_size"], arguments.steps or preset["train"]["steps"]
    optim = preset["optim"]
    decays = [each for each in task.parameters() if each.dim() > 1]
    others = [each for each in task.parameters() if each.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": optim.get("weight_decay", 0.0)}, {"params": others, "weight_decay": 0.0}], lr=optim["lr"],
        betas=(optim.get("beta1", 0.9), optim.get("beta2", 0.95)), eps=optim.get("eps", 1e-8), fused=True
    )
    warm_up = optim.get("warmup_steps", 0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (step + 1) / warm_up if step < warm_up else 0.5 + 0.5 * math.cos(math.pi * (step - warm_up) / max(preset["train"]["steps"] - warm_up, 1))
    )
    order = torch.cat([torch.randperm(samples, generator=torch.Generator().manual_seed(epoch)) for epoch in range(steps * batch_size // samples + 1)])
    begin = None
    for step in range(steps):
        if step == 3 or begin is None:  # after the first steps, which allocate
            begin, counted = time.perf_counter(), step
        rows = order[step * batch_size : (step + 1) * batch_size][RANK::RANKS]
        batch = {key: tensor[rows] for key, tensor in data.items()}
        loss = task.loss(model(batch), batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(task.parameters(), optim.get("max_grad_norm", 1.0))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        loss.item()
    found = {"samples_per_second": (steps - counted) * batch_size / (time.perf_counter() - begin)}
    if RANK == 0 and not arguments.without_evaluation:
        task.eval()
        validation = read(preset["data"], validation=True)
        with torch.no_grad():
            outputs = [task({key: tensor[at : at + 64] for key, tensor in validation.items()}) for at in range(0, len(validation["input_ids"]), 64)]
        found["metric"] = task.metric(outputs, validation)
    if RANK == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
