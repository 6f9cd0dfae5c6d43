"""Random chains of families: what a seed and a number give, as trees of text.

Left out, as C++ cannot be made to mean the same: fields that are declared again with another type and then assigned, redefined methods
that constructors of bases call, default member initializers that read what the base's body sets, strings that name the family.
"""

import random

from classes import ClassWriter, literal_text, new_parameters
from drivers import driver
from expressions import Context, fresh_name
from model import (BOOL, DOUBLE, FAMILIES, FEATURES, INTEGER, NAMES, SMALL_CLASSES, STRING, VECTOR, Chain, Class, Function, Variable)
from orders import THEMES, OrderedClass
from records import KINDS, Record
from statements import body
from tree import Either, Lazy, Node, resolved


INCLUDES = "".join(f"#include <{one}>\n" for one in (
    "algorithm", "array", "cmath", "compare", "functional", "iomanip", "map", "mutex", "numeric", "optional", "sstream", "stdexcept", "string", "tuple",
    "utility", "vector"))


class Program:
    """Specs and drivers by family, and what the oracle has after them. `names` says what each family's file is called."""

    def __init__(self, specs, drivers, tail):
        self.specs, self.drivers, self.tail = specs, drivers, tail

    @property
    def families(self):
        return [FAMILIES[index] for index in sorted(self.specs)]

    def parts(self):
        return Node("fixed", *(self.specs[index] for index in sorted(self.specs)), *(self.drivers[index] for index in sorted(self.drivers)),
                    self.tail)


