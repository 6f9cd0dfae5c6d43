"""Operations without parameters."""

from parts import PARTIAL, FULL, WRONG, Dim, Parts, Value, split


class Operations(Parts):
    def plain_ways(self, scope):
        """Operations that need no members of the class except numbers."""
        return [self.unary, self.linear_map, self.shifted, self.transposed, self.permutation, self.unsqueezed,
                self.squeezed, self.reduction, self.over_all, self.same_shape_along, self.halves, self.selected,
                self.flattened, lambda one: self.binary(one, scope), lambda one: self.binary(one, scope),
                lambda one: self.product(one, scope)]

    # ---- Operations on one value ----

    def unary(self, v):
        function = self.pick(
            ["torch::silu({})", "torch::tanh({})", "{}.sigmoid()", "torch::gelu({})", "{}.cos()", "torch::sin({})",
             "torch::relu({})", self.contract('activation("silu", {})'), "({} * 0.25).exp()", "{}.abs()", "{}.square()",
             self.contract("soft_cap({}, 2.0)"), "{}.clamp(-1.0, 1.0)", "torch::softplus({})", "({}.square() + 0.5).rsqrt()",
             "({}.square() + 1.0).log()", "torch::where({0} > 0.0, {0}, {0} * 0.5)", "{}.pow(2)",
             "{0}.masked_fill({0} < -1.0, 0.25)"])
        return Value(function.format(v.name), v.shape, self.typed(None if v.type in (PARTIAL, WRONG) else v.type))

    def linear_map(self, v):
        function = self.pick(["-{}", "{} * 0.5", "0.75 * {}", "{} / 2.0", "{}.neg()", "{}.contiguous()", "{}.clone()",
                              "{}.to({}.scalar_type())", "{}.mul(1.25)", "{}.div(1.5)"])
        if function == "{}.to({}.scalar_type())":
            if v.type == PARTIAL:
                function = "{}.clone()"
            else:
                function = function.format(v.name, v.name)
        return Value(function.format(v.name), v.shape, self.typed(None if v.type == WRONG else v.type))

    def shifted(self, v):
        """Addition of a number."""
        return Value(f"{v.name} + 0.125", v.shape, self.typed(None if v.type in (PARTIAL, WRONG) else v.type))

    def transposed(self, v):
        rank = len(v.shape)
        if rank < 2:
            return None
        a, b = self.random.sample(range(rank), 2)
        order = list(range(rank))
        order[a], order[b] = b, a
        return self.permuted(v, order, f"{v.name}.transpose({self.dim(a, rank)}, {self.dim(b, rank)})")

    def permutation(self, v):
        order = list(range(len(v.shape)))
        self.random.shuffle(order)
        return self.permuted(v, order, f"{v.name}.permute({{{', '.join(map(str, order))}}})")

    def permuted(self, v, order, text):
        type = v.type
        if type[0] == "split":
            type = split(order.index(type[1]))
        return Value(text, [v.shape[i] for i in order], self.typed(None if type == WRONG else type))

    def unsqueezed(self, v):
        rank = len(v.shape)
        if rank > 3:
            return None
        at = self.random.randrange(rank + 1)
        type = split(v.type[1] + (v.type[1] >= at)) if v.type[0] == "split" else v.type
        return Value(f"{v.name}.unsqueeze({self.dim(at, rank + 1)})", v.shape[:at] + [self.one] + v.shape[at:],
                     self.typed(None if type == WRONG else type))

    def squeezed(self, v):
        ones = [i for i, dim in enumerate(v.shape) if dim == self.one]
        if not ones:
            return None
        at = self.pick(ones)
        type = split(v.type[1] - (v.type[1] > at)) if v.type[0] == "split" else v.type
        return Value(f"{v.name}.squeeze({self.dim(at, len(v.shape))})", v.shape[:at] + v.shape[at + 1:],
                     self.typed(None if type == WRONG else type))

    def along(self, v, dims=None):
        """A dimension of v for an operation: one that is not split, or possibly the split one in a wild module. None if
        there is none."""
        dims = [i for i in (dims if dims is not None else range(len(v.shape)))
                if v.type != split(i) and v.shape[i] not in self.apart]
        if (self.wild() or not dims) and v.type[0] == "split":
            return v.type[1]
        return self.pick(dims) if dims else None

    def flattened(self, v):
        """Two dimensions merged."""
        rank = len(v.shape)
        if rank < 3:
            return None
        at = self.random.randrange(rank - 1)
        type = v.type
        if type == split(at + 1) and v.shape[at] != self.one:
            type = None
        elif type[0] == "split" and type[1] > at:
            type = split(type[1] - 1)
        one, other = v.shape[at], v.shape[at + 1]
        dim = Dim(one.size * other.size, "", "", "")
        return Value(f"{v.name}.flatten({at}, {at + 1})", v.shape[:at] + [dim] + v.shape[at + 2:],
                     self.typed(None if type == WRONG else type))

    def reduction(self, v):
        if not v.shape or len(v.shape) == 1:
            return None
        function = self.pick(["sum", "mean", "amax", "logsumexp", "var", "sum", "mean", "norm"])
        at, rank, keeps = self.along(v), len(v.shape), self.chance(0.6)
        if at is None:
            return None
        dim = self.dim(at, rank)
        written = f", {self.flag(keeps)}" if keeps or self.chance(0.3) else ""
        if "keeps" in written or "drops" in written:
            if v.type[0] == "split":
                self.is_right = False  # the number of dimensions is not known
        text = {
            "var": f"{v.name}.var({dim}, false, {self.flag(keeps)})",
            "norm": f"({v.name} + 0.0).norm(2, {{{dim}}}{written or ', false'})",
        }.get(function, f"{v.name}.{function}({dim}{written})")
        if function == "var" and ("keeps" in text or "drops" in text) and v.type[0] == "split":
            self.is_right = False
        if v.shape[at].size == 1 and function in ("var", "norm"):
            return None
        if function == "norm" and v.type == PARTIAL:
            self.is_right = False
        shape = v.shape[:at] + ([self.one] if keeps else []) + v.shape[at + 1:]
        type = v.type
        if type == split(at):
            type = PARTIAL if function == "sum" else self.mistaken(FULL)
        elif type[0] == "split" and not keeps:
            type = split(type[1] - (type[1] > at))
        elif type == PARTIAL and function != "sum":
            type = None
        return Value(text, shape, self.typed(None if type == WRONG else type))

    def over_all(self, v):
        if any(dim in self.apart for dim in v.shape):
            return None
        function = self.pick(["sum", "mean"])
        type = {"split": PARTIAL if function == "sum" else None, "full": FULL,
                "partial": PARTIAL if function == "sum" else None}.get(v.type[0])
        return Value(f"{v.name}.{function}() * 0.01", [], self.typed(type))

    def same_shape_along(self, v):
        if not v.shape:
            return None
        at = self.along(v)
        if at is None:
            return None
        dim = self.dim(at, len(v.shape))
        function = self.pick([
            f"{v.name}.softmax({dim})", f"torch::softmax({v.name}, {dim})", f"{v.name}.log_softmax({dim})",
            f"{v.name}.cumsum({dim})", f"{v.name}.flip({{{dim}}})", f"{v.name}.roll(1, {dim})",
            f"{v.name}.roll({{1}}, {{{dim}}})"])
        if v.type == WRONG or v.type == split(at) or (
                v.type == PARTIAL and any(name in function for name in ("softmax", "cumsum"))):
            return Value(function, v.shape, self.mistaken(v.type))
        return Value(function, v.shape, v.type)

    def halves(self, v):
        """Cut along a dimension and concatenated in another order."""
        if not v.shape:
            return None
        at = self.along(v)
        if at is None or v.shape[at].size % 2 != 0:
            return None
        dim, size = self.dim(at, len(v.shape)), v.shape[at].size
        pieces = self.name("pieces")
        way = self.pick(["chunk", "split", "narrow", "slice"])
        take = {
            "chunk": f"const auto {pieces} = {v.name}.chunk(2, {dim});",
            "split": f"const auto {pieces} = {v.name}.split({size // 2}, {dim});",
            "narrow": f"const std::pair<Tensor, Tensor> {pieces}_pair = {{{v.name}.narrow({dim}, 0, {size // 2}), "
                      f"{v.name}.narrow({dim}, {size // 2}, {size // 2})}};",
            "slice": f"const std::pair<Tensor, Tensor> {pieces}_pair = {{{v.name}.slice({dim}, 0, {size // 2}), "
                     f"{v.name}.slice({dim}, {size // 2}, {size})}};",
        }[way]
        first, second = ((f"{pieces}[0]", f"{pieces}[1]") if way in ("chunk", "split") else
                         (f"{pieces}_pair.first", f"{pieces}_pair.second"))
        self.lines.append(take)
        bad = v.type == WRONG or v.type == split(at)
        return Value(f"torch::cat({{{second}, {first}}}, {dim})", v.shape, self.mistaken(v.type) if bad else v.type)

    def selected(self, v):
        if len(v.shape) < 2:
            return None
        at = self.along(v)
        if at is None:
            return None
        index = self.random.randrange(v.shape[at].size)
        text = f"{v.name}.select({self.dim(at, len(v.shape))}, {index})"
        if at == 0 and self.chance(0.5):
            text = f"{v.name}[{index}]"
        type = v.type
        if type == split(at):
            type = None
        elif type[0] == "split":
            type = split(type[1] - (type[1] > at))
        return Value(text, v.shape[:at] + v.shape[at + 1:], self.typed(None if type == WRONG else type))

    def normed(self, v):
        """A norm over the last dimension; if it is split, the weight is split the same way."""
        if not v.shape or v.shape[-1] in (self.one, self.B, self.S) or not v.shape[-1].in_constructor:
            return None
        rms = self.contract(f"rms_norm({v.name}, {{}}, 1e-3)")
        if v.type == split(len(v.shape) - 1) and not self.wild():
            return Value(rms.format(self.parameter([v.shape[-1]], 0)), v.shape, v.type)
        weight = self.parameter([v.shape[-1]])
        bad = v.type in (WRONG, PARTIAL) or v.type == split(len(v.shape) - 1)
        text = self.pick([rms.format(weight),
                          f"torch::layer_norm({v.name}, {{{v.shape[-1].in_method}}}, {weight}, {{}}, 1e-3)"])
        return Value(text, v.shape, self.typed(None if bad else v.type))

    def repeated(self, v):
        ones = [i for i, dim in enumerate(v.shape) if dim == self.one]
        if not ones:
            return None
        at = self.pick(ones)
        shape = list(v.shape)
        if self.chance(0.5) and v.type == FULL:
            shape[at] = self.h
            sizes = ["-1"] * len(shape)
            sizes[at] = self.pick(["num_heads", "config.num_heads"])
            if self.wild():
                sizes[at] = "num_heads"
            type = split(at) if sizes[at] == "num_heads" else FULL
            # The size has to be known to be 1: from a reduction with keepdim, or from an unsqueeze.
            return Value(f"{v.name}.expand({{{', '.join(sizes)}}})", shape, type)
        shape[at] = self.d
        return Value(f"{v.name}.repeat_interleave(config.head_dim, {self.dim(at, len(shape))})", shape,
                     self.typed(None if v.type == WRONG else v.type))

    # ---- Operations on two values ----

    @staticmethod
    def broadcast(a, b):
        """The broadcast shape, or None."""
        rank = max(len(a), len(b))
        shape = []
        for i in range(1, rank + 1):
            one, other = a[-i] if i <= len(a) else None, b[-i] if i <= len(b) else None
            if one is None or other is None:
                shape.insert(0, one or other)
            elif one.size == other.size and (one == other or one.size == 1):
                shape.insert(0, one)
            elif one.size == 1 or other.size == 1:
                shape.insert(0, other if one.size == 1 else one)
            else:
                return None
        return shape

    @staticmethod
    def meets(v, w, shape, operation):
        """The type of an elementwise combination of two values; None if they cannot be combined."""
        if WRONG in (v.type, w.type):
            return None
        if PARTIAL in (v.type, w.type):
            if operation in "+-":
                return PARTIAL if v.type == w.type else None
            return PARTIAL if operation == "*" and v.type != w.type and FULL in (v.type, w.type) else None
        if v.type == FULL and w.type == FULL:
            return FULL
        ends = set()
        for one in (v, w):
            if one.type[0] == "split":
                ends.add(one.type[1] - len(one.shape))
        if len(ends) != 1:
            return None
        end = ends.pop()
        for one in (v, w):
            if one.type == FULL and len(one.shape) >= -end and one.shape[end].size != 1:
                return None
        return split(end + len(shape))

    def binary(self, v, others):
        candidates = []
        for w in others:
            shape = self.broadcast(v.shape, w.shape)
            if shape is None:
                continue
            for operation in "+-*":
                type = self.meets(v, w, shape, operation)
                candidates.append((w, shape, operation, type))
        right = [c for c in candidates if c[3] is not None]
        if not candidates or (not right and not self.wild()):
            return None
        wrong = [c for c in candidates if c[3] is None]
        w, shape, operation, type = self.pick(wrong if wrong and (self.wild() or not right) else right)
        forms = {"+": ["{} + {}", "torch::add({}, {})", "{}.add({})"], "-": ["{} - {}", "{}.sub({})"],
                 "*": ["{} * {}", "torch::mul({}, {})", self.contract('gated_activation("silu", {}, {})')]}[operation]
        form = self.pick(forms)
        if "gated" in form and type == PARTIAL:
            form = "{} * {}"
        if type is None and FULL in (v.type, w.type) and "split" in (v.type[0], w.type[0]):
            parted = w if v.type == FULL else v
            type = self.mistaken(split(parted.type[1] - len(parted.shape) + len(shape)))
        return Value(form.format(v.name, w.name), shape, self.typed(type))

    def product(self, v, others):
        """v times the transpose of another value with its shape."""
        if len(v.shape) < 2 or any(dim in self.apart for dim in v.shape[-2:]):
            return None
        same = [w for w in others if w.shape == v.shape and (w.type == v.type or self.wild())]
        if not same or v.shape[-1].size < 2:
            return None
        w, rank = self.pick(same), len(v.shape)
        type = None
        if v.type == w.type == FULL:
            type = FULL
        elif v.type == w.type and v.type[0] == "split":
            type = PARTIAL if v.type[1] == rank - 1 else v.type if v.type[1] < rank - 2 else None
        if type is None and not self.wild():
            return None
        scores = self.name("scores")
        self.lines.append(f"const Tensor {scores} = torch::matmul({v.name}, {w.name}.transpose(-1, -2)) * 0.2;")
        if type == PARTIAL:
            return Value(scores, v.shape[:-1] + [v.shape[-2]], PARTIAL)
        return Value(f"{scores}.softmax(-1).matmul({w.name})", v.shape, self.typed(type))
