"""Random statements without undefined behaviour: every variable has a value before it is read, every loop ends."""

from expressions import (argument, around, call, callees, cast, condition, fit, fresh_name, fresh_variable, limits, literal, made_call,
                         number, parenthesized, reference, value, variables)
from model import BOOL, BOUND, DOUBLE, INT, INTEGER, RANKS, STRING, TENSOR, VECTOR, Function, Variable
from tree import PRODUCT, SUM, Either, Node

LOCAL_TYPES = [DOUBLE] * 6 + [INTEGER] * 5 + [BOOL, STRING, VECTOR, VECTOR, INT, "float"]


def statement(*parts):
    return Node("optional", *parts, "\n")


def block(context, count, returns):
    """Statements, in scope of their own where `context` is one's."""
    parts = []
    for _ in range(count):
        made = any_statement(context, returns)
        if made is not None:
            parts.append(made)
    return parts


def any_statement(context, returns):
    chance = context.random.random()
    effects, has = context.limit > 1, context.chain.has
    if chance < 0.3:
        return declaration(context)
    if chance < 0.5:
        return assignment(context)
    if chance < 0.62:
        return call_statement(context) if effects else declaration(context)
    if chance < 0.75 and context.depth < 2 and has("branches"):
        return branch(context, returns)
    if chance < 0.83 and context.depth < 2 and has("loops"):
        return loop(context)
    if chance < 0.9 and context.depth < 2 and has("lambdas"):
        return lambda_declaration(context)
    if chance < 0.94 and context.depth < 2 and has("branches"):
        return Node("block", "{\n", *block(context.inside(depth=context.depth + 1), 2, returns), "}\n")
    if chance < 0.97 and effects and context.function is not None and has("counters"):
        return counter(context)
    return assignment(context) if chance < 0.92 else declaration(context)


def new_name(context):
    """A name for a local: one that has another meaning around it, more often than not."""
    return fresh_name(context, set(context.frames[-1]), members(context, "locals"), context.chain.names("locals"))


def members(context, kind):
    """Names of members, for locals or parameters that clash with them."""
    if context.klass is None or not context.chain.has(f"clashing {kind}"):
        return []
    return sorted(context.chain.all_names(context.klass, context.family))


def declaration(context):
    name = new_name(context)
    if name is None:
        return None
    frame = context.frames[-1]
    chance = context.random.random()
    if chance < 0.3 and context.limit > 0 and context.chain.has("references"):
        made = reference_declaration(context, name)
        if made is not None:
            return made
    types = LOCAL_TYPES if context.chain.has("many types") else [DOUBLE, INTEGER]
    type = context.random.choice(types + [TENSOR] * (2 if context.tensors else 0))
    const = context.chance(0.5)
    variable = fresh_variable(context, name, type, "local", const=const)
    frame[name] = None  # the name means the variable already
    auto = type in (INTEGER, DOUBLE, BOOL) and context.chance(0.2)
    made = value(context, type, context.limit, variable.low, variable.high, exact=auto)
    frame[name] = variable
    spelled = ("const " if const else "") + ("auto" if auto else type)
    if type in (DOUBLE, INTEGER) and not auto and context.chance(0.15):
        made = cast(made, type) if made.type != type else made
        before, after = context.random.choice([("(", ")"), ("{", "}")])
        return statement(f"{spelled} {name}{before}", made, f"{after};")
    return statement(f"{spelled} {name} = ", made, ";")


def reference_declaration(context, name):
    """`const double& scale = this->gain;`: what changes the field changes the local."""
    context.frames[-1][name] = None
    known = [one for one in context.locals() + context.known_fields()
             if one.type in (DOUBLE, INTEGER, VECTOR) and not one.retyped and one.role in ("local", "field", "parameter")]
    nodes = [(one, node) for one in known if (node := reference(context, one, assigned=True)) and (one.clean or context.limit > 0)]
    if not nodes:
        del context.frames[-1][name]
        return None
    target, node = context.random.choice(nodes)
    const = target.const or context.limit < 2 or context.chance(0.6)
    if target.role != "field" and not const:
        target.clean = False
    context.frames[-1][name] = Variable(name, target.type, target.low, target.high, const=const, clean=False)
    if target.role != "field" and not target.const:
        target.clean = False
    return statement(f"{'const ' if const else ''}{context.random.choice([target.type, 'auto'])}& {name} = ", node, ";")