class Maker:
    def __init__(self, seed, number, without=()):
        self.random = random.Random(f"{seed}/{number}")
        levels = self.random.choice([2, 2, 2, 3, 3, 4, 5])
        parents = [None]
        for family in range(1, levels):
            parents.append(family - 1 if self.random.random() < 0.8 else self.random.randrange(family))
        features = {one for one, share in FEATURES.items() if self.random.random() < share and one not in without}
        self.chain = Chain(parents, features)
        self.specs, self.tail = {}, []
        # By numbers of their own: the rest of the chain is the same without them.
        chosen = random.Random(f"{seed}/{number}/small")
        small = {one for one, share in SMALL_CLASSES.items() if chosen.random() < share and one not in without}
        self.chain.features |= small
        self.chain.small = [OrderedClass(self.chain, chosen, one) for one in THEMES if one in small]
        self.chain.small += [Record(self.chain, chosen, one) for one in KINDS if one in small]

    def chance(self, probability):
        return self.random.random() < probability

    def make(self):
        for family in self.chain.families:
            self.specs[family] = self.spec(family)
        self.dispatchers()
        specs = {family: resolved(spec) for family, spec in self.specs.items()}
        drivers = {family: resolved(driver(self.chain, self.random, family)) for family in self.chain.families}
        return Program(specs, drivers, resolved(Node("fixed", *self.tail)))

    # ---- A family ----

    def spec(self, family):
        chain = self.chain
        parts = []
        if family == 0:
            parts += self.root_functions()
            parts += self.root_classes()
        else:
            parts += self.derived_functions(family)
            parts += self.derived_classes(family)
        parts += [one.text(family) for one in chain.small]
        members = [f'{{"{name}", "{new}"}}' for name, new in self.renamed_in(family)]
        names = f", .members = {{{', '.join(members)}}}" if members else ""
        includes = "".join(f'#include "modular/{chain.file(one)}.h"\n' for one in sorted(chain.path(family)[1:]))
        head = f'#pragma once\n{INCLUDES}'
        head += includes or '#include "modular/modular.h"\n'
        return Node("optional", Either([f"// Family {family}.\n", head], []), f"namespace modular::{chain.file(family)} {{\n",
                    f"MODULAR_FAMILY({chain.prefix(family)}{names});\n", *parts, f"}}  // namespace modular::{chain.file(family)}\n",
                    group=f"family {family}")

    def renamed_in(self, family):
        """Old and new names of members; the old one with its class where others have such a member."""
        chain = self.chain
        for klass in chain.classes:
            for old, new in klass.renamed.get(family, {}).items():
                others = [one for other in chain.classes if other is not klass for one in (*other.fields, *other.methods) if one.name == old]
                base = chain.base(klass, family)
                yield f"{chain.prefix(base)}{klass.stem}::{old}" if others else old, new

    # ---- Free functions and constants ----

    def root_functions(self):
        chain, parts = self.chain, []
        for _ in range(self.random.choice([0, 1, 1, 2])):
            name = self.free_name("constants")
            constant = Variable(name, self.random.choice([DOUBLE, INTEGER]), 1, 16, True, True, "static")
            if self.chance(0.3):
                constant.low, constant.high = 1, 16
            constant.values[0] = literal_text(self.random, constant)
            chain.constants.append(constant)
            parts.append(self.constant_text(constant, 0))
        for index in range(self.random.choice([0, 1, 2, 3])):
            types = [self.random.choice([DOUBLE, DOUBLE, INTEGER, INTEGER, BOOL, VECTOR]) for _ in range(self.random.choice([1, 1, 2]))]
            name = self.free_name("functions")
            returns = Variable("", self.random.choice([DOUBLE, INTEGER]))
            function = Function(name, new_parameters(self.random, types, chain.names("parameters")), returns, index, families=[0], prefixed=self.chance(0.3))
            chain.functions.append(function)
            parts.append(self.function_text(function, 0))
        return parts

    def free_name(self, kind):
        taken = {one.name for one in self.chain.functions + self.chain.constants}
        return self.random.choice([one for one in self.chain.names(kind) if one not in taken])

    def constant_text(self, constant, family):
        return Node("optional", f"inline constexpr {constant.type} {constant.name} = {constant.values[family]};\n",
                    group=f"constant {constant.name} {family}")

    def function_text(self, function, family):
        chain = self.chain
        parameters = function.parameters
        if family != function.families[0]:
            from classes import renamed_parameters

            parameters = renamed_parameters(chain, self.random, parameters, chain.names("parameters"))
        context = Context(chain, self.random, family, None, function, function.rank, 1, [{one.name: one for one in parameters}], tensors=False)
        statements = body(context, self.random.choice([0, 0, 1, 2]), function.returns)
        function.cost = max(function.cost, context.spent[0])
        name = function.named(chain, family)
        declared = ", ".join(f"{'const ' if one.const and not one.reference else ''}{one.declared} {one.name}" for one in parameters)
        group = f"function {function.name} {family}"
        parts = [f"inline {function.returns.type} ", Either([name], [f"{name}_own"]), f"({declared}) {{\n", *statements, "}\n"]
        if family == function.families[0]:
            parts.insert(0, Either([], [f"inline {function.returns.type} {name}({declared});\n"]))
        return Node("optional", *parts, group=group)

    def derived_functions(self, family):
        chain, parts = self.chain, []
        for constant in chain.constants:
            if chain.has("constants again") and self.chance(0.5):
                constant.values[family] = literal_text(self.random, constant)
                parts.append(self.constant_text(constant, family))
        for function in chain.functions:
            if chain.has("functions again") and self.chance(0.5):
                # Code of the family that stands before this would not see it.
                text = self.function_text(function, family)
                function.families.append(family)
                parts.append(text)
        return parts

    # ---- Classes ----

    def root_classes(self):
        chain, parts = self.chain, []
        if chain.has("configs"):
            chain.config = Class("Config")
            writer = ClassWriter(chain, self.random, chain.config, 0)
            writer.add_fields(self.random.choice([2, 3, 4]), [DOUBLE, DOUBLE, INTEGER, INTEGER, BOOL, STRING])
            if self.chance(0.6):
                method = Function("finish", [], None, 10, effects=True, reads=True, families=[0])
                chain.config.methods.append(method)
            chain.config.declared[0] = "class"
            parts.append(writer.write("Config"))
        count = 2 if chain.has("holders") else 1
        for index in range(count):
            klass = Class(["Unit", "Block"][index], held=index + 1 < count)
            chain.classes.append(klass)
            klass.declared[0] = "class"
            virtual = chain.has("virtual")
            writer = ClassWriter(chain, self.random, klass, 0)
            writer.add_fields(self.random.choice([2, 3, 4, 5]))
            if index:
                self.add_holder(klass, chain.classes[0])
            writer.add_methods(self.random.choice([3, 4, 5, 6]))
            for method in klass.methods:
                method.virtual = virtual and not method.static
            if chain.config and self.chance(0.4):
                name = self.random.choice([one for one in ["config_", "config", *NAMES] if one not in writer.taken()])
                klass.fields.append(Variable(name, "Config", clean=False, role="field", how="list", values={"family": 0}))
            parts.append(writer.write("public Module"))
        return parts

    def add_holder(self, klass, held):
        writer = ClassWriter(self.chain, self.random, klass, 0)
        name = fresh_name(Context(self.chain, self.random, 0), writer.taken())
        klass.fields.append(Variable(name, "holder", clean=False, role="field", how="list", values={"class": held}))

    def derived_classes(self, family):
        chain, parts = self.chain, []
        config = chain.config
        # A class that names an earlier family's config means what that family's code means, and the oracle what is nearest.
        again = any(family in one.families for one in chain.functions) or any(family in one.values for one in chain.constants)
        if config and (again or self.chance(0.5)):
            config.declared[family] = "class"
            writer = ClassWriter(chain, self.random, config, family)
            self.declare_again(writer, 0.4)
            writer.add_fields(self.random.choice([0, 1, 2]), [DOUBLE, INTEGER, BOOL])
            for method in config.methods:
                if self.chance(0.5):
                    method.families.append(family)
            parts.append(writer.write(self.spelled_base(config, writer.base, family)))
        for klass in chain.classes:
            parent = chain.parents[family]
            if self.chance(0.12):
                continue
            children = [one for one in chain.families if parent is not None and family in chain.path(one)[1:]]
            # Of the parent's own class: what another family redefines on the way is nothing to an alias of an earlier one's.
            if not children and chain.has("aliases") and parent in klass.declared and self.chance(0.4):
                klass.declared[family] = "alias"
                klass.constructors[family] = klass.constructors[parent]
                parts.append(f"using {chain.prefix(family)}{klass.stem} = {chain.file(parent)}::{chain.prefix(parent)}{klass.stem};\n")
                continue
            parts.append(self.derived_class(klass, family, not children))
        return parts

    def spelled_base(self, klass, base, family):
        """The class of family `base`, as the families between the two have it."""
        chain, parent = self.chain, self.chain.parents[family]
        spelled = f"{chain.file(base)}::{chain.impl(klass, base)}"
        if base == parent:
            return spelled
        # A family that declares no class does not derive from the one before it: each is named then.
        between = chain.path(parent)[:chain.path(parent).index(base)]
        derives = all(any(one in other.declared for other in [*chain.classes, chain.config] if other) for one in between)
        named = [parent] if derives and self.chance(0.7) else between
        return "".join(f"{chain.file(one)}::Its<" for one in named) + spelled + ">" * len(named)

    def derived_class(self, klass, family, is_leaf):
        chain = self.chain
        klass.declared[family] = "class"
        writer = ClassWriter(chain, self.random, klass, family)
        base = writer.base
        ancestors = chain.path(family)[1:]
        self.rename(klass, family)
        if chain.has("fields again"):
            self.declare_again(writer, 0.3)
        self.remove(klass, family)
        for methods in chain.methods(klass, base).values():
            for method in methods:
                if not method.frozen.intersection(ancestors) and self.chance(0.45) and not method.spare and family not in method.removed:
                    method.families.append(family)
        writer.add_fields(self.random.choice([0, 1, 1, 2, 3]))
        writer.add_methods(self.random.choice([0, 0, 1, 1, 2]), 0.6)
        inherited = chain.methods(klass, base)
        here = {one.name for one in klass.methods if family in one.families}
        # A method takes the place of the only inherited one of its name, whatever its parameters: in C++ it does not.
        klass.using[family] = {name for name in sorted(here) if name in inherited and (self.chance(0.6) or len(inherited[name]) == 1)
                               and any(family not in one.families and family not in one.removed for one in inherited[name])}
        spelled = f"public {self.spelled_base(klass, base, family)}"
        is_final = is_leaf and chain.has("final") and self.chance(0.6)
        library_base = ", public std::mutex" if chain.has("library base") and not klass.immovable.intersection(ancestors) else ""
        if library_base:
            klass.immovable.add(family)
        return writer.write(spelled, is_final, library_base)

    def declare_again(self, writer, probability):
        klass, family, chain = writer.klass, writer.family, self.chain
        for field in chain.fields(klass, writer.base):
            suitable = field.type in (DOUBLE, INTEGER, BOOL) and (field.role == "field" and (not field.const or field.retyped)
                                                                  or field.role == "static" and field.const)
            if suitable and field.how not in ("body", "early") and not field.spare and not field.qualified and self.chance(probability * (4 if field.retyped else 1)):
                field.values[family] = literal_text(self.random, field)

    def remove(self, klass, family):
        chain = self.chain
        path = chain.path(family)[1:]
        for field in chain.fields(klass, chain.base(klass, family)):
            if field.spare and field.family in path and self.chance(0.4):
                field.removed.add(family)
        for method in klass.methods:
            if method.spare and not method.virtual and method.family in path and not method.removed.intersection(path) and self.chance(0.4):
                method.removed.add(family)

    def rename(self, klass, family):
        chain = self.chain
        if klass.renamed or not chain.has("renamed"):
            return
        base = chain.base(klass, family)
        config = {one.name for one in chain.config.fields} if chain.config else set()
        known = [one for one in chain.fields(klass, base) if one.role == "field" and one.name not in config and not one.retyped]
        taken = chain.all_names(klass, family)
        free = [one for one in NAMES if one not in taken]
        if known and free:
            klass.renamed[family] = {self.random.choice(known).name: self.random.choice(free)}

    # ---- The oracle's choices ----

    def dispatchers(self):
        chain = self.chain
        for function in chain.functions:
            self.dispatcher(function, f"modular::{chain.file(0)}::", "inline ", lambda family, one=function: (
                f"modular::{chain.file(family)}::{one.named(chain, family)}_own"), f"function {function.name}", function.named(chain, 0))
        for klass in chain.classes:
            for method in klass.methods:
                if method.static:
                    first = f"modular::{chain.file(method.families[0])}::{chain.impl(klass, method.families[0])}::"
                    self.dispatcher(method, first, "inline ", lambda family, one=method, of=klass: (
                        f"modular::{chain.file(family)}::{chain.impl(of, family)}::{one.name}_own"),
                        f"{klass.stem} {method.name} {method.rank}", method.name)
            if klass.held:
                self.make_dispatcher(klass)

    def dispatcher(self, function, scope, before, target, group, name):
        chain = self.chain
        declared = ", ".join(f"{one.declared} {one.name}" for one in function.parameters)
        passed = ", ".join(one.name for one in function.parameters)
        result = function.returns.type if function.returns else "void"
        returns = "return " if function.returns else ""
        first, branches = function.families[0], []
        for family in function.families[1:]:
            for level in chain.families:
                if chain.nearest(function.families, level) == family:
                    call = f"{{ {returns}{target(family)}({passed}); return; }}" if not returns else f"return {target(family)}({passed});"
                    branches.append(Node("optional", f"if (oracle::level == {level}) {call}\n", group=f"{group} {family}"))
        self.tail.append(Node("optional", f"namespace modular {{\ninline {result} {scope}{name}({declared}) {{\n", *branches,
                              f"{returns}{target(first)}({passed});\n}}\n}}\n", group=f"{group} {first}"))

    def make_dispatcher(self, klass):
        chain = self.chain
        name = f"{chain.impl(klass, 0)}"
        head = f"template <class... A> std::shared_ptr<{name}> make_{klass.stem}(A&&... a)"
        root = self.specs[0]
        branches = []
        for level in chain.families:
            nearest = chain.nearest([one for one, how in klass.declared.items() if how == "class"], level)
            if nearest:
                made = f"modular::{chain.file(nearest)}::{chain.impl(klass, nearest)}"
                branches.append(Node("optional", f"if (oracle::level == {level}) return std::make_shared<{made}>(std::forward<A>(a)...);\n",
                                     group=f"family {nearest}"))
        self.tail.append(Node("fixed", f"namespace modular::{chain.file(0)} {{\n{head} {{\n", *branches,
                              f"return std::make_shared<{name}>(std::forward<A>(a)...);\n}}\n}}\n"))
        # Declared at once, after the class.
        root.parts.insert(3, Either([], [f"class {name};\n{head};\n"]))
