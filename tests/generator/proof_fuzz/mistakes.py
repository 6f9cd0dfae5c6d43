"""A single intentional mistake: the module uses an operation as a wrong rule would allow, and continues with its result. The
rest of the module is right, so that only the rule of that operation can reject it. A hidden mistake is one that no rule sees: what
holds the value, computes the number or names the parameter hides it."""

from parts import FULL, Value, Var, split
from placing import Placing


class Mistakes(Placing):
    def hidden_mistake(self, scope):
        """Computes a value by one of them, which the module's features name."""
        ways = {kind: lambda one, kind=kind: self.carried_mistake(one, kind) for kind in self.carriers()}
        ways |= self.count_mistakes()
        ways |= {"split parameters by other names": self.alias_of_split,
                 "full parameters by other names": self.alias_of_full,
                 "gradients behind other names": self.gradient_behind,
                 "alternatives split differently": lambda one: self.alternatives(one, differ=True),
                 "names of overloads taken": lambda one: self.overloaded_norm(one, is_taken=True)}
        kind = self.pick(ways)
        self.use("mistake: " + kind)
        self.is_right = False
        made = ways[kind](scope)
        if made is not None:
            self.declared(made, scope)

    def gradient_behind(self, scope):
        """A full value whose gradient is a sum over ranks, behind another name."""
        v = self.hidden_states(scope)
        held = self.declared(self.carried(v, v, self.pick(["containers of structs"] * 8 + [*self.carriers()])), scope)
        return Value(self.through_layers(held.name), v.shape, FULL)

    def carried_mistake(self, scope, kind):
        parted = [v for v in scope if v.type[0] == "split" and len(v.shape) > 1] or [self.parted(scope)]
        v = self.pick(parted)
        held = self.declared(self.carried(v, self.full(scope), kind), scope)
        scope.remove(held)
        return self.mean_of_slices(Var(f"{held.name}.square()", v.shape, v.type))

    def mistake(self, scope):
        """Computes a value by a mistake on a split value."""
        parted = [v for v in scope if v.type[0] == "split" and v.shape]
        if not parted or self.chance(0.2):
            made = self.layered(scope[0])
            if made is None or made.type[0] != "split":
                made = Value(f"{self.layer('columns', self.H, self.M)}({scope[0].name})", [self.B, self.S, self.M], split(2))
            parted = [self.declared(made, scope)]
            if self.chance(0.5):  # the split may be at another dimension too
                v = parted[0]
                parted = [self.declared(self.transposed(v), scope)]
        ways = [self.along_the_split, self.apart_at_the_split, self.mean_of_slices, self.full_meets_split,
                self.split_stays, self.kept_is_dropped]
        self.random.shuffle(ways)
        for way in ways:
            made = way(self.pick(parted))
            if made is not None:
                self.is_right = False
                self.declared(made, scope)
                return

    def along_the_split(self, v):
        """A softmax of each rank's slice, or another operation that needs the full dimension."""
        dim = self.dim(v.type[1], len(v.shape))
        function = self.pick(["{0}.softmax({1})", "torch::softmax({0}, {1})", "{0}.log_softmax({1})", "{0}.cumsum({1})",
                              "{0}.flip({{{1}}})", "{0}.roll(1, {1})"])
        return Value(function.format(v.name, dim), v.shape, v.type)

    def apart_at_the_split(self, v):
        """The split dimension, cut and concatenated in another order."""
        at = v.type[1]
        if v.shape[at].size % 2:
            return None
        dim, pieces = self.dim(at, len(v.shape)), self.name("pieces")
        way = self.pick(["chunk", "split", "narrow"])
        if way == "narrow":
            return Value(f"{v.name}.narrow({dim}, 0, 1) + {v.name}", v.shape, v.type)
        self.lines.append(f"const auto {pieces} = {v.name}.{way}({2 if way == 'chunk' else 1}, {dim});")
        return Value(f"torch::cat({{{pieces}[1], {pieces}[0]}}, {dim})", v.shape, v.type) if way == "chunk" else \
            Value(f"{pieces}[0] + {v.name}", v.shape, v.type)

    def mean_of_slices(self, v):
        """A mean or maximum of each rank's slice, treated as global."""
        at, keeps = v.type[1], self.chance(0.6)
        if len(v.shape) < 2:
            return None
        function = self.pick(["mean", "mean", "amax", "logsumexp"])
        shape = v.shape[:at] + ([self.one] if keeps else []) + v.shape[at + 1:]
        return Value(f"{v.name}.{function}({self.dim(at, len(v.shape))}{', true' if keeps else ''})", shape, FULL)

    def full_meets_split(self, v):
        """A full parameter combined with a split value."""
        at = v.type[1]
        if not v.shape[at].in_constructor:
            return None
        ones = "".join(", 1" for _ in v.shape[at + 1:])
        weight = self.parameter([v.shape[at]])
        text = self.pick(["{} + {}", "{} * {}"]).format(v.name, f"{weight}.view({{-1{ones}}})" if ones else weight)
        return Value(text, v.shape, v.type)

    def split_stays(self, v):
        """A moved dimension whose split is assumed to stay in the same dimension."""
        rank, at = len(v.shape), v.type[1]
        others = [i for i in range(rank) if i != at]
        if not others:
            return None
        # A wrong rule accepts a dimension that a layer could read.
        other = self.pick([i for i in others if v.shape[i].in_constructor] or others)
        shape = list(v.shape)
        shape[at], shape[other] = shape[other], shape[at]
        return Value(f"{v.name}.transpose({self.dim(at, rank)}, {self.dim(other, rank)})", shape, v.type)

    def kept_is_dropped(self, v):
        """A reduction that keeps its dimension, treated as if it dropped it, so that the split is assumed to have moved."""
        rank, at = len(v.shape), v.type[1]
        before = [i for i in range(at) if i + 1 != at]
        if not before:
            return None
        function, over = self.pick(["sum", "mean", "amax"]), self.pick(before)
        shape = v.shape[:over] + [self.one] + v.shape[over + 1:]
        return Value(f"{v.name}.{function}({self.dim(over, rank)}, true)", shape, split(at - 1))
