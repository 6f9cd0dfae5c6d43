"""Random modules over the operations that shard types have rules for.

A module is a complete family: a config, one class with a `forward` that uses locals, references, branches, loops and
methods, and an entry around it. Shapes are tracked, so that every module runs on a single process. Shard types are tracked
too, by independent rules in this file: a module that follows them is right by construction, and modgen should accept it. A
wild module occasionally violates them, in its operands or in its annotations: modgen may reject it, and if it accepts it,
the module has to compute the same on ranks.
"""

import random
from dataclasses import dataclass, field

FULL = ("full",)
PARTIAL = ("partial",)
WRONG = ("wrong",)  # not a type: code that uses it is right on a single process only


def split(dim):
    return ("split", dim)


@dataclass(frozen=True)
class Dim:
    """A dimension: its global size, and the expressions for its size in a constructor and in a method."""

    size: int
    in_constructor: str
    in_method: str
    local: str = ""  # in a method, if the dimension is split

    @property
    def can_split(self):
        return bool(self.local)


@dataclass
class Var:
    name: str
    shape: list
    type: tuple
    is_const: bool = True
    alias_of: object = None  # for references


@dataclass
class Value:
    """An expression with its shape and type."""

    text: str
    shape: list
    type: tuple


@dataclass
class Module:
    family: str
    text: str
    is_right: bool  # right by construction
    features: set = field(default_factory=set)


class Parts:
    """The code of one module, and the random choices for it."""

    def __init__(self, seed, family, wildness, mistake=None):
        self.random = random.Random(seed)
        self.family = family
        self.prefix = "".join(part.capitalize() for part in family.split("_"))
        self.wildness = wildness
        self.one_mistake = mistake  # a method that makes it
        # What is rejected for something else would hide the mistake.
        self.is_quiet = mistake == "hidden_mistake"
        self.used_features = set()
        self.is_right = True
        self.count = 0
        self.fields = []  # (declaration, initializer or None)
        self.lines = []
        self.methods = []  # source texts
        self.functions = []  # (name, text) of free functions
        self.taken = set()  # function names or signatures
        self.submodules = {}
        self.structs = {}  # names by members
        self.networks = []  # (class, annotation of up_proj, annotation of down_proj)
        self.made_lists = []  # statements of the constructor
        self.is_plain = False  # the current code has no members
        self.hides = self.chance(0.2)  # functions have the names of contract functions
        self.heads, self.head_dim = self.pick([4, 4, 8]), self.pick([2, 3])
        self.hidden, self.inner, self.vocab = self.pick([8, 12]), self.pick([8, 12]), self.pick([8, 16])
        self.B = Dim(2, "", "batch")
        self.S = Dim(4, "", "seq")
        self.H = Dim(self.hidden, "config.hidden_size", "config.hidden_size")
        self.M = Dim(self.inner, "config.intermediate_size", "config.intermediate_size", "inner_size")
        self.h = Dim(self.heads, "config.num_heads", "config.num_heads", "num_heads")
        self.d = Dim(self.head_dim, "config.head_dim", "head_dim")
        self.hd = Dim(
            self.heads * self.head_dim, "config.num_heads * config.head_dim", "config.num_heads * head_dim",
            "num_heads * head_dim")
        self.one = Dim(1, "1", "1")
        # Dimensions along which nothing is mixed, so that data-parallel and context-parallel ranks can divide them.
        self.apart = self.pick([(), (self.B,), (self.B, self.S), (self.B, self.S)])

    # ---- Choices ----

    def pick(self, choices):
        return self.random.choice(list(choices))

    def chance(self, probability):
        return self.random.random() < probability

    def wild(self):
        """Whether to violate the types here."""
        return self.chance(self.wildness)

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def use(self, feature):
        self.used_features.add(feature)

    def contract(self, call):
        """A call of a contract function."""
        return f"modular::{call}" if self.hides else call

    def typed(self, type):
        """The type of a result; None is a mistake, which a wild module may make."""
        if type is None:
            self.is_right = False
            return WRONG
        return type

    def mistaken(self, type):
        """The type that a wrong rule would return, which a wild module continues with."""
        self.is_right = False
        return type

    # ---- Members ----

    def layer(self, kind, inputs, outputs):
        """Adds a linear layer with an annotation. Returns the member's name."""
        annotation = {"columns": "TP_COLWISE ", "rows": "TP_ROWWISE ", "full": ""}[kind]
        if self.wild():
            annotation = self.pick(["TP_COLWISE ", "TP_ROWWISE ", "TP_VOCAB ", "", ""])
            if annotation != {"columns": "TP_COLWISE ", "rows": "TP_ROWWISE ", "full": ""}[kind]:
                self.is_right = self.is_right and kind == "columns" and annotation == "TP_VOCAB "
        name = self.name("proj")
        bias = self.pick(["true", "false"])
        self.fields.append(
            (f"{annotation}nn::Linear {name};",
             f'{name}(register_module("{name}", linear({inputs.in_constructor}, {outputs.in_constructor}, /*bias=*/{bias})))'))
        return name

    def parameter(self, dims, split_dim=None):
        """Adds a raw parameter, split along `split_dim` if given. Returns the member's name."""
        name = self.name("weight")
        if self.wild():
            other = self.pick([None, *range(len(dims))])
            if other is not None and not dims[other].can_split:
                other = None
            self.is_right = self.is_right and other == split_dim
            split_dim = other
        annotation = "" if split_dim is None else f"TP_SHARD({split_dim}) "
        sizes = ", ".join(dim.in_constructor for dim in dims)
        self.fields.append(
            (f"{annotation}Tensor {name};", f'{name}(register_parameter("{name}", torch::empty({{{sizes}}})))'))
        return name

    # ---- Sizes in methods ----

    def sizes(self, shape, type, own=None):
        """A list of sizes for a view of a value with that type."""
        texts = []
        for i, dim in enumerate(shape):
            is_split = type == split(i)
            if self.wild() and dim.can_split:
                is_split = not is_split
                self.is_right = False
            if own and dim in (self.B, self.S) and self.chance(0.3):
                texts.append(f"{own.name}.size({own.shape.index(dim)})")
            else:
                texts.append((is_split and dim.local) or dim.in_method)
        if self.chance(0.1):
            self.use("sizes in variables")
            at, size = self.random.randrange(len(texts)), self.name("size")
            self.lines.append(f"{self.pick(['const int64_t', 'const auto', 'int64_t'])} {size} = {texts[at]};")
            texts[at] = size
        listed = "{" + ", ".join(texts) + "}"
        if self.chance(0.06):
            self.use("lists of sizes")
            sizes = self.name("sizes")
            self.lines.append(f"const std::vector<int64_t> {sizes} = {listed};")
            return sizes
        return listed

    def dim(self, i, rank):
        """A dimension index, counted from either side."""
        return str(i if self.chance(0.5) else i - rank)

    def flag(self, value):
        """A literal, or a member with that value."""
        if self.is_plain or not self.chance(0.25):
            return "true" if value else "false"
        self.use("flags that are not literals")
        return "keeps" if value else "drops"
