"""Random expressions without undefined behaviour.

Each node knows an interval in which its value lies, so that nothing overflows and nothing is divided by zero, and its effects: 0 where
only statements that name its variables change it, 1 where it reads what calls may change, 2 where it changes something itself. Operands
that C++ evaluates in no fixed order have at most one with effects 2, beside others of 0.
"""

import dataclasses
import random

from model import (BOOL, BOUND, DOUBLE, FLOAT, INT, INTEGER, NAMES, RANKS, SMALL, STRING, TENSOR, VECTOR, Class, Function, Variable,
                   constant_reference)
from tree import (CHOICE, CONJUNCTION, DISJUNCTION, EQUALITY, PRIMARY, PRODUCT, RELATION, SUM, UNARY, Either, Lazy, Node)

TEXTS = ["soft", "hard", "layer", "none", "wide"]
FAMILY_TEXTS = ["alpha@", "beta@", "Alpha@", "an alpha@", "alpha@_soft"]  # values, whatever the family
MOST = 400  # steps of one body


@dataclasses.dataclass
class Context:
    """Where an expression stands."""

    chain: object
    random: random.Random
    family: int
    klass: Class = None
    function: Function = None  # that is being written; None in constructors
    rank: int = 0  # only functions of lower ranks are called
    limit: int = 1  # the effects that code here may have
    frames: list = dataclasses.field(default_factory=lambda: [{}])  # locals by name, inner scopes last; None: not to be named
    has_this: bool = False
    fields: object = None  # which fields may be named; None: all
    methods: object = None  # likewise
    called: set = dataclasses.field(default_factory=set)  # methods, on the same object
    spent: list = dataclasses.field(default_factory=lambda: [1])
    times: int = 1  # that a loop around this runs it
    tensors: bool = True  # may be read: not in constructors
    depth: int = 0
    nesting: int = 0  # calls around this
    before_base: dict = dataclasses.field(default_factory=dict)  # fields initialized before the base: their values

    def inside(self, **changes):
        changes.setdefault("frames", self.frames + [{}])
        return dataclasses.replace(self, **changes)

    def chance(self, probability):
        return self.random.random() < probability

    def local(self, name):
        """The variable that a local name means; `False` where the name is no local's."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return False

    def locals(self):
        names = {name for frame in self.frames for name in frame}
        return [one for name in sorted(names) if (one := self.local(name))]

    def known_fields(self):
        if self.klass is None:
            return []
        known = [one for one in self.chain.fields(self.klass, self.family) if not one.spare]
        known = [one for one in known if one.role == "static" or self.has_this or one in self.before_base]
        return [one for one in known if self.fields is None or self.fields(one)]


def literal(context, type, low=-9, high=9):
    random = context.random
    if type == BOOL:
        value = random.random() < 0.5
        return Node("expression", "true" if value else "false", type=BOOL, low=int(value), high=int(value))
    if type in (DOUBLE, FLOAT):
        value = random.choice([0.1, 0.3, 0.5, 0.75, 1.5, 1.7, 2.5, 2.7, 3.0, 4.0, 6.9])
        if value < low or value > high:
            value = 1.5
        return Node("expression", repr(value) + ("f" if type == FLOAT else ""), type=type, low=value, high=value)
    value = random.randint(max(1, low), min(9, high))
    return Node("expression", str(value), type=INT, low=value, high=value)


def parenthesized(node, level=PRIMARY):
    """The node as an operand of something that binds as `level` says."""
    return node if node.level <= level else around("(", node, ")")


def around(before, node, after, **changes):
    values = {"type": node.type, "low": node.low, "high": node.high, "effects": node.effects, **changes}
    return Node("expression", before, node, after, **values)


def cast(node, type):
    low, high = node.low, node.high
    if type == BOOL:
        low, high = 0, 1
    return around(f"static_cast<{type}>(", node, ")", type=type, low=low, high=high)


def fit(node, low, high):
    """The node, brought into an interval: that of all numbers, or that of those which may divide."""
    if low <= node.low and node.high <= high:
        return node
    modulus, added = (997, 0) if low < 0 else (7, 8)
    if node.type in (FLOAT, DOUBLE):
        node = around("std::fmod(", node, f", {modulus}.0)", type=DOUBLE, low=-modulus, high=modulus)
        return node if not added else Node("expression", node, f" + {added}.0", type=DOUBLE, low=added - modulus, high=added + modulus,
                                           level=SUM, effects=node.effects)
    node = Node("expression", parenthesized(node, PRODUCT), f" % {modulus}", type=node.type if node.type != BOOL else INT,
                low=1 - modulus, high=modulus - 1, level=PRODUCT, effects=node.effects)
    return node if not added else Node("expression", node, f" + {added}", type=node.type, low=added - modulus + 1,
                                       high=added + modulus - 1, level=SUM, effects=node.effects)


def reference(context, variable, assigned=False):
    """A node that names a variable, in one of the ways that C++ knows; None where there is none."""
    forms, name = [], variable.name
    if variable.role in ("local", "parameter"):
        if context.local(name) is not variable:
            return None
        forms = [name]
    else:
        if context.local(name) is False:
            forms = [name] * 4
        if variable in context.before_base:
            # Only modgen lets a base's arguments read the class's own fields.
            if not forms:
                return None
            value = Node("fixed", f"static_cast<{variable.type}>(", context.before_base[variable], ")")
            return Node("expression", Either([name], [value]), type=variable.type, low=variable.low, high=variable.high)
        if context.has_this and variable.role == "field":
            forms.append(f"this->{name}")
            if not forms[0] == name:
                forms.append(f"this->{name}")
        base = context.chain.base(context.klass, context.family) if context.chain.has("base fields") else None
        is_one = not variable.retyped and set(variable.values) <= {variable.family}
        if base is not None and variable.family in context.chain.path(base) and is_one:
            forms.append(f"{context.chain.impl(context.klass, base)}::{name}")
        if not forms:
            return None
    spelled = context.random.choice(forms)
    variable.qualified |= "::" in spelled
    if variable.role == "static" and variable.const:
        return constant_reference(context.chain, variable, spelled)
    node = Node("expression", spelled, type=variable.type, low=variable.low, high=variable.high, effects=0 if variable.clean else 1)
    return cast(node, DOUBLE) if variable.retyped and not assigned else node


def limits(context, limit, number):
    """How far `number` operands that are evaluated in any order may go."""
    if not context.chain.has("effects in operands") and number > 1:
        limit = min(limit, 1)
    if limit < 2 or number == 0:
        return [limit] * number
    chosen = context.random.randrange(-1, number)
    return [1] * number if chosen < 0 else [2 if index == chosen else 0 for index in range(number)]


def variables(context, limit, accepted):
    """Nodes of the variables that are seen here."""
    result = []
    for variable in context.locals() + context.known_fields():
        if accepted(variable) and (variable.clean or limit > 0):
            node = reference(context, variable)
            if node is not None:
                result.append(node)
    return result


def changed_between(chain, family, defined):
    """Whether a base of `family` that derives from `defined` defines a function or constant again. What `family` itself calls of
    `defined` means what C++ says, whatever its bases have put in the place of that for code that they inherit; the oracle
    knows families only, not from where a function is called."""
    path = chain.path(family)[1:]
    between = path[:path.index(defined)] if defined in path else []
    again = [*(one.families for one in chain.functions), *(one.values for one in chain.constants)]
    return any(one in families for families in again for one in between)


def constants(context):
    result = []
    for constant in context.chain.constants:
        family = context.chain.nearest(constant.values, context.family)
        spelled = constant.name if family == context.family else f"{context.chain.file(family)}::{constant.name}"
        if family == context.family and is_hidden(context, constant.name):
            spelled = f"{context.chain.file(family)}::{constant.name}"
        result.append(constant_reference(context.chain, constant, spelled))
    return result


def is_hidden(context, name):
    """Whether an unqualified name means a local or a member rather than what the namespace has."""
    if context.local(name) is not False:
        return True
    return context.klass is not None and name in context.chain.all_names(context.klass, context.family)


def number(context, limit, depth=0, floating=None):
    """An arithmetic expression of any type; `floating` asks for a floating one (or not)."""
    chance = context.random.random()
    if depth + context.nesting >= 3 or chance < 0.35:
        return leaf(context, limit, floating)
    if chance < 0.55:
        called = call(context, limit, lambda type: type in RANKS and (floating is None or floating == (type in (FLOAT, DOUBLE))))
        return called or leaf(context, limit, floating)
    if chance < 0.58:
        chosen = condition(context, limit, depth + 1)
        first, second = number(context, limit, depth + 1, floating), number(context, limit, depth + 1, floating)
        return Node("expression", parenthesized(chosen, DISJUNCTION), " ? ", parenthesized(first, SUM), " : ", parenthesized(second, SUM),
                    type=joined(first.type, second.type), low=min(first.low, second.low), high=max(first.high, second.high), level=CHOICE,
                    effects=max(chosen.effects, first.effects, second.effects))
    if chance < 0.61:
        inner = number(context, limit, depth + 1)
        return cast(inner, DOUBLE if floating else INTEGER if floating is False else context.random.choice([DOUBLE, INTEGER]))
    if chance < 0.64:
        inner = parenthesized(number(context, limit, depth + 1, floating), PRIMARY)
        return Node("expression", "-", inner, type=joined(inner.type, INT), low=-inner.high, high=-inner.low, level=UNARY,
                    effects=inner.effects)
    if chance < 0.66 and floating is not False:
        first, second = (number(context, one, depth + 1) for one in limits(context, limit, 2))
        return Node("expression", f"std::{context.random.choice(['max', 'min'])}<double>(", first, ", ", second, ")", type=DOUBLE,
                    low=min(first.low, second.low), high=max(first.high, second.high), effects=max(first.effects, second.effects))
    if chance < 0.69 and context.chain.has("lambdas"):
        return called_lambda(context, limit, depth, floating)
    return binary(context, limit, depth, floating)


def called_lambda(context, limit, depth, floating):
    """`[&](double scale) { return scale * gain; }(width)`: a parameter with a name that something else has."""
    members = sorted(context.chain.all_names(context.klass, context.family)) if context.klass and context.chain.has("clashing parameters") else []
    name = fresh_name(context, set(), members, context.chain.names("parameters"))
    parameter = fresh_variable(context, name, context.random.choice([DOUBLE, INTEGER]), "parameter")
    type = DOUBLE if floating or (floating is None and context.chance(0.5)) else INTEGER
    sides = limits(context, limit, 2)
    inner = context.inside(frames=[*context.frames, {name: parameter}], limit=min(1, sides[0]), nesting=context.nesting + 1)
    get_value = value(inner, type, inner.limit, exact=True)
    given = value(context, parameter.type, sides[1], parameter.low, parameter.high, exact=True)
    capture = "[&]" if context.klass is not None or context.function is not None else "[]"
    return Node("expression", f"{capture}({parameter.type} {name}) {{ return ", get_value, "; }(", given, ")", type=type, low=-BOUND, high=BOUND,
                effects=max(get_value.effects, given.effects))


def binary(context, limit, depth, floating):
    operator = context.random.choice(["+", "+", "-", "*", "*", "/", "/"])
    sides = limits(context, limit, 2)
    if operator == "/":
        left = number(context, sides[0], depth + 1, floating if context.chance(0.7) else None)
        right = divisor(context, sides[1])
        if floating is not None and (joined(left.type, right.type) in (FLOAT, DOUBLE)) != floating:
            left = cast(left, DOUBLE) if floating else left
            right = right if floating else literal(context, INT)
            if not floating and left.type in (FLOAT, DOUBLE):
                left = cast(left, INTEGER)
        most = max(abs(left.low), abs(left.high)) / (1 if right.low >= 1 else right.low)
        low, high, level = -most, most, PRODUCT
    else:
        left = number(context, sides[0], depth + 1, floating if floating is False or context.chance(0.7) else None)
        right = number(context, sides[1], depth + 1, floating if floating is False or left.type not in (FLOAT, DOUBLE) else None)
        if operator == "*":
            ends = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            low, high, level = min(ends), max(ends), PRODUCT
        elif operator == "+":
            low, high, level = left.low + right.low, left.high + right.high, SUM
        else:
            low, high, level = left.low - right.high, left.high - right.low, SUM
    result = joined(left.type, right.type, INT)
    node = Node("expression", parenthesized(left, level), f" {operator} ", parenthesized(right, level - 1), type=result, low=low, high=high,
                level=level, effects=max(left.effects, right.effects))
    if result == INT and max(abs(low), abs(high)) > 1e9:  # computed as 64 bits
        node = around("", node, "", type=INTEGER)
        node.parts = [cast(left, INTEGER), f" {operator} ", parenthesized(right, level - 1)]
        node.level = level
    if max(abs(low), abs(high)) > (1e6 if result == INT else 1e9):
        node = fit(node, -BOUND, BOUND)
    return node


def joined(*types):
    """The type of an operation."""
    return max(types, key=RANKS.get)


def leaf(context, limit, floating=None):
    def wanted(type):
        return type in RANKS and (floating is None or (type in (FLOAT, DOUBLE)) == floating)

    known = variables(context, limit, lambda one: wanted(one.type) and not one.retyped or (one.retyped and floating is not False))
    if known and context.chance(0.75):
        return context.random.choice(known)
    known = [one for one in constants(context) if wanted(one.type)]
    if known and context.chance(0.4):
        return context.random.choice(known)
    tensors = variables(context, limit, lambda one: one.type == TENSOR) if context.tensors and floating is not False and context.chance(0.2) else []
    if tensors:
        return around("std::fmod(", context.random.choice(tensors), ".sum().item<double>(), 997.0)", type=DOUBLE, low=-997, high=997)
    vectors = variables(context, limit, lambda one: one.type == VECTOR) if floating is not True and context.chance(0.2) else []
    if vectors:
        vector = context.random.choice(vectors)
        return around("", vector, f"[{context.random.choice([0, 1])}]", type=INTEGER, low=-BOUND, high=BOUND)
    configs = [one for one in config_reads(context, limit) if wanted(one.type)]
    if configs and context.chance(0.5):
        return context.random.choice(configs)
    return literal(context, DOUBLE if floating or (floating is None and context.chance(0.5)) else INT)


def config_reads(context, limit):
    """Fields of configs that are seen here, as parameters or as members."""
    config = context.chain.config
    if config is None:
        return []
    result = []
    for holder in context.locals() + context.known_fields():
        if holder.type != "Config" or (not holder.clean and limit == 0) or (node := reference(context, holder)) is None:
            continue
        for one in context.chain.fields(config, holder.values["family"]):
            if not one.spare and one.type in RANKS:
                result.append(around("", node, f".{one.name}", type=one.type, low=one.low, high=one.high))
    return result


def divisor(context, limit):
    """A number of at least 0.1 that is nowhere zero."""
    known = variables(context, limit, lambda one: one.type in RANKS and one.low >= 1)
    if known and context.chance(0.8):
        return context.random.choice(known)
    if context.chance(0.6):
        return literal(context, context.random.choice([INT, INT, DOUBLE]))
    return fit(number(context, limit, 2), 1, SMALL)


def condition(context, limit, depth=0):
    chance = context.random.random()
    if depth + context.nesting >= 3 or chance < 0.25:
        known = variables(context, limit, lambda one: one.type == BOOL)
        if known:
            return context.random.choice(known)
    if chance < 0.4 and depth + context.nesting < 3:
        called = call(context, limit, lambda type: type == BOOL)
        if called:
            return called
    if chance < 0.47 and depth + context.nesting < 2:
        operator, level = context.random.choice([("&&", CONJUNCTION), ("||", DISJUNCTION)])
        left, right = condition(context, limit, depth + 1), condition(context, limit, depth + 1)
        left = parenthesized(left, EQUALITY if level == DISJUNCTION else level)
        return Node("expression", left, f" {operator} ", parenthesized(right, EQUALITY), type=BOOL, low=0, high=1, level=level,
                    effects=max(left.effects, right.effects))
    if chance < 0.52 and depth + context.nesting < 2:
        inner = condition(context, limit, depth + 1)
        return Node("expression", "!", parenthesized(inner), type=BOOL, low=0, high=1, level=UNARY, effects=inner.effects)
    texts = variables(context, limit, lambda one: one.type == STRING) if chance < 0.65 else []
    if texts:
        return around("", context.random.choice(texts), f' == "{get_text(context)}"', type=BOOL, low=0, high=1, level=EQUALITY)
    left, right = (number(context, one, 2) for one in limits(context, limit, 2))
    return Node("expression", parenthesized(left, SUM), f" {context.random.choice(['<', '>', '<=', '>='])} ", parenthesized(right, SUM),
                type=BOOL, low=0, high=1, level=RELATION, effects=max(left.effects, right.effects))


def value(context, type, limit, low=-BOUND, high=BOUND, exact=False):
    """An expression that initializes a `type` without leaving the interval; of another type that converts, unless `exact`."""
    if type == STRING:
        return string(context, limit)
    if type == VECTOR:
        return vector(context, limit)
    if type == TENSOR:
        return tensor(context, limit)
    if type == BOOL:
        converted = context.chain.has("conversions") and context.chance(0.2)
        node = number(context, limit, 1) if converted and not exact else condition(context, limit)
        return cast(node, BOOL) if exact and node.type != BOOL else node
    floating = type in (FLOAT, DOUBLE)
    converted = context.chain.has("conversions") and context.chance(0.4)
    node = number(context, limit, 0 if context.chance(0.6) else 2, None if converted else floating)
    if node.type == BOOL and low > 0:
        node = literal(context, INT)
    node = fit(node, low, high)
    return cast(node, type) if exact and node.type != type else node


def get_text(context):
    return context.random.choice(TEXTS + FAMILY_TEXTS * context.chain.has("names of families in strings"))


def string(context, limit):
    known = variables(context, limit, lambda one: one.type == STRING)
    chance = context.random.random()
    if known and chance < 0.5:
        return context.random.choice(known)
    if chance < 0.65 and context.nesting < 2:
        called = call(context, limit, lambda type: type == STRING)
        if called:
            return called
    if chance < 0.8:
        shown = cast(number(context, limit, 2), INTEGER)
        return Node("expression", f'"{get_text(context)}" + std::to_string(', shown, ")", type=STRING, level=SUM,
                    effects=shown.effects)
    return Node("expression", f'std::string("{get_text(context)}")', type=STRING)


def vector(context, limit):
    known = variables(context, limit, lambda one: one.type == VECTOR)
    if known and context.chance(0.6):
        return context.random.choice(known)
    called = call(context, limit, lambda type: type == VECTOR) if context.chance(0.4) and context.nesting < 2 else None
    if called:
        return called
    parts, effects = [], 0
    for index in range(context.random.choice([2, 2, 3])):  # a braced list is evaluated in order
        part = value(context, INTEGER, limit, exact=True) if context.chance(0.4) else literal(context, INT)
        parts += [", " if index else "", part]
        effects = max(effects, part.effects)
    return Node("expression", "std::vector<int64_t>{", *parts, "}", type=VECTOR, effects=effects)


def tensor(context, limit):
    known = variables(context, limit, lambda one: one.type == TENSOR)
    if known and context.chance(0.5):
        node = context.random.choice(known)
        if context.chance(0.5):
            sides = limits(context, min(limit, 1), 1)
            other = parenthesized(cast(number(context, sides[0], 2), DOUBLE))
            operator, level = context.random.choice([("+", SUM), ("*", PRODUCT), ("-", SUM)])
            return Node("expression", node, f" {operator} ", other, type=TENSOR, level=level, effects=max(node.effects, other.effects))
        return node
    called = call(context, limit, lambda type: type == TENSOR) if context.chance(0.5) and context.nesting < 2 else None
    if called:
        return called
    filled = cast(number(context, limit, 2), DOUBLE)
    return Node("expression", "torch::full({3}, ", filled, ", torch::kDouble)", type=TENSOR, effects=filled.effects)


def call(context, limit, accepted):
    """A call of something whose result is `accepted`, or None."""
    found = callees(context, limit, lambda function: function.returns is not None and accepted(function.returns.type))
    if not found:
        return None
    return made_call(context, limit, *context.random.choice(found))


def callees(context, limit, accepted):
    """What may be called here: functions, each with how it is spelled and whether its arguments' types must be exact."""
    result = []
    chain, family, klass = context.chain, context.family, context.klass

    def add(function, spelled, exact=False, weight=1, defaults=None, own=False):
        affordable = context.spent[0] + function.cost * context.times <= MOST
        needed = 2 if function.effects else 1 if function.reads else 0
        usable = not function.spare and (context.tensors or not function.tensors)
        if accepted(function) and needed <= limit and affordable and usable and has_outputs(context, function):
            result.extend([(function, spelled, exact, defaults, own)] * weight)

    for name in [one.name for one in context.locals() if one.role == "lambda"]:
        add(context.local(name).values["function"], name, weight=2)
    for function in chain.functions:
        if function.rank < context.rank and (defined := chain.nearest(function.families, family)) is not None and not changed_between(chain, family, defined):
            name = function.named(chain, defined)
            plain = name if defined == family and not is_hidden(context, name) else f"{chain.file(defined)}::{name}"
            add(function, Either([plain], [f"{chain.file(function.families[0])}::{function.named(chain, function.families[0])}"]))
    if klass is None or klass is chain.config and not context.has_this:
        return result
    const = context.function is not None and context.function.const

    def add_method(method, exact, prefixes, weight, family, super_call):
        if method.rank >= context.rank and not (super_call and method is context.function):
            return
        if (not method.static and not context.has_this) or (const and not method.const and not method.static):
            return
        if context.methods is not None and not context.methods(method, super_call):
            return
        for prefix in prefixes:
            spelled = prefix + method.name
            if method.static:
                exactly = f"{prefix}{method.name}_own"  # the class's, whatever redefines it
                oracle = exactly if "::" in prefix else f"{chain.impl(klass, method.families[0])}::{method.name}"
                spelled = Either([spelled], [oracle])
            add(method, spelled, exact, weight, (family, super_call), own=True)

    for name, methods in chain.methods(klass, family).items():
        prefixes = [""] if context.local(name) is False else []
        if context.has_this and (context.chance(0.2) or not prefixes):
            prefixes.append("this->")
        for method in methods:
            own = [f"{chain.impl(klass, family)}::"] if method.static and context.chance(0.3) else []
            add_method(method, len(methods) > 1, prefixes + own, 1, family, False)
    base = chain.base(klass, family) if family in klass.declared else None
    while base is not None:
        for methods in chain.methods(klass, base).values():
            for method in methods:
                again = method is context.function or family in method.families
                add_method(method, len(methods) > 1, [f"{chain.impl(klass, base)}::"], 4 if again else 1, base, True)
        base = chain.base(klass, base) if context.chance(0.3) else None
    if context.has_this:
        for holder in chain.fields(klass, family):
            if holder.type != "holder" or (context.fields is not None and not context.fields(holder)):
                continue
            node = reference(context, holder)
            if node is None:
                continue
            for methods in chain.methods(holder.values["class"], holder.family).values():
                for method in methods:
                    if not const and not method.static and (limit > 0):
                        add(method, Node("fixed", node, f"->{method.name}"), len(methods) > 1, 1, (holder.family, False))
    return result


