"""What a generator of programs knows about the program so far: families, classes and what they declare.

A chain is a root family and families that derive from it, each from an earlier one. The oracle runs the objects of one family at a time
and says in `oracle::level` which: where flattened code means what the family redefines (free functions, constants, defaults of
arguments and fields, static methods, the classes of members), the oracle chooses by that. Methods are virtual there."""

import dataclasses

from orders import THEMES
from records import KINDS
from tree import Either, Lazy, Node

INTEGER, DOUBLE, BOOL, FLOAT, INT = "int64_t", "double", "bool", "float", "int"
STRING, VECTOR, TENSOR = "std::string", "std::vector<int64_t>", "Tensor"
RANKS = {BOOL: 0, INT: 1, INTEGER: 2, FLOAT: 3, DOUBLE: 4}  # of the usual arithmetic conversions
NAMES = ["scale", "gain", "offset", "total", "count", "limit", "ratio", "eps", "seen", "step", "shift", "blend", "inner", "width"]
PLAIN_NAMES = {  # where a chain has none of the clashes
    "functions": ["helper", "mixed", "halved", "bounded"],
    "constants": ["kFloor", "kLimit", "kFirst"],
    "locals": ["first", "second", "value", "result", "part", "found", "other", "last"],
    "parameters": ["x", "y", "z", "factor", "amount", "number"],
}
# Each chain has some of these only, with the probability given: what all chains have would hide what few show.
FEATURES = {
    "clashing functions": 0.35, "clashing constants": 0.35, "clashing locals": 0.5, "clashing parameters": 0.5, "other parameter names": 0.5,
    "conversions": 0.5, "effects in operands": 0.4, "branches": 0.7, "loops": 0.5, "lambdas": 0.35, "references": 0.3, "counters": 0.15,
    "constructor bodies": 0.6, "methods in constructors": 0.5, "calls in initializers": 0.4, "computed base arguments": 0.03,
    "before the base": 0.2, "skipped constructors": 0.25, "parameters by name": 0.7, "base fields": 0.5,
    "static methods": 0.3, "static fields": 0.3, "overloads": 0.25, "defaults": 0.35, "outputs": 0.3, "many types": 0.5,
    "constant fields": 0.12, "early returns in constructors": 0.06, "names of families in strings": 0.2,
    "fields again": 0.3, "removed": 0.25, "renamed": 0.2, "functions again": 0.4, "constants again": 0.4, "defined behind": 0.2,
    "virtual": 0.15, "override": 0.08, "final": 0.15, "library base": 0.1, "implicit constructors": 0.3, "holders": 0.3, "configs": 0.4, "tensors": 0.35, "aliases": 0.3,
}
SMALL_CLASSES = {**dict.fromkeys([*THEMES, *KINDS], 0.07), "changed parameters": 0.05, "super calls in braces": 0.1}
FAMILIES = ["alpha", "beta", "gamma", "delta", "epsilon"]
BOUND = 1000  # of every number that a variable holds, a function takes or returns
SMALL = 16  # of a positive one, by which code may divide


@dataclasses.dataclass(eq=False)
class Variable:
    """A local, parameter, field or constant. What it holds stays within low and high."""

    name: str
    type: str
    low: float = -BOUND
    high: float = BOUND
    const: bool = False
    clean: bool = True  # nothing but a statement that names it changes it
    role: str = "local"  # or parameter, field, static
    family: int = 0  # that declares it
    reference: str = ""  # of a parameter: "", "const &" or "&"
    values: dict = dataclasses.field(default_factory=dict)  # of a field or constant that families declare again, by family
    how: str = "default"  # a field gets its value: by a default, in the list, or in the body of its family's constructor
    retyped: bool = False  # declared again as double
    spare: bool = False  # nothing but its initializer names it
    registered: bool = False  # a tensor
    qualified: bool = False  # some code names it with its class, which modgen rejects where a family declares it again
    removed: set = dataclasses.field(default_factory=set)  # in these families

    @property
    def declared(self):
        return {"": self.type, "const &": f"const {self.type}&", "&": f"{self.type}&"}[self.reference]


@dataclasses.dataclass(eq=False)
class Function:
    """A free function or a method."""

    name: str
    parameters: list
    returns: Variable  # or None
    rank: int  # it calls functions of lower ranks only
    effects: bool = False
    reads: bool = False  # what calls may change
    static: bool = False
    const: bool = False
    family: int = 0  # that declares it first
    families: list = dataclasses.field(default_factory=list)  # that define it
    defaults: dict = dataclasses.field(default_factory=dict)  # of the last parameters: the texts by family
    calls: set = dataclasses.field(default_factory=set)  # on the same object, of any definition
    frozen: set = dataclasses.field(default_factory=set)  # families whose constructors run it: none that derives redefines it
    removed: set = dataclasses.field(default_factory=set)
    prefixed: bool = False  # its name begins with the family's
    spare: bool = False  # nothing calls it
    tensors: bool = False  # it works on tensors: constructors must not call it
    virtual: bool = False  # in the spec too
    cost: int = 1

    def named(self, chain, family):
        return f"{chain.file(family)}_{self.name}" if self.prefixed else self.name

    @property
    def signature(self):
        return self.name, tuple(one.declared for one in self.parameters), self.const


