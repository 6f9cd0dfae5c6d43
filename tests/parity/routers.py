"""Losses of routers as docs/guide/experts.md describes them, in PyTorch: those that transformers does not have."""

import contextlib

import torch


@contextlib.contextmanager
def watched(model):
    """Yields a list to which each router that runs adds itself, its logits [rows, experts] and its choices [rows, k]."""
    seen = []
    routers = [module for module in model.modules() if type(module).__name__.lower().endswith("topkrouter")]
    hooks = [
        router.register_forward_hook(lambda router, _, outputs: seen.append((router, outputs[0].float(), outputs[2])))
        for router in routers
    ]
    yield seen
    for hook in hooks:
        hook.remove()


def loss(seen, batch, aux_loss=0.0, balance="batch", z_loss=0.0):
    """What the routers of a forward add to its loss."""
    rows, length = batch["input_ids"].shape
    mask = batch.get("attention_mask", torch.ones(rows, length)).float()
    total, chosen_at_all, shares_at_all = 0.0, 0.0, 0.0
    for router, logits, chosen in seen:
        scores = logits.sigmoid() if hasattr(router, "e_score_correction_bias") else logits.softmax(-1)
        shares = (scores / scores.sum(-1, keepdim=True)).view(rows, length, -1)
        experts, k = shares.shape[-1], chosen.shape[-1]
        is_chosen = torch.zeros_like(logits).scatter(1, chosen, 1.0).view(rows, length, experts)
        total += z_loss * (logits.logsumexp(-1) ** 2)[mask.flatten() == 1].mean()
        if balance == "batch":
            chosen_at_all += is_chosen[mask == 1].sum(0)
            shares_at_all += shares[mask == 1].sum(0)
            continue
        for row in range(rows):
            f = experts / k * is_chosen[row, mask[row] == 1].mean(0)
            total += aux_loss * (f * shares[row, mask[row] == 1].mean(0)).sum() / rows
    if balance == "batch":
        count = mask.sum() * len(seen)
        total += aux_loss * experts * (chosen_at_all / count * shares_at_all / count).sum()
    return total
