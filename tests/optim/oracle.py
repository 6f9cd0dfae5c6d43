"""Computes with torch.optim the updates that runtime/optim must make.

usage: oracle.py FILE

Writes a safetensors file: initial/<parameter>, gradient/<parameter>/<step>, and for each case <case>/<parameter>/<step>, the values after
that step. updates_test.cc has the same cases with its own options.
"""

import sys

import torch
from safetensors.torch import save_file

STEPS = 5
SHAPES = {
    "norm.weight": [13],
    "scale": [],
    "embed.weight": [20, 8],
    "layers.0.square.weight": [12, 12],
    "layers.0.tall.weight": [31, 6],
    "layers.0.wide.weight": [5, 28],
    "layers.1.short.weight": [2, 12],
    "layers.1.experts.up": [4, 6, 10],
    "layers.1.conv.weight": [8, 3, 4],
}
MATRICES = ["layers.0.square.weight", "layers.0.tall.weight", "layers.0.wide.weight", "layers.1.short.weight", "layers.1.experts.up"]


def alone(optimizer, **options):
    """Updates all parameters with one of torch's optimizers."""
    return lambda groups: [optimizer(list(groups.values()), **options)]


def muon(adamw, **options):
    """Updates matrices with Muon and the rest with AdamW."""
    return lambda groups: [
        torch.optim.Muon([group for name, group in groups.items() if name in MATRICES], **options),
        torch.optim.AdamW([group for name, group in groups.items() if name not in MATRICES], **adamw),
    ]


BETAS = {"betas": (0.9, 0.98), "eps": 1e-6}
# name: (optimizer, learning rate, decay, options of groups by their prefix, factor of the gradients)
CASES = {
    "adamw": (alone(torch.optim.AdamW, **BETAS), 0.01, 0.1, {}, 1.0),
    "sgd": (alone(torch.optim.SGD, momentum=0.9), 0.01, 0.1, {}, 1.0),
    "sgd-nesterov": (alone(torch.optim.SGD, momentum=0.8, nesterov=True), 0.02, 0.0, {}, 1.0),
    "sgd-plain": (alone(torch.optim.SGD), 0.02, 0.2, {}, 1.0),
    "adafactor": (alone(torch.optim.Adafactor), 0.02, 0.1, {}, 1.0),
    "adafactor-small-gradients": (alone(torch.optim.Adafactor, d=1.5, beta2_decay=-0.6), 0.3, 0.0, {}, 1e-5),
    "adafactor-epsilons": (alone(torch.optim.Adafactor, eps=(0.1, 2.0)), 0.05, 0.0, {}, 1.0),
    "muon": (muon(BETAS, momentum=0.95, adjust_lr_fn="match_rms_adamw"), 0.02, 0.1, {}, 1.0),
    "muon-original": (muon(BETAS, momentum=0.8, nesterov=False, ns_steps=3, adjust_lr_fn="original"), 0.02, 0.0, {}, 1.0),
    "adamw-groups": (alone(torch.optim.AdamW, **BETAS), 0.01, 0.1, {"layers.0": (0.1, 0.3), "norm": (2.0, 0.5)}, 1.0),
    "adafactor-groups": (alone(torch.optim.Adafactor), 0.02, 0.1, {"layers.0": (0.1, 0.3), "norm": (2.0, 0.5)}, 1.0),
    "muon-groups": (muon(BETAS, adjust_lr_fn="match_rms_adamw"), 0.02, 0.1, {"layers.0": (0.1, 0.3), "norm": (2.0, 0.5)}, 1.0),
}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    initial = {name: torch.randn(shape) for name, shape in SHAPES.items()}
    # In these gradients, some rows and columns are much larger than others.
    uneven = {name: torch.rand(shape).square() * 3 if len(shape) < 2 else torch.rand(shape[:-1] + [1]) * torch.rand(shape[-1]) * 9
              for name, shape in SHAPES.items()}
    gradients = [{name: torch.randn(shape) * uneven[name] for name, shape in SHAPES.items()} for _ in range(STEPS)]
    written = {f"initial/{name}": value for name, value in initial.items()}
    for step, by_name in enumerate(gradients):
        written.update({f"gradient/{name}/{step}": value for name, value in by_name.items()})

    for case, (make, lr, decay, group_options, factor) in CASES.items():
        # Muon takes a matrix at a time, so a stack becomes a list of matrices.
        values = {name: [matrix.clone() for matrix in value] if case.startswith("muon") and name in MATRICES and value.dim() == 3
                  else [value.clone()] for name, value in initial.items()}  # fmt: skip
        groups = {}
        for name, value in initial.items():
            scale, own_decay = 1.0, decay if value.dim() >= 2 else 0.0
            for prefix, overrides in group_options.items():
                if name.startswith(prefix):
                    scale, own_decay = overrides
            groups[name] = {"params": values[name], "lr": lr * scale, "weight_decay": own_decay}
        optimizers = make(groups)
        rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
        for step in range(STEPS):
            for name, parts in values.items():
                gradient = gradients[step][name] * factor
                for part, own in zip(parts, gradient if len(parts) > 1 else [gradient]):
                    part.grad = own.clone()
            for optimizer, group_rates in zip(optimizers, rates):
                for group, rate in zip(optimizer.param_groups, group_rates):
                    group["lr"] = rate * (1 + 0.5 * step)
                optimizer.step()
            for name, parts in values.items():
                written[f"{case}/{name}/{step}"] = (torch.stack(parts) if len(parts) > 1 else parts[0]).clone()
    save_file({name: value.contiguous() for name, value in written.items()}, sys.argv[1])


if __name__ == "__main__":
    main()
