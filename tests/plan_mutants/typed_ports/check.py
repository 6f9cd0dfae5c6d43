"""Ports of five families, written by hand and typed by Meta's spmd_types while they run, against modgen's verdicts.

spmd_types types the values of a Python program, modgen those of a spec. They share no code. For each family and each
reading (tp, sequence parallelism, dp, cp), this compares:

- unchanged: both accept; parameters have the same split dimensions; the parameters whose gradient is a sum over tp
  under sequence parallelism are those of the plan's `partial_in_sequence`; the loss is a sum over cp, or the same on
  all ranks, as the plan's `full_loss` says; the generated file has the port's calls and no others;
- each removed call: spmd_types rejects the port without it;
- changed annotations, other losses, and operations over each dimension of values between layers, in heads and after
  the layers: both reject the same, modgen at the changed line. Under sequence parallelism modgen gathers the positions
  where spmd_types rejects.

spmd_types sees types and sizes of tensors, and so these are left out: random numbers (dropout), counts that are numbers
(`tp::local`, `tp::whole_size`), views by them, and what a value's position means (rotary tables, causal masks, padding).
Operations that one side rejects for want of a rule (sort in modgen; flip, roll and joined rows and positions in
spmd_types) say nothing about the other, and are left out too.

    check.py MODGEN PROJECT [--family NAME] [--all]

`--all` tries all operations in each family, instead of a part in each.
"""

import argparse
import collections
import pathlib
import sys

import torch.distributed as dist
from blocks import CP_EXCHANGE, CP_GATHER, DP, READINGS, SEQUENCE, TP, Rank, quiet
from families import GEMMA3, GPT2, LLAMA, LLAMA_CLASSIFIER, MIXTRAL
from modgen import CALL, Specs, class_texts
from spmd_types import P, R
from statements import OPERATIONS, statements
from t5 import T5
from torch.distributed.device_mesh import init_device_mesh

FAMILIES = (LLAMA, LLAMA_CLASSIFIER, GPT2, GEMMA3, MIXTRAL, T5)
AXES = {"tp": [TP], "sequence": [SEQUENCE], "dp": [DP], "cp": [CP_GATHER, CP_EXCHANGE]}
LOSSES = {
    "{x}.square().mean()": lambda x: x.square().mean(),
    "{x}.square().sum(-1).sum(-1)": lambda x: x.square().sum(-1).sum(-1),
    "{x}.square().sum()": lambda x: x.square().sum(),
}