def assignable(context):
    """Variables that code here may change, with how it names them."""
    known = [one for one in context.locals() if one.role in ("local", "parameter")]
    if context.limit > 1:
        known += context.known_fields()
    else:
        known = [one for one in known if one.clean]
    known = [one for one in known if not one.const and one.type in (*RANKS, STRING, VECTOR) and not one.retyped]
    return [(one, node) for one in known if (node := reference(context, one, assigned=True))]


def assignment(context):
    known = assignable(context)
    if not known:
        return declaration(context)
    fields = [one for one in known if one[0].role == "field"]
    target, node = context.random.choice(fields if fields and context.chance(0.7) else known)
    if target.type == "Config":
        return None
    if target.type == VECTOR:
        chance = context.random.random()
        if chance < 0.6:
            element = value(context, INTEGER, context.limit)
            return statement(node, f"[{context.random.choice([0, 1])}] = ", element, ";")
        if chance < 0.8 and context.times == 1:
            return statement(node, ".push_back(", value(context, INTEGER, min(context.limit, 1)), ");")
    if target.type in (INTEGER, DOUBLE) and target.low < 0 and context.chance(0.35):
        again = reference(context, target, assigned=True)
        other = number(context, min(context.limit, 1), 2, floating=None if target.type == DOUBLE else False)
        operator = context.random.choice(["+", "*", "-"])
        grown = fit(Node("expression", again, f" {operator} ", parenthesized(other, PRODUCT if operator == "+" else 0),
                         type=target.type if target.type == DOUBLE else INTEGER, low=-1e13, high=1e13, level=SUM), -BOUND, BOUND)
        return statement(node, " = ", grown, ";")
    return statement(node, " = ", value(context, target.type, context.limit, target.low, target.high), ";")


def kept(context):
    """A local or parameter that is put into a field, where what else has changed it is seen."""
    numbers = [one for one in context.locals() if one.role in ("local", "parameter") and one.type in (DOUBLE, INTEGER)]
    fields = [pair for pair in assignable(context) if pair[0].role == "field" and pair[0].type in (DOUBLE, INTEGER)]
    made = reference(context, context.random.choice(numbers)) if numbers and fields else None
    if made is None:
        return None
    target, node = context.random.choice(fields)
    return statement(node, " = ", fit(made if made.type == target.type else cast(made, target.type), target.low, target.high), ";")


def config_assignment(context):
    """`config_.size = …`, of a config that the class keeps."""
    holders = [one for one in context.known_fields() if one.type == "Config"]
    nodes = [(one, node) for one in holders if (node := reference(context, one))]
    if not nodes:
        return None
    holder, node = context.random.choice(nodes)
    fields = [one for one in context.chain.fields(context.chain.config, holder.values["family"]) if not one.spare]
    if not fields:
        return None
    field = context.random.choice(fields)
    return statement(node, f".{field.name} = ", value(context, field.type, context.limit, field.low, field.high), ";")


def call_statement(context):
    if context.chance(0.12):
        made = config_assignment(context)
        if made is not None:
            return made
    found = callees(context, context.limit, lambda one: one.effects)
    if not found:
        return assignment(context)
    return statement(made_call(context, context.limit, *context.random.choice(found)), ";")


def branch(context, returns):
    asked = condition(context, context.limit)
    inner = context.inside(depth=context.depth + 1)
    if returns is not False and context.chance(0.35):
        return statement("if (", asked, ") ", returned(inner, returns))
    then = block(inner, context.random.choice([1, 1, 2]), returns)
    if not then:
        return None
    parts = ["if (", asked, ") {\n", *then, "}"]
    if context.chance(0.4):
        parts += [" else {\n", *block(context.inside(depth=context.depth + 1), 1, returns), "}"]
    return Node("block", *parts, "\n")


