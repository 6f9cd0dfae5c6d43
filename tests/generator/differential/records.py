"""Small structs whose special members C++ treats apart: what a base's constructor, copy, comparison or destructor does is done to the base's
part of an object.

Nothing but the drivers uses them, so that a spec and its oracle are the same text."""

from tree import Node

KINDS = {"structs": "Made", "destructors": "Destroyed", "own copies": "Copied", "comparisons": "Compared"}


class Record:
    """A struct of a kind, in every family that declares it."""

    def __init__(self, chain, random, kind):
        self.chain, self.random, self.stem = chain, random, KINDS[kind]
        self.is_module = self.stem == "Destroyed" and random.random() < 0.5
        self.declared = {}  # own fields by family
        self.makes = {}  # by family: whether it has the constructor of two arguments

    def name(self, family):
        return f"{self.chain.prefix(family)}{self.stem}" + ("Impl" if self.is_module else "")

    def chance(self, probability):
        return self.random.random() < probability

    def text(self, family):
        chain, random = self.chain, self.random
        base = chain.nearest(self.declared, chain.parents[family]) if family else None
        if base is not None and self.chance(0.25):
            return ""
        name, field = self.name(family), f"own{family}"
        own = [field] if base is None or self.chance(0.75) else []
        self.declared[family] = own
        before = [one for level in reversed(chain.path(family)[1:]) for one in self.declared.get(level, ())]
        value = random.choice([f"{one} * 2.0 + 1.0" for one in before] + ["1.5", "2.5"])
        fields = [Node("optional", f"double {one} = {value};\n") for one in own]
        if base is None:
            fields += ["int64_t count = 4;\n", "std::string* log = nullptr;\n"]
            fields += [Node("optional", random.choice([f"double twice = {field} * 2.0;\n", f"std::vector<double> list{{{field}, 3.0}};\n"]))]
            spelled = " : public Module" if self.is_module else ""
        else:
            spelled = f" : public {chain.derived(self.name(base), base, family)}"
        members = getattr(self, self.stem.lower())(family, base, own)
        head = "class" if self.is_module else "struct"
        end = f"TORCH_MODULE({chain.prefix(family)}{self.stem});\n" if self.is_module else ""
        return Node("optional", f"{head} {name}{spelled} {{\n{'public:' if self.is_module else ''}\n", *members, *fields, f"}};\n{end}",
                    group=f"record {self.stem} {family}")

    # ---- Members of a kind ----

    def made(self, family, base, own):
        """A constructor of two arguments, which may change what initializers have set."""
        name = self.name(family)
        self.makes[family] = base is None or self.makes[base]
        if not self.makes[family] or base is None and self.chance(0.3):
            self.makes[family] = False
            return []
        entries = [f"{self.name(base)}({self.random.choice(['a, n', 'a * 2.0, n + 1', 'a, 3'])})"] if base is not None else ["count(n + 1)"]
        read = f"own{base}" if base is not None and self.declared[base] else "count"
        entries += [f"{one}(a + {read})" if base is not None else f"{one}(a * 3.0)" for one in own]
        body = self.random.choice(["", f"{own[0]} += n;" if own else "", "count *= 2;", "if (n > 2) count = -n;"])
        return [f"{name}() = default;\n", f"{name}(double a, int64_t n) : {', '.join(entries)} {{ {body} }}\n"]

    def destroyed(self, family, base, own):
        text = f"~{self.name(family)}() {{ if (log) *log += \"{family}\"; }}\n"
        return [Node("optional", self.random.choice([text, text, f"~{self.name(family)}() = default;\n", ""]))] if base is not None else [
            self.random.choice([text, text, text, ""])]

    def copied(self, family, base, own):
        """Copies and assignments that are seen in the copy."""
        name = self.name(family)
        if base is not None and not self.chance(0.3):
            return []
        first = [f"{self.name(base)}(other)"] if base is not None else ["count(other.count + 1)"]
        entries = [*first, *(f"{one}(other.{one} + 1.0)" for one in own)]
        copy = f"{name}(const {name}& other) : {', '.join(entries)} {{}}\n"
        of_base = f"{self.name(base)}::operator=(other);" if base is not None else "count = other.count + 10;"
        others = "".join(f" {one} = other.{one} + 10.0;" for one in own)
        assign = f"{name}& operator=(const {name}& other) {{ {of_base}{others} return *this; }}\n"
        parts = self.random.choice([[copy], [copy, assign], [assign]])
        return [f"{name}() = default;\n", *(parts if copy in parts else [f"{name}(const {name}& other) = default;\n", *parts])]

    def compared(self, family, base, own):
        name = self.name(family)
        ways = {f"bool operator==(const {name}& other) const = default;\n": 6, f"auto operator<=>(const {name}& other) const = default;\n": 3,
                f"friend bool operator==(const {name}& one, const {name}& other) = default;\n": 1}
        return self.random.choices([*ways], [*ways.values()]) if base is None or self.chance(0.05) else []

    # ---- What drivers do ----

    def driver(self, family):
        if family not in self.declared:
            return []
        type, label = f"modular::{self.chain.file(family)}::{self.name(family)}", f"{self.stem} {family}"
        fields = ["count", *(one for level in reversed(self.chain.path(family)) for one in self.declared.get(level, ()))]
        lines = []

        def shown(name):
            lines.extend(Node("optional", f'show("{label} {name} {one}", {name}.{one});\n') for one in fields)

        def changed(name, by):
            own = self.declared[family] if self.chance(0.5) else []  # what the base's comparison leaves out
            lines.extend(Node("optional", f"{name}.{one} += {by};\n") for one in own or fields if self.chance(0.6))

        if self.stem == "Destroyed":
            made = f"auto one = std::make_shared<{type}>();\none->log = &log;\n" if self.is_module else f"{type} one;\none.log = &log;\n"
            lines = ["std::string log;\n{\n", made, "}\n", f'show("{label} log", log);\n']
        else:
            lines.append(f"{type} one{'(2.5, 3)' if self.makes.get(family) and self.chance(0.7) else ''};\n")
            shown("one")
            changed("one", 2)
            lines.append(self.random.choice([f"{type} two = one;\n", f"{type} two;\ntwo = one;\n", f"{type} two(std::move(one));\n"]))
            shown("two")
            changed("two", 1)
            if self.stem == "Compared":
                lines += [Node("optional", f'show("{label} equal", one == two);\n'), Node("optional", f'show("{label} differ", one != two);\n')]
        return [Node("optional", "{\n", *lines, "}\n", group=f"record {self.stem} {family}")]
