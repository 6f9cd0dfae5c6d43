"""What a family's program does: it makes objects of the family's classes, calls their methods, and shows what there is to see."""

from classes import literal_text
from model import BOOL, DOUBLE, FLOAT, INT, INTEGER, RANKS, STRING, TENSOR, VECTOR, Variable, constant_reference
from tree import Either, Node


def exact_text(random, parameter):
    """A value of exactly the parameter's type."""
    if parameter.type == TENSOR:
        return f"torch::full({{3}}, {random.choice([0.5, 1.5, 2.25])}, torch::kDouble)"
    if parameter.type in RANKS:
        text = literal_text(random, parameter)
        if parameter.type in (DOUBLE, FLOAT) and random.random() < 0.5:
            text = repr(random.choice([1.25, 2.7, 3.9, 5.5]))
        return f"static_cast<{parameter.type}>({text})"
    text = literal_text(random, parameter)
    return f"{parameter.type}{text}" if parameter.type == VECTOR else f"{parameter.type}({text})"


def driver(chain, random, family):
    """The body of a function, for the generated family and for the oracle."""
    parts = []
    for klass in chain.classes:
        if family not in klass.declared:
            continue
        for index in range(2):
            parts.append(Node("optional", "{\n", *object_parts(chain, random, klass, family, index), "}\n"))
    for one in chain.small:
        parts += one.driver(family)
    return Node("optional", *parts, group=f"family {family}")


def object_parts(chain, random, klass, family, index):
    type = f"modular::{chain.file(family)}::{chain.prefix(family)}{klass.stem}::ContainedType"
    label = f"{klass.stem}{index}"
    parts, arguments = [], []
    constructor = klass.constructors[family]
    count = len(constructor.parameters) - (len(constructor.defaults) if random.random() < 0.4 else 0)
    for parameter in constructor.parameters[:count]:
        if parameter.type == "Config":
            parts += config_parts(chain, random, family, label)
            arguments.append("config")
        else:
            arguments.append(exact_text(random, parameter))
    parts.append(f"auto object = std::make_shared<{type}>({', '.join(arguments)});\n")
    parts.append(f'show("{label} final", std::is_final_v<{type}>);\nshow("{label} lockable", std::is_base_of_v<std::mutex, {type}>);\n')
    names = new_names(chain, klass, family)
    parts += shown_fields(chain, klass, family, f"{label} made", names)
    for name, methods in sorted(chain.methods(klass, family).items()):
        for method in methods:
            for call in range(2):
                parts.append(Node("optional", *call_parts(random, method, f"{label} {name} {call}")))
    parts += shown_fields(chain, klass, family, f"{label} after", names)
    return parts


def config_parts(chain, random, family, label):
    config = chain.config
    known = chain.nearest(config.declared, family)
    generated = f"modular::{chain.file(family)}::{chain.prefix(family)}Config"
    parts = [Either([generated], [f"modular::{chain.file(known)}::{chain.prefix(known)}Config"]), " config;\n"]
    for field in chain.fields(config, known):
        if random.random() < 0.5 and not field.spare:
            parts.append(Node("optional", f"config.{field.name} = {exact_text(random, field)};\n"))
    if "finish" in chain.methods(config, known):
        parts.append(Node("optional", "config.finish();\n"))
    parts += [Node("optional", f'show("{label} config {field.name}", config.{field.name});\n') for field in chain.fields(config, known)
              if not field.spare]
    return parts


def new_names(chain, klass, family):
    """What the family calls members of the class, by their old names."""
    return {old: new for one in reversed(chain.path(family)) for old, new in klass.renamed.get(one, {}).items()}


def shown_fields(chain, klass, family, label, names):
    parts = []
    for field in chain.fields(klass, family):
        if field.type in ("holder", "Config") or field.spare:
            continue
        new = names.get(field.name, field.name)
        value = Either([f"object->{new}"], [f"object->{field.name}"])
        if field.role == "static" and field.const:
            value = constant_reference(chain, field, f"object->{new}")
        shown = value if field.registered else Node("fixed", f"static_cast<{field.type}>(", value, ")")
        parts.append(Node("optional", f'show("{label} {field.name}", ', shown, ");\n"))
        if field.registered:
            parts.append(Node("optional", f'show("{label} grad {field.name}", ', value, ".requires_grad());\n"))
    inner = {f"{one.name}.{old}": new for one in chain.fields(klass, family) if one.type == "holder"
             for old, new in new_names(chain, one.values["class"], family).items()}
    renamed = "".join(f'{{"{old}", "{new}"}}, ' for old, new in {**names, **inner}.items())
    parts.append(Node("optional", f'show("{label} state", get_names(*object, ', Either(["{}"], [f"{{{renamed}}}"]), "));\n"))
    return parts


def call_parts(random, method, label):
    arguments, before, after = [], "", ""
    for parameter in method.parameters:
        if parameter.reference == "&":
            before = f"{parameter.type} out = 3;\n"
            after = f'show("{label} out", out);\n'
            arguments.append("out")
        else:
            arguments.append(exact_text(random, parameter))
    receiver = "std::as_const(*object)." if method.const else "object->"
    call = f"{receiver}{method.name}({', '.join(arguments)})"
    shown = f"{call};\n" if method.returns is None else f'show("{label}", {call});\n'
    return ["{\n", before, shown, after, "}\n"]
