"""Small classes for the order in which C++ runs things: constructors of bases that fail, change their parameters or change members
where no assignment says so, and super calls between other effects.

Each class has one theme, its own fields, and methods that no family redefines but to call the base's, so that a spec and its oracle are the
same text; only what a constructor calls is chosen in the oracle, as flattened code calls the family's own. A statement, initializer or override
is one more entry of a table below."""

from tree import Either, Lazy, Node

PARAMETERS = "std::string t, int64_t k, std::vector<double> v"
ALWAYS = ["text += t;", "number += k;", "number = static_cast<int64_t>(t.size()) * 10 + k;", "list.push_back(v.empty() ? 0.5 : v[0]);", "++made;",
          "list[0] = static_cast<double>(v.size());"]
FIELDS = ["std::string text = \"ab\";", "std::vector<double> list{1.0, 4.0, 2.0};", "int64_t number = 2;", "static inline int64_t made = 3;"]


class Theme:
    """What classes of a theme have: fields, statements of constructors, initializers of fields (their types and values), arguments of the
    base's constructor, and bodies of overrides, in which BASE is the base."""

    def __init__(self, stem, statements=(), initializers=(), fields=(), arguments=(("t", "k", "v"),), overrides=()):
        self.stem, self.statements, self.initializers = stem, list(statements), list(initializers)
        self.fields, self.arguments, self.overrides = list(fields), list(arguments), list(overrides)


READS = [("double", "list[2]"), ("double", "list.front()"), ("std::string", "text"), ("int64_t", "number * 10"), ("std::vector<double>", "list"),
         ("double", "std::accumulate(list.begin(), list.end(), 0.0)"), ("int64_t", "static_cast<int64_t>(text.size())"), ("bool", "text.empty()")]
