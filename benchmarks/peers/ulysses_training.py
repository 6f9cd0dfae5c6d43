"""Trains a Llama in PyTorch over ranks that divide the positions of each sequence, driven by benchmarks/sequences.

All-to-alls before and after attention give each rank all positions of some heads (Jacobs et al., DeepSpeed Ulysses).
DistributedDataParallel replicates parameters. Run by torchrun, or as one process:

  ulysses_training.py FOLDER --initialize --config CONFIG.json   # writes a Hugging Face folder with random weights
  ulysses_training.py FOLDER --tokens FILE --steps N --report FILE

Each byte of the token file is a token, and each step trains on all of them. The report is JSON: seconds and loss of each step, and
the bytes of the resident set before the model is made and at its peak, of the rank that grew most.
"""

import argparse
import json
import os
import pathlib
import resource
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def all_to_all(parts):
    """Sends part r of `parts` [ranks, ...] to rank r; returns the parts received, by rank."""
    received = torch.empty_like(parts)
    dist.all_to_all_single(received, parts)
    return received


def to_heads(x):
    """From [batch, positions of this rank, ranks, features] to [batch, all positions, features of this rank's heads]."""
    return all_to_all(x.movedim(2, 0).contiguous()).movedim(0, 1).flatten(1, 2)


def to_positions(x):
    """The inverse of to_heads()."""
    return all_to_all(x.unflatten(1, (RANKS, -1)).movedim(1, 0).contiguous()).movedim(0, 2)


class ToHeads(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return to_heads(x)

    @staticmethod
    def backward(context, gradient):
        return to_positions(gradient)


class ToPositions(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return to_positions(x)

    @staticmethod
    def backward(context, gradient):
        return to_heads(gradient)


class Layer(nn.Module):
    """A decoder layer. The rows of qkv are those of rank 0's queries, keys and values, then of rank 1's, and so on."""

    def __init__(self, config):
        super().__init__()
        hidden, self.head_dim = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
        self.heads = config["num_attention_heads"] // RANKS
        self.kv_heads = config.get("num_key_value_heads", config["num_attention_heads"]) // RANKS
        self.input_norm = nn.RMSNorm(hidden, config["rms_norm_eps"])
        self.qkv = nn.Linear(hidden, RANKS * (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.o = nn.Linear(hidden, hidden, bias=False)
        self.output_norm = nn.RMSNorm(hidden, config["rms_norm_eps"])
        self.gate_up = nn.Linear(hidden, 2 * config["intermediate_size"], bias=False)
        self.down = nn.Linear(config["intermediate_size"], hidden, bias=False)

    def before_attention(self, x):
        return self.qkv(self.input_norm(x))

    def attend(self, qkv, rotations):
        """Causal attention of all positions by this rank's heads: [batch, all positions, features of them]."""
        qk, value = qkv.unflatten(-1, (-1, self.head_dim)).split([self.heads + self.kv_heads, self.kv_heads], 2)
        rotated = torch.view_as_real(torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * rotations).flatten(-2)
        query, key = rotated.split([self.heads, self.kv_heads], 2)
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True, enable_gqa=self.heads != self.kv_heads
        )
        return mixed.transpose(1, 2).flatten(2)

    def after_attention(self, x, mixed):
        x = x + self.o(mixed)
        gate, up = self.gate_up(self.output_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)

    def forward(self, x, rotations):
        qkv = self.before_attention(x)
        if RANKS == 1:
            mixed = self.attend(qkv, rotations)
        else:
            mixed = ToPositions.apply(self.attend(ToHeads.apply(qkv.unflatten(-1, (RANKS, -1))), rotations)).flatten(2)
        return self.after_attention(x, mixed)


class Llama(nn.Module):
    def __init__(self, config, positions):
        super().__init__()
        self.embed = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)
        dim = config["hidden_size"] // config["num_attention_heads"]
        frequencies = config.get("rope_theta", 10000.0) ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(positions), frequencies)
        self.register_buffer("rotations", torch.polar(torch.ones_like(angles), angles).unsqueeze(1), persistent=False)

    def forward(self, ids, targets):
        """The sum of the losses of this rank's targets."""
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.rotations)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten(), reduction="sum")

    @torch.no_grad()
    def load(self, weights):
        """Copies the weights of a Hugging Face Llama, whose rotated pairs are half a head apart instead of adjacent."""

        def by_rank(name, is_rotated):
            heads = weights[name].unflatten(0, (RANKS, -1, self.layers[0].head_dim))
            return torch.cat(heads.chunk(2, 2), -1).reshape(heads.shape) if is_rotated else heads

        self.embed.weight.copy_(weights["model.embed_tokens.weight"])
        self.norm.weight.copy_(weights["model.norm.weight"])
        self.head.weight.copy_(weights["lm_head.weight"])
        for number, layer in enumerate(self.layers):
            prefix = f"model.layers.{number}."
            projections = [by_rank(f"{prefix}self_attn.{name}_proj.weight", name != "v") for name in "qkv"]
            layer.qkv.weight.copy_(torch.cat(projections, 1).flatten(0, 2))
            layer.o.weight.copy_(weights[prefix + "self_attn.o_proj.weight"])
            layer.gate_up.weight.copy_(torch.cat([weights[f"{prefix}mlp.{name}_proj.weight"] for name in ("gate", "up")]))
            layer.down.weight.copy_(weights[prefix + "mlp.down_proj.weight"])
            layer.input_norm.weight.copy_(weights[prefix + "input_layernorm.weight"])
            layer.output_norm.weight.copy_(weights[prefix + "post_attention_layernorm.weight"])