class Check:
    def __init__(self, mesh, specs, project, every):
        self.mesh, self.specs, self.project, self.every = mesh, specs, project, every
        self.counts = collections.Counter()  # verdicts that were compared, by family and axis
        self.failures = []

    def compare(self, family, axis, what, theirs, ours):
        self.counts[family.entry, axis] += 1
        if theirs != ours:
            self.failures.append(f"{family.entry}, {axis}, {what}: spmd_types: {theirs}, modgen: {ours}")

    def run(self, family, reading, **options):
        rank = Rank(self.mesh, reading, **options)
        return rank, rank.run(family.port)

    def accepts(self, family, reading, sums, **options):
        """Whether a changed port has a type, with the gradients that the runtime sums."""
        rank, error = self.run(family, reading, **options)
        return error is None and {name for name, kind in rank.read_as.items() if kind is R} == sums

    def check_unchanged(self, family, plan):
        """Compares types with the plan. Returns the readings and their rank."""
        ranks = {}
        for axis, readings in AXES.items():
            for reading in readings:
                if reading in family.readings:
                    continue
                ranks[reading], error = self.run(family, reading)
                self.compare(family, axis, f"unchanged, {reading}", str(error or "accepted"), "accepted")
        if not all(rank.loss for rank in ranks.values()):
            return ranks
        layouts = {each["name"]: each.get("dim") for each in plan["parameters"]}
        splits = ranks[TP].splits
        for name in (set(layouts) | set(splits)) - set(family.alternatives):
            self.compare(family, "tp", name, splits.get(name, "not there"), self.dim(layouts, name))
        summed = {name: kind is R for name, kind in ranks[SEQUENCE].read_as.items()}
        for name, is_summed in summed.items():
            self.compare(family, "tp", f"sum of {name}", ranks[TP].read_as[name] is R, False)
            self.compare(family, "sequence", f"sum of {name}", is_summed, name in plan["partial_in_sequence"])
        missed = set(plan["partial_in_sequence"]) - set(summed)
        self.compare(family, "sequence", "parameters", sorted(missed), [])
        for reading, rank in ranks.items():
            if reading not in (TP, SEQUENCE):
                # The runtime sums all gradients over the axes that divide rows or positions.
                full = [name for name, kind in rank.read_as.items() if kind is not R]
                self.compare(family, "dp" if reading == DP else "cp", "parameters that are not summed", full, [])
        self.compare(family, "dp", "loss is a sum", ranks[DP].loss is P, True)
        self.compare(family, "cp", "loss is full", ranks[CP_GATHER].loss is R, plan.get("full_loss", False))
        self.compare(family, "cp", "error", None, plan.get("context_error"))
        self.compare(family, "sequence", "lists", bool(plan["sequence"]), True)
        return ranks

    @staticmethod
    def dim(layouts, name):
        dim = layouts.get(name, "not there")
        fused = {"transformer.h.*.attn.c_attn.weight": 2, "transformer.h.*.attn.c_attn.bias": 1}
        # The port's parameters that are fused of parts have a dimension for the parts, before the split one.
        if dim in (0, 1) and name in fused:
            return dim + 1
        return 2 if name.endswith("gate_up_proj") and dim == 1 else dim

    def check_calls(self, family, rank):
        texts = class_texts((self.project / "generated" / f"{family.name}.h").read_text())
        self.compare(family, "tp", "names of calls", sorted(rank.calls), sorted(family.calls))
        placed = sum(len(CALL.findall(texts[name])) for name in family.classes)
        self.compare(family, "tp", "number of calls", len(family.calls), placed)
        for name, (owner, text) in family.calls.items():
            accepted = {}
            for axis, sums in (("tp", set()), ("sequence", self.sums[family.entry])):
                accepted[axis] = self.accepts(family, axis, sums, without={name})
            is_for_sequence = accepted["tp"]  # tp::part and tp::whole do nothing without divided positions
            self.compare(family, "sequence", f"without {name}", not accepted["sequence"], text in texts[owner])
            if not is_for_sequence:
                self.compare(family, "tp", f"without {name}", True, text in texts[owner])
            elif not any(call in text for call in ("tp::part(", "tp::whole(")):
                self.failures.append(f"{family.entry}, tp, without {name}: spmd_types accepts, modgen places it")

    def check_annotations(self, family):
        for name, (change, shardings, without) in family.annotations.items():
            theirs = self.accepts(family, TP, set(), shardings=shardings, without=without)
            self.compare(family, "tp", name, theirs, self.specs.plan(family, change) is not None)

    def check_losses(self, family):
        file, line, variable = family.places["after layers"]
        for text, loss in LOSSES.items():
            call = line.strip().removeprefix("return ")
            change = f"    Outputs outputs = {call}\n    outputs.loss_sum = {text.format(x=variable)};\n    return outputs;\n"
            theirs = self.run(family, DP, change_loss=loss)[1] is None
            ours = self.specs.plan(family, [(file, line, change)]) is not None
            self.compare(family, "dp", f"loss {text}", theirs, ours)

    def check_statements(self, family, index):
        by_place = statements(family, index, len(OPERATIONS) if self.every else 1)
        pairs = [(place, text) for place, of_place in by_place.items() for text in of_place]
        ours = self.specs.verdicts(family, dict(enumerate(pairs)))
        ranks = {
            reading: self.run(family, reading, statements=by_place)[0]
            for readings in AXES.values()
            for reading in readings
            if reading not in family.readings
        }
        for number, (place, text) in enumerate(pairs):
            for axis, readings in AXES.items():
                # A rejected statement has no verdict of later readings.
                if axis != "tp" and "tp" in ours[number] or axis in ("cp", "sequence") and "dp" in ours[number]:
                    continue
                theirs = {ranks[each].rejected[place, text] for each in readings if each in ranks}
                self.compare(family, axis, f"{place}: {text}", theirs, {axis in ours[number]})

    def check_context_call(self, family):
        """Attention without the exchange of keys has no type on ranks that have some of the positions."""
        for reading in AXES["cp"]:
            if reading not in family.readings:
                theirs = self.run(family, reading, without={"cp"})[1] is None
                self.compare(family, "cp", f"attention without {reading}", theirs, False)

    def check(self, family, index):
        plan, failed = self.specs.plan(family), len(self.failures)
        self.compare(family, "tp", "spec", "accepted", "accepted" if plan else "rejected")
        if not plan:
            return
        self.sums = {family.entry: set(plan["partial_in_sequence"])}
        ranks = self.check_unchanged(family, plan)
        if len(self.failures) > failed:
            return  # changes are compared if the unchanged port and spec agree
        self.check_calls(family, ranks[TP])
        self.check_context_call(family)
        self.check_annotations(family)
        if family.places:
            self.check_losses(family)
            self.check_statements(family, index)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("modgen")
    parser.add_argument("project", type=pathlib.Path)
    parser.add_argument("--family")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    dist.init_process_group(backend="fake", rank=0, world_size=2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("ranks",))
    check = Check(mesh, Specs(options.modgen, options.project), options.project, options.all)
    print(f"{'verdicts compared':<34}" + "".join(f"{axis:>10}" for axis in AXES))
    for index, family in enumerate(FAMILIES):
        if options.family in (None, family.name):
            with quiet():
                check.check(family, index)
            print(f"{family.entry:<34}" + "".join(f"{check.counts[family.entry, axis]:>10}" for axis in AXES), flush=True)
    print("\n".join(check.failures))
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