def loop(context):
    name = new_name(context)
    if name is None:
        return None
    inner = context.inside(depth=context.depth + 1, times=context.times * 3)
    # A loop over a vector leaves it as it is.
    vectors = variables(context, 1, lambda one: one.type == VECTOR and (one.const or one.role == "field")) if context.limit == 1 else []
    if vectors and context.chance(0.5):
        variable = Variable(name, INTEGER, const=True)
        inner.frames[-1][name] = variable
        head = [f"for (const int64_t {name} : ", context.random.choice(vectors), ") {\n"]
    else:
        variable = Variable(name, INTEGER, 0, 3, const=True)
        inner.frames[-1][name] = variable
        head = [f"for (int64_t {name} = 0; {name} < {context.random.choice([2, 3])}; ++{name}) {{\n"]
    body = []
    if context.chance(0.2):
        body.append(statement("if (", condition(inner, min(1, context.limit)), f") {context.random.choice(['continue', 'break'])};"))
    body += block(inner, context.random.choice([1, 2]), False)
    return Node("optional", *head, *body, "}\n")


def counter(context):
    """A local that lasts: one for all who call the function."""
    name = new_name(context)
    if name is None or context.times > 1:
        return None
    first = context.random.randint(1, 5)
    changes = context.chance(0.05)  # proofs reject one that does
    context.frames[-1][name] = Variable(name, INTEGER, const=not changes, clean=False)
    if not changes:
        return statement(f"static const int64_t {name} = {first};")
    return statement(f"static int64_t {name} = {first};\n{name} = ({name} + 1) % 97;")


def lambda_declaration(context):
    name = new_name(context)
    if name is None:
        return None
    context.frames[-1][name] = None
    capture = context.random.choice(["&", "&", "this", "=, this"]) if context.has_this else "&"
    effects = context.limit > 1 and capture == "&" and context.chance(0.4)
    frames = context.frames
    if capture == "this":
        frames = [{one: None for one in frame} for frame in frames]
    elif capture == "=, this":
        copies = {}
        frames = [{one: copies.setdefault(one, constant_copy(variable)) if context.local(one) is variable else None
                   for one, variable in frame.items()} for frame in frames]
    parameters, frame = [], {}
    for _ in range(context.random.choice([0, 1, 1, 2])):
        one = fresh_name(context, set(frame), members(context, "parameters"), context.chain.names("parameters"))
        parameter = fresh_variable(context, one, context.random.choice([DOUBLE, INTEGER]), "parameter")
        parameters.append(parameter)
        frame[one] = parameter
    inner = context.inside(frames=frames + [frame], depth=context.depth + 1, limit=2 if effects else min(1, context.limit),
                           times=context.times * 3)
    returns = Variable("", context.random.choice([DOUBLE, INTEGER]))
    body = []
    if effects:
        body = block(inner, 1, False)
    body.append(Node("fixed", "return ", value(inner, returns.type, inner.limit, exact=True), ";\n"))
    function = Function(name, parameters, returns, 0, effects=effects, reads=True)
    if effects:  # it may change what it captures
        for one in context.locals():
            if one.role in ("local", "parameter"):
                one.clean = False
    context.frames[-1][name] = Variable(name, "lambda", role="lambda", values={"function": function}, const=True)
    head = ", ".join(f"{one.type} {one.name}" for one in parameters)
    return statement(f"const auto {name} = [{capture}]({head}) {{\n", *body, "};")


def constant_copy(variable):
    if variable is None or variable.role == "lambda":
        return None
    return Variable(variable.name, variable.type, variable.low, variable.high, True, True, variable.role, variable.family,
                    values=variable.values)


def returned(context, returns):
    if returns is None:
        return Node("fixed", "return;")
    return Node("fixed", "return ", value(context, returns.type, context.limit, returns.low, returns.high), ";")


def body(context, count, returns):
    """The statements of a function that returns a `returns`, or nothing."""
    parts = block(context, count, returns)
    if returns is not None:
        parts.append(Node("fixed", returned(context, returns), "\n"))
    return parts