def initialize(folder, config):
    """Writes a Hugging Face folder with random weights."""
    torch.manual_seed(0)
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    key_values = hidden // config["num_attention_heads"] * config.get("num_key_value_heads", config["num_attention_heads"])
    matrices = {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (key_values, hidden), "self_attn.v_proj": (key_values, hidden),
                "self_attn.o_proj": (hidden, hidden), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    shapes = {"model.embed_tokens": (vocabulary, hidden), "model.norm": (hidden,), "lm_head": (vocabulary, hidden)}
    for number in range(config["num_hidden_layers"]):
        norms = {name: (hidden,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in (matrices | norms).items()}
    weights = {f"{name}.weight": 0.02 * torch.randn(shape) if len(shape) > 1 else torch.ones(shape) for name, shape in shapes.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))


def resident_bytes(key):
    """VmRSS or VmHWM (the highest so far) of this process."""
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(key + ":"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="Hugging Face folder of a Llama")
    parser.add_argument("--initialize", action="store_true", help="write the folder and exit")
    parser.add_argument("--config", type=pathlib.Path, help="with --initialize: JSON file of the config's values")
    parser.add_argument("--tokens", type=pathlib.Path, help="file of one sequence; a byte is a token")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--compile", action="store_true", help="torch.compile what each layer does before and after attention")
    parser.add_argument("--report", type=pathlib.Path, help="JSON file to write")
    arguments = parser.parse_args()
    if arguments.initialize:
        initialize(arguments.folder, json.loads(arguments.config.read_text()))
        return
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
    if RANKS > 1:
        dist.init_process_group("gloo")
    start = resident_bytes("VmRSS")

    ids = torch.frombuffer(bytearray(arguments.tokens.read_bytes()), dtype=torch.uint8).long().unsqueeze(0)
    targets = F.pad(ids[:, 1:], (0, 1), value=-100)
    count, own = ids.numel() - 1, slice(RANK * ids.size(1) // RANKS, (RANK + 1) * ids.size(1) // RANKS)
    model = Llama(json.loads((arguments.folder / "config.json").read_text()), ids.size(1))
    model.load(load_file(arguments.folder / "model.safetensors"))
    if arguments.compile:
        for layer in model.layers:
            layer.before_attention, layer.after_attention = torch.compile(layer.before_attention), torch.compile(layer.after_attention)
    matrices = [each for each in model.parameters() if each.dim() > 1]
    vectors = [each for each in model.parameters() if each.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=arguments.lr, betas=(0.9, 0.95), fused=True
    )
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True) if RANKS > 1 else model
    ids, targets = ids[:, own].contiguous(), targets[:, own].contiguous()

    seconds, losses = [], []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        loss = replica(ids, targets) / count
        (loss * RANKS).backward()  # DistributedDataParallel takes the mean over ranks
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total = loss.detach()
        if RANKS > 1:
            dist.all_reduce(total)
        losses.append(total.item())
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    memory = [(peak - start, start, peak)] * RANKS
    if RANKS > 1:
        dist.all_gather_object(memory, (peak - start, start, peak))
    if RANK == 0:
        _, start, peak = max(memory)
        report = json.dumps({"seconds": seconds, "losses": losses, "memory_start": start, "memory_peak": peak})
        arguments.report.write_text(report) if arguments.report else print(report)
    if RANKS > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
