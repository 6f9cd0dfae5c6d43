"""Programs as trees of text, which are written in two ways and reduced piece by piece.

A part is a string or a Node. A Node's parts are written one after another; those of an Either depend on what is written: the spec that
modgen reads (or the driver of what it generates), or the oracle, plain C++ that means the same. A Lazy part is known only when the whole
program is: what inherited code means depends on what later families redefine. `@` stands for the program's number in its batch.
"""

PRIMARY, UNARY, PRODUCT, SUM, RELATION, EQUALITY, CONJUNCTION, DISJUNCTION, CHOICE = range(9)


class Node:
    """A piece of a program. `kind` says what may be done to it when a program is reduced:
    expression: it has a C++ type, an interval, and may give way to a literal or to an expression inside it;
    optional: a statement, member, function, class or family, which may vanish, together with all of the same `group`;
    block: a statement that may give way to the statements inside it;
    fixed: it stays as it is."""

    __slots__ = ("kind", "parts", "group", "type", "low", "high", "level", "effects")

    def __init__(self, kind, *parts, group=None, type=None, low=None, high=None, level=PRIMARY, effects=0):
        self.kind, self.parts, self.group = kind, list(parts), group
        self.type, self.low, self.high, self.level, self.effects = type, low, high, level, effects

    def copy(self, parts):
        return Node(self.kind, *parts, group=self.group, type=self.type, low=self.low, high=self.high, level=self.level,
                    effects=self.effects)


class Either:
    """What differs between the spec and the oracle."""

    __slots__ = ("spec", "oracle")

    def __init__(self, spec, oracle):
        self.spec, self.oracle = listed(spec), listed(oracle)


class Lazy:
    """A part that `make` gives once the whole program is known."""

    __slots__ = ("make",)

    def __init__(self, make):
        self.make = make


def listed(parts):
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


def resolved(part):
    """The part without any Lazy in it."""
    if isinstance(part, Lazy):
        return resolved(Node("fixed", *listed(part.make())))
    if isinstance(part, Either):
        return Either([resolved(one) for one in part.spec], [resolved(one) for one in part.oracle])
    if isinstance(part, Node):
        return part.copy([resolved(one) for one in part.parts])
    return part


def write(part, oracle, out):
    if isinstance(part, str):
        out.append(part)
    elif isinstance(part, Either):
        for one in part.oracle if oracle else part.spec:
            write(one, oracle, out)
    else:
        for one in part.parts:
            write(one, oracle, out)


def text(part, oracle, number):
    out = []
    write(part, oracle, out)
    return "".join(out).replace("@", str(number))


def nodes(part):
    """All nodes, outer ones first."""
    if isinstance(part, Node):
        yield part
        for one in part.parts:
            yield from nodes(one)
    elif isinstance(part, Either):
        for one in part.spec + part.oracle:
            yield from nodes(one)


def replaced(part, changes):
    """The part with other parts in the place of some nodes: `changes` maps a node's id to what comes instead."""
    if isinstance(part, Either):
        return Either([replaced(one, changes) for one in part.spec], [replaced(one, changes) for one in part.oracle])
    if not isinstance(part, Node):
        return part
    if id(part) in changes:
        return Node("fixed", *changes[id(part)])
    return part.copy([replaced(one, changes) for one in part.parts])
