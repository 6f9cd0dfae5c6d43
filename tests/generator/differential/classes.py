"""Random classes: what a family's class declares, and the text of that."""

from constructors import constructor
from expressions import Context, call, callees, cast, fit, fresh_name, fresh_variable, literal, made_call, parenthesized, value
from model import (BOOL, BOUND, DOUBLE, FLOAT, INT, INTEGER, NAMES, RANKS, SMALL, STRING, TENSOR, VECTOR, Class, Function, Variable)
from statements import block, body, kept, new_name
from tree import PRODUCT, SUM, Either, Lazy, Node

RETURNS = [DOUBLE] * 9 + [INTEGER] * 6 + [BOOL, BOOL, STRING, VECTOR, TENSOR, FLOAT, None, None, None]
PARAMETERS = [DOUBLE] * 8 + [INTEGER] * 6 + [BOOL, INT, STRING, VECTOR, VECTOR, FLOAT]
FIELDS = [DOUBLE] * 6 + [INTEGER] * 6 + [BOOL, STRING, VECTOR, TENSOR]


def literal_text(random, variable):
    """A literal that a variable can hold."""
    if variable.type == BOOL:
        return random.choice(["true", "false"])
    if variable.type == STRING:
        return f'"{random.choice(["soft", "hard", "layer"])}"'
    if variable.type == VECTOR:
        return f"{{{random.randint(1, 9)}, {random.randint(1, 9)}}}"
    if variable.type in (DOUBLE, FLOAT):
        return repr(random.choice([1.5, 2.5, 3.0, 4.75, 1.1, 6.3]))
    return str(random.randint(1, 9))


def parameter_names(chain, random, klass, family):
    """Names for parameters: of members, or of anything, or of nothing else."""
    members = sorted(chain.all_names(klass, family)) if klass else []
    return members if members and chain.has("clashing parameters") and random.random() < 0.6 else chain.names("parameters")


def new_parameters(random, types, names):
    parameters = []
    for type in types:
        free = [one for one in names if one not in [other.name for other in parameters]]
        parameter = Variable(random.choice(free or [f"value_{len(parameters)}"]), type, role="parameter")
        if type == BOOL:
            parameter.low, parameter.high = 0, 1
        elif type in RANKS and random.random() < 0.4:
            parameter.low, parameter.high = 1, SMALL
        by_reference = random.random() < (0.2 if type in RANKS else 0.6)
        if by_reference:
            parameter.reference, parameter.const, parameter.clean = "const &", True, False
        elif random.random() < 0.2:
            parameter.const = True
        parameters.append(parameter)
    return parameters


def renamed_parameters(chain, random, parameters, names):
    """The parameters as another definition calls them."""
    result = []
    for parameter in parameters:
        name = parameter.name
        if chain.has("other parameter names") and random.random() < 0.5:
            name = random.choice(names)
        if name in [one.name for one in result]:
            name = next(one for one in NAMES if one not in [other.name for other in result + parameters])
        const = parameter.const if parameter.reference else random.random() < 0.2
        result.append(Variable(name, parameter.type, parameter.low, parameter.high, const, parameter.clean and not parameter.reference,
                               "parameter", reference=parameter.reference, values=parameter.values))
    return result


