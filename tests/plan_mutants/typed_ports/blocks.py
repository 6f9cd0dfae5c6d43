"""Parts of models, written by hand for one rank, whose values spmd_types types while they run.

A port runs once per reading. Each reading divides the model along one axis, and says which conversions its calls make:

    reading            divided                               enter        exit            part    whole
    tp                 parameters                            I -> R       P -> I
    sequence           parameters, positions between layers  S(1) -> R    P -> S(1)       I -> S  S -> I
    dp                 rows of the batch
    cp by all-gather   positions                             attention gathers keys and values
    cp by all-to-all   positions                             attention exchanges positions for heads
"""

import contextlib

import spmd_types as spmd
import spmd_types.checker
import torch
from spmd_types import I, P, R, S

RANKS = 2
ROWS, POSITIONS, HIDDEN, INNER, HEADS, WIDTH, VOCAB, LABELS = 4, 6, 8, 10, 4, 2, 14, 3  # of all ranks together

TP, SEQUENCE, DP, CP_GATHER, CP_EXCHANGE = READINGS = ("tp", "sequence", "dp", "cp by all-gather", "cp by all-to-all")

# A type error, sizes that do not match, or a mean or maximum over a split dimension, whose partial type is unknown.
REJECTIONS = (spmd.SpmdTypeError, RuntimeError, ValueError)


class Rejected(Exception):
    """The port has a value that no type fits."""