@dataclasses.dataclass(eq=False)
class Constructor:
    parameters: list
    defaults: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Class:
    stem: str
    fields: list = dataclasses.field(default_factory=list)
    methods: list = dataclasses.field(default_factory=list)
    declared: dict = dataclasses.field(default_factory=dict)  # by family: "class" or "alias"
    constructors: dict = dataclasses.field(default_factory=dict)  # by family; inherited ones too
    using: dict = dataclasses.field(default_factory=dict)  # by family: names of methods under a using-declaration
    renamed: dict = dataclasses.field(default_factory=dict)  # by family: names of inherited fields
    skips: set = dataclasses.field(default_factory=set)  # families whose constructors others skip
    immovable: set = dataclasses.field(default_factory=set)  # families whose class has a base that cannot be moved, which skip_to asks for
    held: bool = False  # it is a member of a later class


class Chain:
    def __init__(self, parents, features):
        self.parents, self.features = parents, features
        self.functions, self.constants, self.classes = [], [], []
        self.config = None
        self.small = []  # classes of orders.py and records.py

    @property
    def families(self):
        return range(len(self.parents))

    def has(self, feature):
        assert feature in FEATURES or feature in SMALL_CLASSES
        return feature in self.features

    def names(self, kind):
        """Names for new functions, constants, locals or parameters."""
        return NAMES if self.has(f"clashing {kind}") else PLAIN_NAMES[kind]

    def file(self, family):
        return FAMILIES[family] + "@"

    def prefix(self, family):
        return FAMILIES[family].capitalize() + "@"

    def path(self, family):
        """The family, the one that it derives from, and so on."""
        result = []
        while family is not None:
            result.append(family)
            family = self.parents[family]
        return result

    def nearest(self, families, family):
        """The first of `families` on the way from `family` to the root; None where there is none."""
        return next((one for one in self.path(family) if one in families), None)

    def base(self, klass, family):
        """The family whose class the family's own derives from."""
        return self.nearest([one for one, how in klass.declared.items() if how == "class"], self.parents[family])

    def derived(self, name, base, family):
        """The class `name` of the family `base`, as the families between it and `family` have it."""
        path = self.path(self.parents[family])
        between = path[:path.index(base)]
        return "".join(f"{self.file(one)}::Its<" for one in between) + f"{self.file(base)}::{name}" + ">" * len(between)

    def impl(self, klass, family):
        return f"{self.prefix(family)}{klass.stem}" + ("" if klass is self.config else "Impl")

    def by_level(self, make, families):
        """In the oracle, what `make(family)` gives for the nearest of `families`, as the level says."""
        groups = {}
        for family in self.families:
            nearest = self.nearest(families, family)
            if nearest is not None:
                groups.setdefault(nearest, []).append(family)
        first, *others = sorted(groups)
        choice = make(first)
        for one in others:
            asked = " || ".join(f"oracle::level == {family}" for family in groups[one])
            choice = f"({asked} ? {make(one)} : {choice})"
        return choice

    def fields(self, klass, family):
        path = self.path(family)
        return [one for one in klass.fields if one.family in path and not one.removed.intersection(path)]

    def all_names(self, klass, family):
        """Names that a new member of the family's class must not have."""
        path = self.path(family)
        names = {one.name for one in klass.fields if one.family in path}
        names |= {one.name for one in klass.methods if one.family in path}
        names |= {new for one in path for new in klass.renamed.get(one, {}).values()}
        return names

    def methods(self, klass, family):
        """What a call in the family's class finds, by name."""
        found = {}
        for one in reversed(self.path(family)):
            if klass.declared.get(one) != "class":
                continue
            here = {}
            for method in klass.methods:
                if one in method.removed:
                    for name in found:
                        found[name] = [other for other in found[name] if other is not method]
                elif one in method.families:
                    here.setdefault(method.name, []).append(method)
            for name, methods in here.items():
                inherited = found.get(name, []) if name in klass.using.get(one, ()) else []
                found[name] = methods + [other for other in inherited if other not in methods]
        return {name: methods for name, methods in found.items() if methods}

    def closure(self, methods):
        """The methods, and those that they call on the same object."""
        reached, waiting = set(), list(methods)
        while waiting:
            method = waiting.pop()
            if method not in reached:
                reached.add(method)
                waiting += method.calls
        return reached


def constant_reference(chain, constant, spec):
    """A use of a constant that a later family may declare again."""
    def choice():
        return chain.by_level(lambda one: f"static_cast<{constant.type}>({constant.values[one]})", constant.values)

    return Node("expression", Either(spec, Lazy(choice)),
                type=constant.type, low=constant.low, high=constant.high)
