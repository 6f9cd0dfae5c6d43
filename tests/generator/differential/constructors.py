"""Random constructors: initializers in any order, calls of bases, bodies that read and change what bases have set."""

from expressions import Context, cast, condition, literal, value, variables
from model import BOOL, DOUBLE, FLOAT, INT, INTEGER, RANKS, STRING, TENSOR, VECTOR, Constructor, Variable
from statements import block, returned
from tree import Either, Lazy, Node


def constructor(writer):
    """The text of a class's constructor, or of the declaration that inherits the base's."""
    chain, random, klass, family, base = writer.chain, writer.random, writer.klass, writer.family, writer.base
    own = [one for one in klass.fields if one.family == family]
    if base is not None and all(one.how == "default" or one.role == "static" for one in own) and writer.chance(0.3):
        klass.constructors[family] = klass.constructors[base]
        return Node("fixed", f"using {chain.impl(klass, base)}::{chain.impl(klass, base)};\n", skip_text(writer))
    inherited = klass.constructors.get(base)
    is_plain = base is not None and not own and not klass.held and len(inherited.parameters) == len(inherited.defaults)
    if is_plain and chain.has("implicit constructors") and writer.chance(0.5):
        klass.constructors[family] = Constructor([])
        name = chain.impl(klass, family)
        return Node("fixed", Either([f"{name}() = default;\n"] if writer.chance(0.5) else [], [f"{name}() = default;\n"]), skip_text(writer))
    made = own_constructor(writer)
    klass.constructors[family] = made
    return Node("fixed", ConstructorWriter(writer, made, own).write(), skip_text(writer))


def skip_text(writer):
    """For the oracle: constructors that skip to an ancestor's."""
    chain, klass, family, base = writer.chain, writer.klass, writer.family, writer.base
    if base is None:
        return ""
    name, inherited = chain.impl(klass, family), chain.impl(klass, base)

    def text():
        if family not in klass.skips:
            return ""
        made = klass.constructors[family]
        default = f"{name}() = default;\n" if made is klass.constructors[base] and len(made.parameters) == len(made.defaults) else ""
        further = f"template <int n, class... A> {name}(oracle::Skip<n>, A&&... a) : {inherited}(oracle::Skip<n - 1>(), std::forward<A>(a)...) {{}}\n"
        return (f"template <class... A> {name}(oracle::Skip<1>, A&&... a) : {inherited}(std::forward<A>(a)...) {{}}\n"
                + (further if base in klass.skips else "") + default)

    return Either([], Lazy(text))


def own_constructor(writer):
    chain, random, klass, family, base = writer.chain, writer.random, writer.klass, writer.family, writer.base
    from classes import literal_text, new_parameters, parameter_names, renamed_parameters  # which need this module

    inherited = klass.constructors.get(base)
    names = parameter_names(chain, random, klass, family)
    if klass.held and inherited:
        return Constructor(renamed_parameters(chain, random, inherited.parameters, names), inherited.defaults)
    known_types = [DOUBLE] * 4 + [INTEGER] * 4 + [BOOL, STRING, VECTOR, VECTOR, INT] if chain.has("many types") else [DOUBLE, INTEGER]
    types = [random.choice(known_types) for _ in range(random.choice([0, 1, 2, 2, 3]))]
    parameters = new_parameters(random, types, names)
    own = [one for one in klass.fields if one.family == family]
    needed = any(one.type == "Config" or one.type == "holder" and is_made_of_config(one.values["class"].constructors[family]) for one in own)
    if needed or (inherited and is_made_of_config(inherited)) or (chain.config and writer.chance(0.5)):
        known = chain.nearest(chain.config.declared, family)
        config = Variable("config", "Config", const=True, role="parameter", values={"family": known})
        parameters = [one for one in parameters if one.name != "config"]
        parameters.insert(0, config)
    defaults = []
    if parameters and parameters[-1].type in (DOUBLE, INTEGER, BOOL) and writer.chance(0.25):
        defaults = [literal_text(random, parameters[-1])]
    return Constructor(parameters, defaults)