def made_call(context, limit, function, spelled, exact, defaults, own):
    chain = context.chain
    context.spent[0] += function.cost * context.times
    if own:
        context.called |= function.calls if defaults[1] else {function}
    context = dataclasses.replace(context, nesting=context.nesting + 1)
    parts, count = [], len(function.parameters)
    omitted = 0
    if defaults is not None and function.defaults and context.chance(0.5):
        omitted = context.random.randint(1, len(next(iter(function.defaults.values()))))
    sides = limits(context, limit, count - omitted)
    effects = 2 if function.effects else 1 if function.reads else 0
    for index, parameter in enumerate(function.parameters[: count - omitted]):
        node = argument(context, parameter, sides[index], exact, super_call=bool(own and defaults and defaults[1]))
        parts += [", " if index else "", node]
        effects = max(effects, node.effects)
    if omitted:
        parts.append(defaulted(chain, function, omitted, count, *defaults))
    returns = function.returns
    values = {} if returns is None else {"type": returns.type, "low": returns.low, "high": returns.high}
    return Node("expression" if returns else "fixed", spelled, "(", *parts, ")", effects=effects, **values)


def defaulted(chain, function, omitted, count, family, super_call):
    """Arguments that a call leaves out: written in the oracle where code that is inherited may get another default than in C++."""

    def written():
        parts = []
        for index in range(-omitted, 0):
            parts.append(", " if parts or omitted < count else "")
            if super_call:
                nearest = chain.nearest(function.defaults, family)
                parts.append(function.defaults[nearest][index])
            else:
                type = function.parameters[index].type
                parts.append(chain.by_level(lambda one: f"static_cast<{type}>({function.defaults[one][index]})", function.defaults))
        return "".join(parts)

    return Node("fixed", Either([], Lazy(written)))