class ClassWriter:
    """Writes a family's class."""

    def __init__(self, chain, random, klass, family):
        self.chain, self.random, self.klass, self.family = chain, random, klass, family
        self.base = chain.base(klass, family) if family else None
        self.behind, self.members = [], []  # what stands behind the class; its members

    def chance(self, probability):
        return self.random.random() < probability

    # ---- What it declares ----

    def new_method(self, rank, name, types, **values):
        random = self.random
        types_returned = RETURNS if self.chain.has("many types") else [DOUBLE, DOUBLE, DOUBLE, INTEGER, INTEGER, TENSOR, None]
        returns = random.choice([one for one in types_returned if one != TENSOR or values.get("tensors")])
        effects = returns is None or random.random() < 0.4
        static = self.chain.has("static methods") and random.random() < 0.3
        parameters = new_parameters(random, types, parameter_names(self.chain, random, self.klass, self.family))
        if effects and not static and self.chain.has("outputs") and self.chance(0.4):
            output = Variable(next(one for one in NAMES if one not in [other.name for other in parameters]), random.choice([DOUBLE, INTEGER]),
                              role="parameter", clean=False, reference="&")
            parameters.insert(0, output)
        result = None
        if returns is not None:
            result = Variable("", returns)
            if returns == BOOL:
                result.low, result.high = 0, 1
            elif returns in RANKS and self.chance(0.25):
                result.low, result.high = 1, SMALL
        method = Function(name, parameters, result, rank, effects=effects, reads=True, static=static,
                          const=not effects and not static and self.chance(0.4), family=self.family, families=[self.family], **values)
        last = parameters[-1] if parameters else None
        if last and not static and self.chain.has("defaults") and self.chance(0.5) and last.reference != "&" and last.type in (DOUBLE, INTEGER, BOOL):
            method.defaults = {self.family: [literal_text(random, last)]}
        return method

    def add_methods(self, count, overload=0.2):
        chain, klass = self.chain, self.klass
        for _ in range(count):
            random = self.random
            types = [random.choice(PARAMETERS if chain.has("many types") else [DOUBLE, INTEGER]) for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3]))]
            tensors = chain.has("tensors") and self.chance(0.4)
            if tensors and self.chance(0.6):
                types.insert(0, TENSOR)
            known = [one for one in klass.methods if one.family in chain.path(self.family) and not one.static and not one.spare]
            rank = 10 + len(klass.methods)
            if known and chain.has("overloads") and self.chance(overload):
                other = random.choice(known)
                again = new_overload(random, other, rank, self.family)
                visible = chain.methods(klass, self.family).get(other.name, [])
                same = [one for one in klass.methods if one.name == other.name]
                if again and other in visible and not other.defaults and all(one.signature[1] != again.signature[1] for one in same):
                    klass.methods.append(again)
                continue
            name = self.member_name()
            if name:
                spare = chain.has("removed") and self.chance(0.15)
                klass.methods.append(self.new_method(rank, name, types, tensors=tensors, spare=spare))

    def member_name(self):
        """A name for a new member: one that a function or constant has, where these clash."""
        chain = self.chain
        others = [one.name for one in chain.functions if chain.has("clashing functions")]
        others += [one.name for one in chain.constants if chain.has("clashing constants")]
        return fresh_name(Context(chain, self.random, self.family), self.taken(), others)

    def taken(self):
        return self.chain.all_names(self.klass, self.family)

    def add_fields(self, count, types=FIELDS):
        chain, random = self.chain, self.random
        for _ in range(count):
            name = self.member_name()
            if name is None:
                return
            type = random.choice([one for one in types if one != TENSOR or chain.has("tensors")])
            field = fresh_variable(Context(chain, random, self.family), name, type, "field", clean=False, family=self.family)
            field.how = random.choice(["default", "list", "list", "body"])
            chance = random.random()
            if self.klass is chain.config:
                field.how = "default"
            elif field.type == TENSOR:
                # What initializers register comes first, as the language says, whatever bodies of bases have registered.
                late = any(one.registered and one.how == "body" for one in chain.fields(self.klass, self.family))
                field.registered, field.how, field.const = True, "body" if late else random.choice(["list", "body"]), True
            elif chance < 0.15 and field.type in (DOUBLE, INTEGER) and chain.has("static fields"):
                field.role, field.const, field.clean = "static", True, True
                field.values = {self.family: literal_text(random, field)}
            elif chance < 0.25 and field.type == INTEGER and chain.has("static fields"):
                field.role, field.low, field.high = "static", -BOUND, BOUND
            elif chance < 0.35 and field.type == DOUBLE and chain.has("fields again"):
                field.retyped, field.how, field.const = True, "default", True
                field.values = {self.family: str(random.randint(1, 9))}
            elif chance < 0.38 and field.how == "list" and field.type in (DOUBLE, INTEGER) and chain.has("constant fields"):
                field.const = True
            elif chance < 0.5 and field.how == "default" and chain.has("removed"):
                field.spare = True
            if field.how == "default" and not field.values:
                field.values = {self.family: literal_text(random, field)}
            self.klass.fields.append(field)

    # ---- The text ----

    def field_text(self, field):
        """A field's declaration, and what the oracle has in its place: a default that depends on the family under test."""
        chain, first = self.chain, field.family == self.family
        if field.role == "static" and not field.const:
            return [f"static inline int64_t {field.name} = 3;"]
        const = "static constexpr " if field.role == "static" else "const " if field.const and not field.registered and not field.retyped else ""
        spelled = field.type
        if field.type == "Config":
            spelled = self.config_name(field.values["family"])
        elif field.type == "holder":
            spelled = f"{chain.prefix(field.family)}{field.values['class'].stem}"
        if field.how != "default" and field.role != "static":
            if first:
                return [f"{const}{spelled} {field.name};"]
            return [Either([f"{spelled} {field.name} = {field.values[self.family]};"], [])]
        own = field.values[self.family]
        if field.retyped and first:
            spec = f"int64_t {field.name} = {own};"
        else:
            spec = f"{const}{spelled} {field.name} = {own};"
        if not first:
            return [Either([spec], [])]
        if field.role == "static" or len(own) > 1 and own[0] == "{":
            return [spec]

        def oracle():
            return chain.by_level(lambda one: f"static_cast<{field.type}>({field.values[one]})", field.values)

        return [Either([spec], [f"{const}{spelled} {field.name} = ", Lazy(oracle), ";"])]

    def config_name(self, family):
        plain = f"{self.chain.prefix(family)}Config"
        return plain if family == self.family else f"{self.chain.file(family)}::{plain}"

    def parameter_text(self, parameter, nearest=False):
        """`nearest`: with the config that the family has, also where code of a base, which has that base's, makes such an object."""
        if parameter.type == "Config":
            family = self.chain.nearest(self.chain.config.declared, self.family) if nearest else parameter.values["family"]
            return f"const {self.config_name(family)}& {parameter.name}"
        const = "const " if parameter.const and not parameter.reference else ""
        return f"{const}{parameter.declared} {parameter.name}"

    def parameters_text(self, parameters, defaults=(), nearest=False):
        texts = [self.parameter_text(one, nearest) for one in parameters]
        for index, default in enumerate(defaults):
            texts[len(texts) - len(defaults) + index] += f" = {default}"
        return ", ".join(texts)

    def method_context(self, method, parameters):
        frame = {one.name: one for one in parameters}
        return Context(self.chain, self.random, self.family, self.klass, method, method.rank, 2 if method.effects else 1, [frame],
                       has_this=not method.static, tensors=method.tensors)

    def method_text(self, method):
        """One definition of a method."""
        random, chain, family = self.random, self.chain, self.family
        first = method.family == family
        parameters = method.parameters
        if not first:
            parameters = renamed_parameters(chain, random, parameters, parameter_names(chain, random, self.klass, family))
            if method.defaults:
                method.defaults[family] = [literal_text(random, parameters[-1])]
        context = self.method_context(method, parameters)
        again = not first and self.chance(0.75)
        statements = block(context, random.choice([0, 0, 1, 1, 2, 3]), method.returns)
        if again:
            statements += self.super_call(context, method)
        elif method.returns is None:
            statements += block(context, 1, None)
        if method.returns is not None and not again:
            statements += body(context, 0, method.returns)
        method.calls |= context.called - {method}
        method.cost = max(method.cost, context.spent[0])
        group = f"{self.klass.stem} {method.name} {method.rank} {family}"
        result = method.returns.type if method.returns else "void"
        end = " const" if method.const else ""
        override = " override" if method.virtual and not first and chain.has("override") and self.chance(0.5) else ""
        head = "static " if method.static else Either(["virtual "] if method.virtual and first else [], ["virtual "])
        name = Either([method.name], [f"{method.name}_own"]) if method.static else method.name
        declared = self.parameters_text(parameters, method.defaults.get(family, ()))
        behind = not method.static and not override and chain.has("defined behind") and self.chance(0.3)
        if behind:
            impl = chain.impl(self.klass, family)
            self.behind.append(Node("optional", f"inline {result} {impl}::{method.name}({self.parameters_text(parameters)}){end} {{\n",
                                    *statements, "}\n", group=group))
            return Node("optional", head, f"{result} {name}({declared}){end};\n", group=group)
        parts = [head, f"{result} ", name, f"({declared}){end}{override} {{\n", *statements, "}\n"]
        if method.static and first:
            parts.insert(0, Either([], [f"static {result} {method.name}({declared});\n"]))
        return Node("optional", *parts, group=group)

    def super_call(self, context, method):
        """The last statements of a method that calls the one that it redefines."""
        found = [one for one in callees(context, context.limit, lambda other: other is method) if one[4] and one[3][1]]
        if not found:
            return body(context, 1, method.returns)
        returns = method.returns
        name = new_name(context)
        if name and returns and self.chance(0.3):
            context.frames[-1][name] = None
            spelled = self.random.choice([f"const {returns.type}", "const auto", returns.type])
            called = made_call(context, context.limit, *self.random.choice(found))
            context.frames[-1][name] = Variable(name, returns.type, returns.low, returns.high, const=True)
            return [Node("optional", f"{spelled} {name} = ", called, ";\n"), *body(context, self.random.choice([0, 1]), returns)]
        called = made_call(context, context.limit, *self.random.choice(found))
        if returns is None:
            seen = kept(context) if self.chance(0.5) else None
            return [Node("optional", called, ";\n"), *([seen] if seen else []), *block(context, self.random.choice([0, 1, 2]), None)]
        chance = self.random.random()
        if returns.type not in RANKS or returns.type == BOOL or chance < 0.4:
            return [Node("fixed", "return ", called, ";\n")]
        operator, level, other = self.random.choice([(" * ", PRODUCT, literal(context, INT)), (" + ", SUM, literal(context, DOUBLE)),
                                                     (" / ", PRODUCT, literal(context, INT)), (" - ", SUM, literal(context, INT))])
        type = DOUBLE if DOUBLE in (other.type, called.type) else called.type
        result = Node("expression", called, operator, other, type=type, low=-1e6, high=1e6, level=level, effects=called.effects)
        return [Node("fixed", "return ", fit(result, returns.low, returns.high), ";\n")]

    def write(self, spelled_base, is_final=False, library_base=""):
        """The whole class: members in any order, fields last."""
        chain, klass, family, random = self.chain, self.klass, self.family, self.random
        is_config = klass is chain.config
        members = [self.method_text(one) for one in klass.methods if family in one.families and family not in one.removed]
        if not is_config:
            members.append(constructor(self))
        random.shuffle(members)
        for name in sorted(klass.using.get(family, ())):
            members.insert(0, Node("optional", f"using {chain.impl(klass, self.base)}::{name};\n"))
        for field in klass.fields:
            if field.family == family or family in field.values and field.role in ("field", "static") and field.type in (*RANKS, STRING):
                members.append(Node("optional", *self.field_text(field), "\n", group=f"{klass.stem} field {field.name} {family}"))
        removed = []
        for method in klass.methods:
            if family in method.removed:
                result = method.returns.type if method.returns else "void"
                declared = self.parameters_text(method.parameters)
                end = " const" if method.const else ""
                members.append(Node("optional", Either([f"{result} {method.name}({declared}){end} = delete;\n"], [])))
        for field in klass.fields:
            if family in field.removed:
                removed.append(Node("optional", f"using {chain.impl(klass, self.base)}::{field.name};\n"))
        name = chain.impl(klass, family)
        head = f"struct {name}" if is_config else f"class {name}"
        parts = [f"{head}{' final' if is_final else ''} : ", spelled_base, f"{library_base} {{\n", "" if is_config else "public:\n", *members]
        if removed:
            parts += ["private:\n", *removed]
        parts.append("};\n")
        if not is_config:
            self.behind.append(f"TORCH_MODULE({chain.prefix(family)}{klass.stem});\n")
        return Node("fixed", *parts, *self.behind)


def new_overload(random, other, rank, family):
    """Another method of the name, for other types."""
    swapped = {DOUBLE: INTEGER, INTEGER: DOUBLE, BOOL: INTEGER, FLOAT: DOUBLE, INT: DOUBLE}
    parameters = []
    for one in other.parameters:
        if one.reference == "&" or one.type not in swapped:
            return None
        low, high = (one.low, one.high) if one.type != BOOL else (-BOUND, BOUND)
        parameters.append(Variable(one.name, swapped[one.type], low, high, one.const, one.clean, "parameter", reference=one.reference))
    if not parameters:
        parameters.append(Variable("width", random.choice([DOUBLE, INTEGER]), role="parameter"))
    # What a call picks must not matter to what the caller may do: the same rank, effects and result.
    return Function(other.name, parameters, other.returns, other.rank, effects=other.effects, reads=True, const=other.const, family=family,
                    families=[family], tensors=other.tensors, virtual=other.virtual)