class Rank:
    """A rank's computation in one reading, and what its types say.

    `without` names the calls that are left out. `shardings` changes how layers are split. `statements` are more
    operations on the values at a place, each typed by itself.
    """

    def __init__(self, mesh, reading, without=(), shardings=None, statements=None, change_loss=None):
        self.group, self.mesh, self.reading = mesh.get_group(), mesh, reading
        self.without, self.shardings, self.statements = set(without), shardings or {}, statements or {}
        self.change_loss = change_loss  # computes another loss from the last layer's output
        self.is_tp, self.is_cp = reading in (TP, SEQUENCE), reading in (CP_GATHER, CP_EXCHANGE)
        self.calls = set()  # names of the calls that the port has
        self.splits = {}  # each parameter's split dimension on tp, or None
        self.read_as = {}  # each full parameter's type where it is read: R if its gradient has to be summed
        self.rejected = {}  # by statement
        self.loss = None  # the loss's type

    def run(self, port):
        """Types `port` as this rank runs it. Returns the first error, or None."""
        with spmd.set_current_mesh(self.mesh), spmd.checker.typecheck(local=False):
            try:
                port(self)
            except REJECTIONS + (Rejected,) as error:
                return error
        return None

    # ---- Values ----

    def typed(self, shape, kind, has_gradient=True):
        if isinstance(kind, spmd.Shard):
            shape = [size // RANKS if dim == kind.dim else size for dim, size in enumerate(shape)]
        value = torch.rand(shape, requires_grad=has_gradient)
        return spmd.assert_type(value, {self.group: kind})

    def data(self, shape, rows=None, positions=None, split=None):
        """A value of the batch, with the dimensions of its rows and positions, and the one that tp splits."""
        dim = split if self.is_tp else rows if self.reading == DP else positions
        return self.typed(shape, I if dim is None else S(dim), has_gradient=False)

    def read(self, name, shape, operation, split=None):
        """`operation` of a parameter. A full one is read as the type that fits, I or R, which must be one of them."""
        split = self.splits[name] = self.shardings.get(name, split)
        if self.is_tp and split is not None:
            return operation(self.typed(shape, S(split)))
        parameter = self.typed(shape, I)
        results, errors = {}, []
        for kind in (I, R):
            try:
                given = parameter if kind is I else spmd.convert(parameter, self.group, src=I, dst=R)
                results[kind] = operation(given)
            except REJECTIONS as error:
                errors.append(error)
        if len(results) != 1:
            raise Rejected(f"{name} may be I or R" if results else f"{name} is neither I nor R: {errors[0]}")
        ((kind, result),) = results.items()
        if self.read_as.setdefault(name, kind) is not kind:
            raise Rejected(f"{name} is read as I and as R")
        return result

    def place(self, name, value):
        """Types the statements on `value` that were added at this place."""
        for text, operation in self.statements.get(name, {}).items():
            self.rejected[name, text] = False
            try:
                operation(value)
            except REJECTIONS:
                self.rejected[name, text] = True
        return value

    # ---- Calls ----

    def _has(self, name):
        self.calls.add(name)
        return name not in self.without

    def enter(self, name, x):
        if not self._has(name) or not self.is_tp:
            return x
        if self.reading == SEQUENCE:
            return spmd.all_gather(x, self.group, src=S(1), dst=R)
        return spmd.convert(x, self.group, src=I, dst=R)

    def shared(self, name, x):
        return spmd.convert(x, self.group, src=I, dst=R) if self._has(name) and self.is_tp else x

    def exit(self, name, x):
        if not self._has(name) or not self.is_tp:
            return x
        if self.reading == SEQUENCE:
            return spmd.reduce_scatter(x, self.group, src=P, dst=S(1))
        return spmd.all_reduce(x, self.group, src=P, dst=I)

    def sum(self, name, x):
        return spmd.all_reduce(x, self.group, src=P, dst=I) if self._has(name) and self.is_tp else x

    def part(self, name, x):
        return spmd.convert(x, self.group, src=I, dst=S(1)) if self._has(name) and self.reading == SEQUENCE else x

    def whole(self, name, x, has_gradient=True):
        if not self._has(name) or self.reading != SEQUENCE:
            return x
        return spmd.all_gather(x, self.group, src=S(1), dst=I if has_gradient else R)

    # ---- Layers ----

    def linear(self, name, x, outputs, inputs, sharding=None, bias=False, call=None, transposed=False):
        """A layer whose weight is split by columns of the output, by rows of the input, or not. By rows, the sum over
        ranks is the call `call`, and the bias is added after it."""
        sharding = self.shardings.get(name, sharding)
        dim = {"columns": 0, "rows": 1, None: None}[sharding]
        if transposed:
            split, shape = None if dim is None else 1 - dim, (inputs, outputs)
            y = self.read(f"{name}.weight", shape, lambda weight: product(x, weight.transpose(0, 1)), split)
        else:
            y = self.read(f"{name}.weight", (outputs, inputs), lambda weight: product(x, weight), dim)
        if sharding == "rows":
            y = self.exit(call, y) if call else y
        if bias:
            y = self.read(f"{name}.bias", (outputs,), lambda added: y + added, 0 if sharding == "columns" else None)
        return y

    def rms_norm(self, name, x, size=HIDDEN, scale=lambda weight: weight):
        normed = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return self.read(f"{name}.weight", (size,), lambda weight: normed * scale(weight))

    def layer_norm(self, name, x):
        centered = x - x.mean(-1, keepdim=True)
        normed = centered * (centered.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        scaled = self.read(f"{name}.weight", (HIDDEN,), lambda weight: normed * weight)
        return self.read(f"{name}.bias", (HIDDEN,), lambda bias: scaled + bias)

    def one_hot(self, classes, split=True):
        """Rows of the batch that choose one class at each position; on tp, the columns that a rank has of them."""
        return self.data((ROWS, POSITIONS, classes), rows=0, positions=1, split=2 if split else None)

    def embedding(self, call, name):
        """Rows of a table that is split by row, as a product: a rank's rows of the table with what chooses them."""
        chosen = self.one_hot(VOCAB)
        looked_up = self.read(f"{name}.weight", (VOCAB, HIDDEN), lambda table: lookup(chosen, table), split=0)
        return self.sum(call, looked_up)

    def heads(self, x):
        return x.unflatten(-1, (-1, WIDTH)).transpose(1, 2)

    def attention(self, query, key, value, mask=None, is_causal=True):
        """Attention over heads [rows, heads, positions, width]. `mask` has the biases of the rank's queries."""
        if self.reading == CP_GATHER and "cp" not in self.without:
            key, value = (spmd.all_gather(x, self.group, src=S(2), dst=R) for x in (key, value))
        if self.reading == CP_EXCHANGE and "cp" not in self.without:
            query, key, value = (
                spmd.all_to_all(x, self.group, src=S(2), dst=S(1)) for x in (query, key, value)
            )
        scores = (query.unsqueeze(3) * key.unsqueeze(2)).sum(-1)
        if mask is None and is_causal:
            positions = 0 if self.reading == CP_GATHER else None
            mask = self.data((POSITIONS, POSITIONS), positions=positions)
        if mask is not None:
            scores = scores + mask
        mixed = (scores.softmax(-1).unsqueeze(-1) * value.unsqueeze(2)).sum(3)
        if self.reading == CP_EXCHANGE and "cp" not in self.without:
            mixed = spmd.all_to_all(mixed, self.group, src=S(1), dst=S(2))
        return mixed.transpose(1, 2).flatten(2)

    def rotary(self, x):
        cos, sin = (self.data((POSITIONS, WIDTH), positions=0) for _ in range(2))
        one, other = x.chunk(2, -1)
        return x * cos + torch.cat((-other, one), -1) * sin

    # ---- Losses ----

    def cross_entropy(self, call, logits):
        """The sum over tokens of the loss, from logits whose vocabulary tp splits."""
        exponentials = self.sum(call, logits.exp().sum(-1))
        chosen = self.sum(call, (logits * self.one_hot(VOCAB)).sum(-1))
        return (exponentials.log() - chosen).sum()

    def pooled(self, x):
        """The features of one position of each row, on all ranks of cp."""
        chosen = (x * self.data((ROWS, POSITIONS, 1), rows=0, positions=1)).sum(1)
        return spmd.all_reduce(chosen, self.group, src=P, dst=R) if self.is_cp else chosen

    def label_loss(self, logits):
        chosen = (logits * self.data((ROWS, LABELS), rows=0)).sum(-1)
        return (logits.exp().sum(-1).log() - chosen).sum()

    def finish(self, loss):
        """Notes the type of the loss. One that all ranks of cp have is counted on the first, as by the runtime."""
        with spmd.checker.typecheck():
            self.loss = spmd.get_local_type(loss)[spmd.normalize_axis(self.group)]
        if self.is_cp and self.loss is R:
            loss = spmd.convert(loss, self.group, src=R, dst=P)
        # Rejects a loss that is neither I nor P. Nothing runs backward, because only types are read.
        loss.detach().requires_grad_().backward()


def product(x, weight):
    """x [..., inputs] times weight [outputs, inputs]. PyTorch's product joins rows and positions before it multiplies,
    which DTensor's rules, those of spmd_types, reject if positions are split."""
    return (x.unsqueeze(-2) * weight).sum(-1)


def lookup(chosen, table):
    return (chosen.unsqueeze(-1) * table).sum(-2)


@contextlib.contextmanager
def quiet():
    """Without PyTorch's log of the sizes that do not match, which a changed port is expected to have."""
    import logging

    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