def outputs(context, parameter):
    """Nodes of variables that may be bound to a reference parameter."""
    known = [one for one in context.locals() + context.known_fields()
             if one.type == parameter.type and not one.const and not one.retyped and one.low == parameter.low]
    return [node for one in known if (node := reference(context, one, assigned=True))]


def has_outputs(context, function):
    return all(outputs(context, one) for one in function.parameters if one.reference == "&")


def argument(context, parameter, limit, exact, super_call=False):
    """Of a super call it is more often what the base's body must not see as written: a variable, or what changes something."""
    if parameter.reference == "&":
        return context.random.choice(outputs(context, parameter))
    if limit > 1 and context.nesting < 2 and parameter.type in RANKS and context.chance(0.25 if super_call else 0.05):  # what changes something
        found = callees(context, limit, lambda one: one.effects and one.returns is not None and one.returns.type == parameter.type)
        if found:
            return fit(made_call(context, limit, *context.random.choice(found)), parameter.low, parameter.high)
    if context.chance(0.35):  # a variable of its name
        variable = context.local(parameter.name)
        if variable and variable.type == parameter.type and (variable.clean or limit) and variable.low >= parameter.low:
            return reference(context, variable)
    if super_call and context.chance(0.4):
        known = [one for one in context.locals() if one.role in ("local", "parameter") and not one.const and one.type == parameter.type
                 and one.low >= parameter.low and one.high <= parameter.high and (one.clean or limit)]
        if known:
            return reference(context, context.random.choice(known))
    return value(context, parameter.type, limit, parameter.low, parameter.high, exact)


def fresh_name(context, taken, preferred=(), names=NAMES):
    """A name that is not `taken`: most often one of those that are preferred, as they clash with what is seen here."""
    names = [one for one in names if one not in taken]
    clashing = [one for one in preferred if one not in taken]
    if clashing and context.chance(0.6):
        return context.random.choice(clashing)
    return context.random.choice(names) if names else None


def fresh_variable(context, name, type, role, **values):
    positive = type in (INTEGER, DOUBLE, INT, FLOAT) and context.chance(0.5)
    if type == BOOL:
        values.update(low=0, high=1)
    elif positive:
        values.update(low=1, high=SMALL)
    return Variable(name, type, role=role, **values)
