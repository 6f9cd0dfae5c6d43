"""Layers and parameters."""

from operations import Operations
from parts import FULL, WRONG, Dim, Value, split


class Layers(Operations):
    def layer_ways(self):
        """Operations with parameters, and with sizes from members."""
        return [self.normed, self.repeated, self.layered, self.layered, self.layered, self.by_weight, self.split_heads,
                self.split_heads, self.attended, self.attended, self.fused, self.experts, self.convolved, self.gathered,
                self.gained, self.submodule]

    # ---- Layers ----

    def layered(self, v):
        """A linear layer on the last dimension."""
        if not v.shape or not v.shape[-1].in_constructor:
            return None
        last, rank = v.shape[-1], len(v.shape)
        if v.type == split(rank - 1):
            kind, out = "rows", self.pick([self.H, self.d])
            type = FULL
        elif v.type == FULL:
            kind = self.pick(["columns", "columns", "full"])
            out = self.pick([self.M, self.hd, self.h]) if kind == "columns" else self.H
            type = split(rank - 1) if kind == "columns" else FULL
        else:
            if not self.wild():
                return None
            kind, out, type = self.pick(["columns", "rows", "full"]), self.M, None
        if last == self.one and kind == "rows":
            return None
        name = self.layer(kind, last, out)
        return Value(f"{name}({v.name})", v.shape[:-1] + [out], self.typed(type))

    def by_weight(self, v):
        """A matmul with a raw parameter."""
        if not v.shape or not v.shape[-1].in_constructor:
            return None
        rank = len(v.shape)
        if v.type == FULL:
            if self.chance(0.5):
                weight = self.parameter([self.M, v.shape[-1]], 0)
                return Value(f"torch::linear({v.name}, {weight})", v.shape[:-1] + [self.M], split(rank - 1))
            weight = self.parameter([v.shape[-1], self.M], 1)
            if rank < 2:
                return None
            return Value(f"torch::matmul({v.name}, {weight})", v.shape[:-1] + [self.M], split(rank - 1))
        weight = self.parameter([v.shape[-1]], 0 if v.type == split(rank - 1) else None)
        bad = v.type in (WRONG,)
        return Value(f"{v.name} * {weight}", v.shape, self.typed(None if bad else v.type))

    def gathered(self, v):
        if not v.shape or (v.type != split(len(v.shape) - 1) and not self.wild()):
            return None
        bad = v.type != split(len(v.shape) - 1)
        return Value(f"tp::gather({v.name})", v.shape, self.typed(None if bad else FULL))

    def gained(self, v):
        """Multiplication by a buffer with one number per head."""
        heads = [i for i, dim in enumerate(v.shape) if dim == self.h]
        if not heads or v.type not in (FULL, split(heads[0])):
            return None
        is_split, type = v.type != FULL, v.type
        if self.wild():
            is_split, type = not is_split, None
        count, back = "num_heads" if is_split else "config.num_heads", "".join(", 1" for _ in v.shape[heads[0] + 1:])
        if self.chance(0.4):
            gains = self.contract(f"alibi_slopes({count}, {v.name}.device())")
        else:
            gains = self.name("gains")
            self.fields.append((f"{'TP_SHARD(0) ' if is_split else ''}Tensor {gains};",
                                f'{gains}(register_buffer("{gains}", torch::ones({{config.num_heads}})))'))
        return Value(f"{v.name} * {gains}.view({{{count}{back}}})", v.shape, self.typed(type))

    def split_heads(self, v):
        """A view of the last dimension by heads, and back."""
        rank = len(v.shape)
        if rank == 3 and v.shape == [self.B, self.S, self.hd] and self.wild():
            # The features of a head before the heads.
            self.is_right = False
            count = "num_heads" if v.type[0] == "split" else "config.num_heads"
            return Value(f"{v.name}.contiguous().view({{batch, seq, head_dim, {count}}})", [self.B, self.S, self.d, self.h],
                         WRONG)
        if rank == 3 and v.shape[-1] == self.hd:
            shape = v.shape[:-1] + [self.h, self.d]
            type = {split(2): split(2), split(0): split(0), split(1): split(1)}.get(v.type, v.type)
            view = self.pick(["view", "reshape"])
            safe = v if v.shape[0] == self.B and v.shape[1] == self.S else None
            text = f"{v.name}.{view}({self.sizes(shape, type, safe)})" if safe else None
            return Value(text.replace(".view", ".contiguous().view"), shape, self.typed(None if type == WRONG else type)) if text else None
        if rank == 4 and v.shape[2:] == [self.h, self.d]:
            type = v.type
            if type == split(3):
                type = None
            return Value(f"{v.name}.flatten(2)", v.shape[:2] + [self.hd], self.typed(None if type == WRONG else type))
        return None

    def attended(self, v):
        if v.shape != [self.B, self.S, self.H] or v.type != FULL:
            return None
        is_split = self.chance(0.85)
        kind, type, heads = ("columns", split(2), "num_heads") if is_split else ("full", FULL, "config.num_heads")
        parts = [self.layer(kind, self.H, self.hd) for _ in range(3)]
        names = [self.name("head") for _ in range(3)]
        joint_norm, head_norms = self.chance(0.2), self.chance(0.3)
        for name, part in zip(names, parts):
            made = f"{part}({v.name})"
            if joint_norm and name != names[2]:
                self.use("norms over all heads")
                made = self.contract(f"rms_norm({made}, {self.parameter([self.hd], 0 if is_split else None)}, 1e-3)")
            made = f"{made}.view({self.sizes([self.B, self.S, self.h, self.d], type)})"
            if head_norms and name != names[2]:
                self.use("norms of each head")
                made = self.head_norm(made)
            self.lines.append(f"const Tensor {name} = {made}.transpose(1, 2);")
        operands, way = ", ".join(names), self.pick(["causal", "mask", "biases", "sinks"])
        by_head = lambda: self.parameter([self.h], 0 if is_split else None)  # noqa: E731
        if way == "causal":
            mixed = self.contract(f"attention({operands}, causal_mask(Tensor(), /*window=*/0), 0.5)")
        elif way == "mask":
            self.lines.append(f"const Tensor {names[0]}_mask = torch::ones({{1, 1, seq, seq}}).tril();")
            mixed = self.contract(f"attention({operands}, {names[0]}_mask, 0.5)")
        elif way == "biases":
            self.use("biases by heads")
            slopes = self.pick([f"alibi_slopes({heads}, {v.name}.device())", by_head()])
            self.lines.append(f"const Tensor {names[0]}_biases = {slopes}.view({{1, {heads}, 1, 1}}) * "
                              f"torch::ones({{1, 1, seq, seq}}).cumsum(-1);")
            mixed = f"attention_with_biases({operands}, {names[0]}_biases, 0.5)"
        else:
            self.use("attention sinks")
            mixed = f"attention_with_sinks({operands}, causal_mask(Tensor(), /*window=*/0), 0.5, {by_head()})"
        return Value(f"{self.layer('rows' if is_split else 'full', self.hd, self.H)}({mixed})", v.shape, FULL)

    def head_norm(self, made):
        """A norm over the features of each head, with a weight shared by all heads."""
        weight = self.parameter([self.d])
        return self.pick([self.contract(f"rms_norm({made}, {weight}, 1e-3)"),
                          f"torch::layer_norm({made}, {{head_dim}}, {weight}, {{}}, 1e-3)"])

    def fused(self, v):
        """Gate and up in one layer."""
        if v.shape != [self.B, self.S, self.H] or v.type != FULL:
            return None
        name, pieces = self.name("proj"), self.name("pieces")
        annotation = "TP_COLWISE_PARTS(inner_size, inner_size) "
        if self.wild():
            annotation = self.pick(["TP_COLWISE ", "TP_COLWISE_PARTS(inner_size, num_heads) ", ""])
            self.is_right = False
        self.fields.append((f"{annotation}nn::Linear {name};",
                            f'{name}(register_module("{name}", linear(config.hidden_size, 2 * inner_size, false)))'))
        take = self.pick([f"chunk(2, -1)", "split_with_sizes({inner_size, inner_size}, -1)"])
        self.lines.append(f"const auto {pieces} = {name}({v.name}).{take};")
        return Value(self.contract(f'gated_activation("silu", {pieces}[0], {pieces}[1])'), v.shape[:-1] + [self.M], split(2))

    def experts(self, v):
        if v.shape != [self.B, self.S, self.H] or v.type != FULL:
            return None
        router = self.layer("full", self.H, Dim(2, "2", "2"))
        gate_up, down = self.name("gate_up"), self.name("down")
        split_them = self.chance(0.8)
        annotations = ("TP_SHARD(1, inner_size, inner_size) ", "TP_SHARD(2) ") if split_them else ("", "")
        if self.wild():
            annotations = self.pick([("", annotations[1]), (annotations[0], ""), ("TP_SHARD(1) ", annotations[1])])
            self.is_right = False
        for name, annotation, sizes in ((gate_up, annotations[0], "2, 2 * inner_size, config.hidden_size"),
                                        (down, annotations[1], "2, config.hidden_size, inner_size")):
            self.fields.append((f"{annotation}Tensor {name};",
                                f'{name}(register_parameter("{name}", torch::empty({{{sizes}}})))'))
        rows, chosen = self.name("rows"), self.name("chosen")
        self.lines.append(f"const Tensor {rows} = {v.name}.flatten(0, 1);")
        self.lines.append(f"const auto [{chosen}_weights, {chosen}] = {router}({rows}).softmax(-1).topk(2, -1);")
        return Value(f'mix_experts("silu", {rows}, {gate_up}, {down}, {chosen}, {chosen}_weights)'
                     f".view({{batch, seq, config.hidden_size}})", v.shape, FULL)

    def convolved(self, v):
        if len(v.shape) != 3 or v.shape[-1] != self.M or v.shape[:2] != [self.B, self.S] or \
                v.type not in (FULL, split(2)):
            return None
        at = 0 if v.type == split(2) else None
        weight = self.parameter([self.M, self.one, Dim(2, "2", "2")], at)
        bias = self.parameter([self.M], at)
        return Value(self.contract(f"causal_conv1d({v.name}, {weight}, {bias})"), v.shape, v.type)