def is_made_of_config(constructor):
    return any(one.type == "Config" for one in constructor.parameters)


class ConstructorWriter:
    def __init__(self, writer, made, own):
        self.writer, self.made, self.own = writer, made, own
        self.chain, self.random, self.klass, self.family, self.base = (writer.chain, writer.random, writer.klass, writer.family, writer.base)
        self.frame = {one.name: one for one in made.parameters}
        self.skipped = []  # fields that a skipped constructor would have set
        self.chance = writer.chance

    def context(self, limit, fields=None, methods=None, has_this=True, **values):
        return Context(self.chain, self.random, self.family, self.klass, None, 1000, limit, [dict(self.frame)], has_this=has_this,
                       fields=fields, methods=methods, tensors=False, **values)

    def write(self):
        chain, random, klass, family, base = self.chain, self.random, self.klass, self.family, self.base
        listed = [one for one in self.own if one.how == "list" and one.role == "field"]
        random_order = list(listed)
        random.shuffle(random_order)
        early = []
        self.further = self.skip_target() if base is not None else None
        if base is not None:
            early = [one for one in random_order if one.type in (DOUBLE, INTEGER, BOOL) and chain.has("before the base") and self.chance(0.5)]
        for one in early:
            one.how = "early"
        before = {one: self.early_value(one) for one in early}
        entries = {one: self.initializer(one, before) for one in listed}
        parts = [entries[one] for one in early]
        if base is not None:
            call = self.base_call(before)
            if call is not None:
                parts.append(call)
        parts += [entries[one] for one in random_order if one not in early]
        body = self.body()
        name = chain.impl(klass, family)
        declared, in_spec = (self.writer.parameters_text(self.made.parameters, self.made.defaults, nearest) for nearest in (False, True))
        if not parts and not body and not self.made.parameters:
            return f"{name}() = default;\n"
        explicit = "explicit " if len(self.made.parameters) == 1 else ""
        head = [f"{explicit}{name}(", Either([in_spec], [declared]), ")"]
        for index, part in enumerate(parts):
            head += [", " if index else " : ", part]
        return Node("fixed", *head, " {\n", *body, "}\n")

    def config_parameter(self):
        return next(one.name for one in self.made.parameters if one.type == "Config")

    @staticmethod
    def no_methods(method, super_call):
        return False

    def early_value(self, field):
        context = self.context(0, fields=lambda one: False, methods=self.no_methods, has_this=False)
        return value(context, field.type, 0, field.low, field.high)

    def base_methods(self, method, super_call):
        """Whether an initializer may call a method: everything that it runs works on the base alone, which is complete."""
        if method.static:
            return True
        if self.base is None:
            return False
        reached = self.chain.closure(method.calls if super_call else {method})
        path = self.chain.path(self.base)
        return all(self.family not in one.families and one.family in path for one in reached)

    def initializer(self, field, before):
        chain, name = self.chain, field.name
        if field.type == "Config":
            return Node("fixed", f"{name}({self.config_parameter()})")
        if field.type == "holder":
            return Node("fixed", f"{name}(", self.registered_module(field), ")")
        if field in before:
            return Node("fixed", f"{name}(", before[field], ")")
        position = self.klass.fields.index(field)
        path = chain.path(self.base) if self.base is not None else []

        def known(one):
            earlier = one.family in path and one not in self.skipped or (one.family == self.family and one.how != "body" and self.klass.fields.index(one) < position)
            return earlier or one.role == "static"

        limit = 2 if self.base is not None and self.chance(0.4) else 1
        context = self.context(limit, known, self.base_methods if chain.has("calls in initializers") and not self.skipped else self.no_methods)
        if field.type == TENSOR:
            return Node("fixed", f"{name}(", self.registered(field, context), ")")
        made = None
        same = self.frame.get(name)
        if same is not None and same.type == field.type and same.low >= field.low and chain.has("parameters by name") and self.chance(0.8):
            made = Node("expression", name, type=same.type, low=same.low, high=same.high)
        if made is None:
            made = value(context, field.type, limit, field.low, field.high)
        self.freeze(context)

        return Node("fixed", f"{name}(", self.first_value(field, made), ")")

    def first_value(self, field, made):
        """The value that a field begins with: where a derived family gives it another one, the oracle begins with that."""
        chain = self.chain

        def oracle():
            texts = {one: f"static_cast<{field.type}>({given})" for one, given in field.values.items() if self.family in chain.path(one)[1:]}
            if not texts:
                return [made]
            before, _, after = chain.by_level(lambda one: texts.get(one, "\0"), [self.family, *texts]).partition("\0")
            return [before, f"static_cast<{field.type}>(", made, ")", after]

        return Either([made], Lazy(oracle)) if field.type in RANKS and not field.const else made

    def registered(self, field, context, again=False):
        get_value = cast(value(context.inside(limit=0), DOUBLE, 0), DOUBLE)
        filled = Node("fixed", "torch::full({3}, ", get_value, ", torch::kDouble)")
        spec = [f'register_parameter("{field.name}", ', filled, ")"]
        return Node("fixed", Either(spec, [f'oracle::registered_again(*this, "{field.name}", ', filled, ")"] if again else spec))

    def registered_module(self, field):
        chain, klass = self.chain, field.values["class"]
        holder = f"{chain.prefix(self.family)}{klass.stem}"
        arguments = self.arguments(klass.constructors[self.family], self.context(0, lambda one: False, self.no_methods, False))
        made = Either([f"{holder}("], [f"{holder}(make_{klass.stem}("])
        return Node("fixed", f'register_module("{field.name}", ', made, *arguments, Either([")"], ["))"]), ")")

    @staticmethod
    def simple_argument(context, parameter):
        """A name or a number: an argument that modgen takes however often the base's constructor uses it."""
        converted = context.chain.has("conversions") and parameter.type in RANKS
        wanted = [one for one in RANKS] if converted else [parameter.type]
        known = variables(context, 1, lambda one: one.type in wanted and parameter.low <= one.low and one.high <= parameter.high)
        known = [one for one in known if one.level == 0]
        if known and context.chance(0.7):
            return context.random.choice(known)
        if parameter.type not in RANKS:
            return None
        floating = parameter.type in (DOUBLE, FLOAT)
        if converted and context.chance(0.5) and parameter.type != BOOL:
            floating = not floating
        return literal(context, parameter.type if parameter.type == BOOL else DOUBLE if floating else INT, parameter.low, parameter.high)

    def arguments(self, constructor, context, limit=0, simple=False):
        """Arguments of a constructor."""
        count = len(constructor.parameters)
        if constructor.defaults and self.chance(0.5):
            count -= len(constructor.defaults)
        parts, effects_left = [], limit
        for index, parameter in enumerate(constructor.parameters[:count]):
            parts.append(", " if index else "")
            if parameter.type == "Config":
                parts.append(self.config_parameter())
                continue
            same = context.local(parameter.name)
            if same and same.type == parameter.type and same.low >= parameter.low and self.chance(0.5):
                parts.append(parameter.name)
                continue
            made = self.simple_argument(context, parameter) if simple else None
            made = made or value(context, parameter.type, effects_left, parameter.low, parameter.high)
            effects_left = 0 if made.effects > 1 else effects_left
            parts.append(made)
        return parts

    def base_call(self, before):
        chain, klass, base = self.chain, self.klass, self.base
        constructor = klass.constructors[base]
        known = list(before)
        limit = 1
        context = self.context(limit, lambda one: one in known or one.role == "static" and one.const,
                               lambda method, super_call: method.static and not method.effects,
                               has_this=False, before_base=before)
        name = chain.impl(klass, base)
        simple = not chain.has("computed base arguments")
        further = self.further
        if further is not None:
            target = chain.impl(klass, further)
            arguments = self.arguments(klass.constructors[further], context, limit, simple)
            steps = chain.path(base).index(further)
            # As many constructors as there are classes in between.
            between = [one for one in chain.path(base)[:steps] if klass.declared.get(one) == "class"]
            klass.skips.update(between)
            comma = ", " if arguments else ""
            return Node("fixed", Either([f"{name}(skip_to<{name}, {target}>("], [f"{name}(oracle::Skip<{len(between)}>(){comma}"]), *arguments,
                        Either(["))"], [")"]))
        arguments = self.arguments(constructor, context, limit, simple)
        if not arguments and self.chance(0.3):
            return None
        return Node("fixed", f"{name}(", *arguments, ")")

    def skip_target(self):
        """An ancestor beyond the base, to whose constructor this one skips."""
        chain, klass = self.chain, self.klass
        if klass.held or not chain.has("skipped constructors") or klass.immovable.intersection(chain.path(self.base)):
            return None
        further = chain.base(klass, self.base)
        if further is None:
            return None
        between = [one for one in klass.fields if one.family == self.base]
        if any(one.const and one.role == "field" and not one.retyped or one.type in ("Config", "holder") for one in between):
            return None
        if is_made_of_config(klass.constructors[further]) and not is_made_of_config(self.made):
            return None
        self.skipped = [one for one in between if one.how != "default" and one.role == "field"]
        return further

    def body(self):
        chain, family = self.chain, self.family
        context = self.context(2)
        parts = []
        late = [one for one in self.own if one.how == "body" and one.role == "field"] + self.skipped
        unset = list(late)
        for field in late:
            first = self.context(1, lambda one: one not in unset, lambda method, super_call: method.static and not method.effects)
            if field.type == TENSOR:
                set_to = self.registered(field, first)
            else:
                set_to = value(first, field.type, 1, field.low, field.high)
                if field in self.skipped:
                    set_to = self.first_value(field, set_to)
            self.freeze(first)
            target = field.name if first.local(field.name) is False else f"this->{field.name}"
            parts.append(Node("fixed", f"{target} = ", set_to, ";\n"))
            unset.remove(field)
        if self.base is not None:
            parts += self.registrations(context)
        if chain.has("constructor bodies"):
            if not chain.has("methods in constructors"):
                context.methods = self.no_methods
            returns = None if chain.has("early returns in constructors") else False
            parts += block(context, self.random.choice([0, 1, 2, 3, 4]), returns)
            if returns is None and self.chance(0.6):
                parts += [Node("optional", "if (", condition(context, 1), ") ", returned(context, None), "\n"), *block(context, 2, None)]
            self.freeze(context)
        return parts

    def registrations(self, context):
        """Tensors of the base that are registered again: in their place, or at the end after `remove`."""
        parts = []
        path = self.chain.path(self.base)
        fields = [one for one in self.chain.fields(self.klass, self.base) if one.registered and one not in self.skipped]
        if self.skipped:
            return parts
        for field in fields:
            target = field.name if context.local(field.name) is False else f"this->{field.name}"
            constant = self.context(0, lambda one: False, self.no_methods, has_this=False)
            constant.frames = [{name: None for name in self.frame}]  # which hide what the namespace has
            if self.chance(0.15):
                parts.append(Node("fixed", f"{target} = ", self.registered(field, constant, again=True), ";\n"))
            elif self.chance(0.15):
                removed = Either([f"remove({target});\n"], [f'oracle::forget(*this, "{field.name}");\n'])
                parts.append(Node("fixed", removed, f"{target} = ", self.registered(field, constant), ";\n"))
        return parts

    def freeze(self, context):
        for method in self.chain.closure(context.called):
            method.frozen.add(self.family)