THEMES = {
    "failures in constructors": Theme("Failing", [
        'if (k > 5) throw std::runtime_error("large");', 'TORCH_CHECK(k != 0, "zero");',
        "number = static_cast<int64_t>(v.at(static_cast<size_t>(k) % 4));",
        'if (t.empty()) throw std::invalid_argument("empty");', 'TORCH_CHECK(t.size() < 4, "long");',
        "std::optional<int64_t> maybe;\nif (k < 4) maybe = k;\nnumber += maybe.value();"],
        [("int64_t", "++made"), ("int64_t", "made++ * 10"), ("int64_t", "100 / k"), ("int64_t", "(made += k)"), ("double", "v.at(1) + k"),
         ("int64_t", "k % (7 - k)")]),
    "changed parameters": Theme("Moving", [], [
        ("std::string", "std::move(t)"), ("int64_t", "k++"), ("int64_t", "(k += 2)"), ("int64_t", "std::exchange(k, 3)"), ("int64_t", "--k"),
        ("std::vector<double>", "std::move(v)"), ("std::string", 't.append("!")'), ("double", "v.emplace_back(9.0)"), ("int64_t", "k * 3"),
        ("std::string", 'std::exchange(t, "w")'), ("std::string", 't + "?"')],
        arguments=[("t", "k", "v")] * 20 + [("std::move(t)", "k", "v"), ("t", "k", "std::move(v)"), ("t", "k + 1", "v")]),
    "algorithms": Theme("Iterating", [
        "std::iota(list.begin(), list.end(), 2.0);", "std::replace(list.begin(), list.end(), 4.0, 5.0);", "std::fill(list.begin(), list.end(), 3.0);",
        "std::reverse(text.begin(), text.end());", "std::sort(list.begin(), list.end());", "std::ranges::reverse(list);",
        "std::transform(list.begin(), list.end(), list.begin(), [](double one) { return one * 2.0 + 1.0; });",
        "std::for_each(list.begin(), list.end(), [](double& one) { one += 1.0; });", "std::fill_n(list.data(), 2, 7.0);",
        "std::copy(v.begin(), v.end(), list.begin());", "for (double& one : list) one *= 3.0;", "std::swap(list[0], list[1]);",
        "std::generate(list.begin(), list.end(), [n = 0.5]() mutable { return n += 1.0; });", "*std::max_element(list.begin(), list.end()) = 8.0;",
        "std::iter_swap(list.begin(), std::next(list.begin()));", "*std::prev(list.end()) = 6.0;",
        "std::tie(number, std::ignore) = std::pair(k * 2, 1);"],
        READS),
    "streams": Theme("Streaming", [
        "stream << k;", "stream << t << 'x';", "std::istringstream(t) >> text;", "std::istringstream in(\"7 8\");\nin >> number;",
        "std::istringstream in(\"a,b\");\nstd::getline(in, text, ',');", "stream << std::setw(4) << number;"],
        [*READS[2:4], ("std::string", "stream.str()"), ("std::string", "stream.str() + text")], ["std::ostringstream stream;"]),
    "references to members": Theme("Pointing", [
        "*at_text += 'p';", "alias += 'r';", "*at_number = 40;", "at_text->append(\"q\");", "wrapped.get() += 5;", "act();", "view[1] = 6.0;",
        "alias.clear();", "at_number += 0;\n++*at_number;", "(*this).number = 9;"],
        [*READS, ("std::string", "alias"), ("std::string", "*at_text"), ("int64_t", "*at_number"), ("double", "view.back()")],
        ["std::string* at_text = &text;", "std::string& alias = text;", "int64_t* at_number = &number;",
         "std::reference_wrapper<int64_t> wrapped{number};",
         "std::function<void()> act = [this] { text += 'f'; };", "std::vector<double>& view = list;"]),
    "super calls in braces": Theme("Braced", [], READS, overrides=[
        'std::pair<std::string, std::string> p{BASE::shown(), (text = "zz")};\nreturn p.first + p.second;',
        'const std::vector<std::string> p{BASE::shown(), set("b")};\nreturn p[0] + p[1];',
        'const std::array<std::string, 2> p = {BASE::shown(), set("c")};\nreturn p[0] + p[1];',
        'std::tuple<std::string, std::string> p{BASE::shown(), set("d")};\nreturn std::get<0>(p) + std::get<1>(p);',
        'std::map<std::string, std::string> p{{BASE::shown(), set("e")}};\nreturn p.begin()->first + p.begin()->second;',
        'const std::string p = BASE::shown();\ntext += "n";\nreturn p + text;', 'return BASE::shown().append(set("f"));',
        'const std::string& p = BASE::shown();\ntext = "g";\nreturn p + text;',
        'const std::string p[] = {BASE::shown(), set("h"), text};\nreturn p[0] + p[1] + p[2];',
        'std::string p;\nfor (const std::string& one : {BASE::shown(), set("i")}) p += one;\nreturn p;']),
    "virtual calls in constructors": Theme("Calling", ["number += RANK * 10;", "list[1] = RANK;", "if (RANK > 4) text += 'h';"], [
        *READS, ("int64_t", "RANK + 1")]),
}


