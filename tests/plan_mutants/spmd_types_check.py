"""Llama's tensor-parallel regions, written by hand and type-checked by Meta's spmd_types while they run, against modgen's verdict on the spec.

spmd_types checks values of a running Python program on a fake process group; modgen checks the spec. Both judge the unchanged layer, each
removal of a woven call, and removed or swapped annotations.

    spmd_types_check.py MODGEN PROJECT
"""

import pathlib
import subprocess
import sys
import tempfile

import spmd_types as spmd
import spmd_types.checker
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import linear, scaled_dot_product_attention, silu

BATCH, SEQ, HIDDEN, INNER, HEADS, WIDTH, VOCAB = 2, 5, 16, 12, 4, 4, 24
RANKS = 2


class Layer:
    """The computation of a rank; `without` names the removed woven calls, `weights` how each weight is sharded: full, by rows, by columns."""

    def __init__(self, tp, without=(), **weights):
        self.tp, self.without, self.weights = tp, without, weights

    def typed(self, shape, kind):
        value = torch.randn(shape, requires_grad=True)
        spmd.assert_type(value, {self.tp: kind})
        return value

    def weight(self, name, outputs, inputs, sharding):
        sharding = self.weights.get(name, sharding)
        if sharding == "full":
            return self.typed((outputs, inputs), spmd.I)
        shape = (outputs // RANKS, inputs) if sharding == "columns" else (outputs, inputs // RANKS)
        return self.typed(shape, spmd.V)

    def enter(self, name, x):
        return x if name in self.without else spmd.convert(x, self.tp, src=spmd.I, dst=spmd.R)

    def exit(self, name, x, sharding):
        if self.weights.get(name, "rows") != sharding:
            return x
        partial = spmd.reinterpret(x, self.tp, src=spmd.V, dst=spmd.P)
        return partial if name in self.without else spmd.all_reduce(partial, self.tp, src=spmd.P, dst=spmd.I)

    def attention(self, x):
        x = self.enter("attention", x)
        heads = [
            linear(x, self.weight(name, HEADS * WIDTH, HIDDEN, "columns")).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
            for name in ("q_proj", "k_proj", "v_proj")
        ]
        mixed = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return self.exit("o_proj", linear(mixed, self.weight("o_proj", HIDDEN, HEADS * WIDTH, "rows")), "rows")

    def mlp(self, x):
        x = self.enter("mlp", x)
        gate = linear(x, self.weight("gate_proj", INNER, HIDDEN, "columns"))
        up = linear(x, self.weight("up_proj", INNER, HIDDEN, "columns"))
        return self.exit("down_proj", linear(silu(gate) * up, self.weight("down_proj", HIDDEN, INNER, "rows")), "rows")

    def norm(self, x):
        return torch.rms_norm(x, (HIDDEN,), self.typed((HIDDEN,), spmd.I))

    def forward(self):
        x = self.typed((BATCH, SEQ, HIDDEN), spmd.I)
        x = x + self.attention(self.norm(x))
        x = x + self.mlp(self.norm(x))
        logits = linear(self.enter("head", x), self.weight("lm_head", VOCAB, HIDDEN, "columns"))
        spmd.assert_type(x, {self.tp: spmd.I})
        expected = spmd.I if self.weights.get("lm_head") == "full" else spmd.V
        spmd.assert_type(logits, {self.tp: expected})


def spmd_accepts(mesh, layer):
    with spmd.set_current_mesh(mesh), spmd.checker.typecheck():
        try:
            layer.forward()
        except (spmd.SpmdTypeError, RuntimeError):  # a type error, or shapes that do not match on a rank
            return False
    return True


def modgen_accepts(modgen, spec, change):
    for before, after in change:
        assert spec.count(before) == 1, before
        spec = spec.replace(before, after)
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root) / "modular"
        folder.mkdir()
        (folder / "llama.h").write_text(spec)
        command = [modgen, "--root", root, "--emit", "plan", "llama"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


# A change of the spec, and the same change in the layer above.
ANNOTATIONS = {
    "nothing": ([], {}),
    "up_proj full": ([("TP_COLWISE nn::Linear up_proj", "nn::Linear up_proj")], {"up_proj": "full"}),
    "gate_proj and up_proj full": (
        [("TP_COLWISE nn::Linear up_proj", "nn::Linear up_proj"), ("TP_COLWISE nn::Linear gate_proj", "nn::Linear gate_proj")],
        {"up_proj": "full", "gate_proj": "full"},
    ),
    "down_proj full": ([("TP_ROWWISE nn::Linear down_proj", "nn::Linear down_proj")], {"down_proj": "full"}),
    "o_proj full": ([("TP_ROWWISE nn::Linear o_proj", "nn::Linear o_proj")], {"o_proj": "full"}),
    "k_proj full": ([("TP_COLWISE nn::Linear k_proj", "nn::Linear k_proj")], {"k_proj": "full"}),
    "gate_proj by rows": ([("TP_COLWISE nn::Linear gate_proj", "TP_ROWWISE nn::Linear gate_proj")], {"gate_proj": "rows"}),
    "down_proj by columns": ([("TP_ROWWISE nn::Linear down_proj", "TP_COLWISE nn::Linear down_proj")], {"down_proj": "columns"}),
    "mlp full": (
        [(f"{kind} nn::Linear {name}", f"nn::Linear {name}")
         for kind, name in (("TP_COLWISE", "up_proj"), ("TP_COLWISE", "gate_proj"), ("TP_ROWWISE", "down_proj"))],
        {"up_proj": "full", "gate_proj": "full", "down_proj": "full"},
    ),
}

# A woven call, and its text in the generated file, which shows that modgen has placed it.
CALLS = {
    "attention": "auto hidden_states_tp = tp::enter(hidden_states);\n    Tensor query",
    "o_proj": "tp::exit(o_proj, ",
    "mlp": "auto x_tp = tp::enter(x);",
    "down_proj": "tp::exit(down_proj, ",
    "head": "return lm_head(tp::shared(hidden_states));",
}


def main():
    modgen, project = sys.argv[1], pathlib.Path(sys.argv[2])
    dist.init_process_group(backend="fake", rank=0, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
    tp = mesh.get_group("tp")
    spec, generated = (project / "modular/llama.h").read_text(), (project / "generated/llama.h").read_text()
    failures = 0
    print(f"{'change':<36} {'spmd_types':<12} modgen")
    for name, (change, weights) in ANNOTATIONS.items():
        # Unsharded layers read the replicated value: modgen weaves no call there.
        full = {layer for layer, sharding in weights.items() if sharding == "full"}
        without = {"mlp"} if {"gate_proj", "up_proj"} <= full else set()
        theirs, ours = spmd_accepts(mesh, Layer(tp, without, **weights)), modgen_accepts(modgen, spec, change)
        print(f"{name:<36} {'accepts' if theirs else 'rejects':<12} {'accepts' if ours else 'rejects'}")
        failures += theirs != ours
    for name, text in CALLS.items():
        needed, placed = not spmd_accepts(mesh, Layer(tp, {name})), text in generated
        print(f"{'no call at ' + name:<36} {'rejects' if needed else 'accepts':<12} {'places it' if placed else 'does not place it'}")
        failures += not (needed and placed)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