class OrderedClass:
    """A class of a theme, in every family that declares it."""

    def __init__(self, chain, random, theme):
        self.chain, self.random, self.theme = chain, random, THEMES[theme]
        self.declared, self.own = [], {}  # families; fields by family
        self.divides = False
        self.ranks = {}  # what rank() returns, by family

    def impl(self, family):
        return f"{self.chain.prefix(family)}{self.theme.stem}Impl"

    def label(self, family):
        return f"{self.theme.stem} {family}"

    def statements(self, count):
        chosen = self.random.sample(self.theme.statements * 2 + ALWAYS, count)
        return [Node("optional", "{\n" * (";\n" in one), self.called(one), "\n", "}\n" * (";\n" in one)) for one in chosen]

    def called(self, code):
        """The code with calls of rank(), which means that of the family."""
        before, found, after = code.partition("RANK")
        return Node("fixed", before, Either(["rank()"], [Lazy(lambda: self.chain.by_level(self.ranks.get, self.ranks))]), after) if found else code

    def text(self, family):
        """The family's class; empty where it leaves that to its base."""
        chain, random, stem = self.chain, self.random, self.theme.stem
        base = chain.nearest(self.declared, chain.parents[family]) if family else None
        if base is not None and random.random() < 0.25:
            return ""
        self.declared.append(family)
        name = self.impl(family)
        fields, body, entries = [], self.statements(random.choice([1, 1, 2, 3])), []
        if base is None:
            spelled = "Module"
            # Whatever a derived initializer divides by is checked here.
            if stem == "Failing":
                self.divides = random.random() < 0.6
                body.insert(0, Node("fixed", 'TORCH_CHECK(k != 0 && k != 7, "a divisor");\n') if self.divides else "")
            fields = [*FIELDS, *self.theme.fields]
        else:
            spelled = chain.derived(self.impl(base), base, family)
            entries = [f"{self.impl(base)}({', '.join(random.choice(self.theme.arguments))})"]
        self.own[family] = []
        for index in range(random.choice([1, 1, 2]) if base is not None else 0):
            type, value = random.choice([one for one in self.theme.initializers if self.divides or "k" not in one[1].partition("/")[2]
                                         and "%" not in one[1]])
            field = f"got{family}{index}"
            self.own[family].append(field)
            fields.append(f"{type} {field};")
            entries.append(Node("fixed", f"{field}(", self.called(value), ")"))
        methods = []
        if base is None:
            methods = ["virtual std::string shown() { return text; }\n", "std::string set(const std::string& s) { return text = s; }\n"]
        elif self.theme.overrides:
            override = random.choice(self.theme.overrides).replace("BASE", self.impl(base))
            methods = [Node("optional", f"std::string shown() override {{\n{override}\n}}\n")]
        if stem == "Calling" and (base is None or random.random() < 0.6):
            self.ranks[family] = f"int64_t{{{random.randint(1, 9)}}}"
            methods.append(f"virtual int64_t rank() {{ return {self.ranks[family]}; }}\n")
        initialized = [part for index, entry in enumerate(entries) for part in (", " if index else " : ", entry)]
        return Node("optional", f"class {name} : public {spelled} {{\npublic:\n{name}({PARAMETERS})", *initialized, " {\n", *body, "}\n", *methods,
                    *(f"{one}\n" for one in fields), f"}};\nTORCH_MODULE({chain.prefix(family)}{stem});\n", group=f"order {stem} {family}")

    def driver(self, family):
        if family not in self.declared:
            return []
        chain, random, label = self.chain, self.random, self.label(family)
        type = f"modular::{chain.file(family)}::{self.impl(family)}"
        parts = []
        for index in range(3):
            k = 0 if self.divides and random.random() < 0.3 else random.randint(1, 9)
            if not self.divides:
                k = k if k != 7 else 6
            given = f'std::string("{random.choice(["xyz", "q", "", "a long text that no small buffer holds"])}"), int64_t{{{k}}}, ' \
                    f"std::vector<double>{random.choice(['{1.5, 2.5}', '{3.0}', '{0.5, 4.0, 6.0}'])}"
            shown = [f'show("{label} {one}", object->{one});\n' for one in ("text", "list", "number")]
            shown += [f'show("{label} {one}", object->{one});\n' for level in reversed(chain.path(family)) for one in self.own.get(level, ())]
            if "std::ostringstream stream;" in self.theme.fields:
                shown.append(f'show("{label} stream", object->stream.str());\n')
            shown.append(f'show("{label} shown", object->shown());\nshow("{label} text after", object->text);\n')
            parts.append(Node("optional", "try {\n", f"auto object = std::make_shared<{type}>({given});\n", *(Node("optional", one) for one in shown),
                              f'}} catch (const std::exception& error) {{\nshow("{label} fails", described(error));\n}}\n',
                              f'show("{label} made", {type}::made);\n'))
        return [Node("optional", *parts, group=f"order {self.theme.stem} {family}")]
