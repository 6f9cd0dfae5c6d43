"""Values that pass through other names before they are read: members of structs, closures, shared objects, labels."""

from holders import Holders
from parts import FULL, Value


class Carriers(Holders):
    def carriers(self):
        """The kinds of names, each with functions that pass a value through one and return the expression that reads it.

        `other` is what the name holds first, or where it is not assigned."""
        return {
            "members with default initializers": [self.default_initializer],
            "members made by constructors": [self.constructor],
            "shared objects": [self.shared],
            "containers of structs": [self.struct_in_container, self.algorithm, self.algorithm],
            "closures": [self.closure],
            "mutable members": [self.mutable_member],
            "labels in nested blocks": [self.nested_label],
            "lvalues of expressions": [self.lvalue],
        }

    def carried(self, v, other, kind=None):
        """A value that is `v` through another name."""
        ways = self.carriers()
        # modgen rejects most of the others.
        kind = kind or self.pick([*ways] + ["containers of structs", "closures"] * 6)
        self.use(kind)
        return Value(self.pick(ways[kind])(v, other), v.shape, v.type)

    def carried_local(self, scope, _depth=0):
        """A local that is read through another name, usually a full one, since modgen rejects most others."""
        full = [v for v in scope if v.type == FULL]
        v = self.pick(full if full and self.chance(0.85) else scope)
        alike = [w for w in scope if w.shape == v.shape and w.type == v.type]
        made = self.declared(self.carried(v, self.pick(alike)), scope)
        if made.type == FULL and made.shape and made.shape[-1].in_constructor and self.chance(0.4):
            # The gradient of what a split layer reads is summed.
            self.declared(self.layered(made), scope)

    def struct(self, *members):
        """The name of a struct with these members; `@` is its name in them."""
        return self.structs.setdefault("".join(f"  {line}\n" for line in members), f"{self.prefix}{self.name('Box')}")

    def copied(self, struct, name):
        """The object itself, or another that is made of it."""
        if not self.chance(0.4):
            return name
        self.use("copies and moves of structs")
        copy = self.name("copy")
        self.lines += self.pick([[f"const {struct} {copy} = {name};"], [f"{struct} {copy}(std::move({name}));"],
                                 [f"{struct} {copy}({name});", f"{copy} = {name};"]])
        return copy

    # ---- Members of structs ----

    def default_initializer(self, v, _other):
        inner = self.struct("Tensor t;")
        members, read = self.pick([
            (["Tensor a;", f"Tensor b = {self.pick(['a', 'a * 0.5', '-a', 'a.neg()'])};"], "b"),
            (["Tensor a;", "std::vector<Tensor> list = {a, a};"], self.pick(["list[1]", "list.front()"])),
            (["Tensor a;", f"{inner} inner{{a}};"], "inner.t"),
            (["Tensor a;", "Tensor b = a;", "Tensor c = b;"], "c"),
            (["Tensor a;", "int64_t times = 2;", "Tensor b = a * static_cast<double>(times);"], "b")])
        struct, name = self.struct(*members), self.name("made")
        self.lines.append(self.pick([f"{struct} {name}{{{v.name}}};", f"{struct} {name} = {{{v.name}}};",
                                     f"auto {name} = {struct}{{{v.name}}};"]))
        return f"{self.copied(struct, name)}.{read}"

    def constructor(self, v, other):
        members, arguments, read = self.pick([
            (["std::vector<Tensor> list;", "explicit @(const Tensor& t) : list(2, t) {}"], v.name, "{}.list[0]"),
            (["Tensor one, two;", "@(const Tensor& t, const Tensor& u) : one(t), two(u) {}"], f"{v.name}, {other.name}", "{}.one"),
            (["Tensor one;", "explicit @(const Tensor& t) { one = t; }"], v.name, "{}.one"),
            (["std::pair<Tensor, int64_t> held;", "explicit @(const Tensor& t) : held(t, 1) {}"], v.name, "{}.held.first"),
            (["std::tuple<Tensor, Tensor> held;", "@(const Tensor& t, const Tensor& u) : held(t, u) {}"],
             f"{other.name}, {v.name}", "std::get<1>({}.held)"),
            (["std::map<std::string, Tensor> named;", "@(const std::string& name, const Tensor& t) { named.emplace(name, t); }"],
             f'"one", {v.name}', '{}.named.at("one")'),
            (["Tensor one;", "@(int64_t times, const Tensor& t) : one(t * static_cast<double>(times)) {}"], f"2, {v.name}", "{}.one"),
            (["Tensor one;", "Tensor two = one;", "@(const Tensor& t, int64_t) : one(t) {}"], f"{v.name}, 1", "{}.two")])
        struct, name = self.struct(*members), self.name("made")
        self.lines.append(self.pick([f"{struct} {name}({arguments});", f"{struct} {name}{{{arguments}}};"]))
        return read.format(self.copied(struct, name))

    def mutable_member(self, v, other):
        name = self.name("made")
        if self.chance(0.3):
            struct = self.struct("mutable Tensor t;", "void keep(const Tensor& v) const { t = v; }")
            self.lines += [f"{struct} {name};", f"{name}.t = {other.name};", f"{name}.keep({v.name});"]
            return f"{name}.t"
        struct = self.struct("mutable Tensor t;", "void set(const Tensor& v, const Tensor& w, bool first) const {", "  if (first) {",
                             "    t = v;", "    return;", "  }", "  t = w;", "}")
        self.lines += [f"{struct} {name};", f"{name}.t = {other.name};", f"{name}.set({v.name}, {other.name}, {self.pick(['keeps', '!deep'])});"]
        return f"{name}.t"

    # ---- Shared objects ----

    def shared(self, v, other):
        struct, one, two = self.struct("Tensor t;"), self.name("shared"), self.name("alias")
        refers = self.struct("Tensor* at;")
        made = f"auto {one} = std::make_shared<{struct}>({struct}{{{other.name}}});"
        lines, read = self.pick([
            *[([made, f"auto {two} = [{one}] {{ return {one}->t; }};", f"{one}->t = {v.name};"], f"{two}()")] * 3,
            ([made, f"auto {two} = [held = {one}] {{ return held->t * 0.5; }};", f"{one}->t = {v.name};"], f"{two}()"),
            ([made, f"const std::function<Tensor()> {two} = [{one}] {{ return {one}->t; }};", f"{one}->t = {v.name};"], f"{two}()"),
            ([f"const auto {one} = std::make_shared<{struct}>({struct}{{{other.name}}});", f"const auto {two} = {one};",
              f"{two}->t = {v.name};"], f"{one}->t"),
            ([f"auto {one} = std::make_shared<Tensor>({other.name});", f"auto {two} = {one};", f"*{two} = {v.name};"], f"(*{one})"),
            ([f"{struct} {one}{{{other.name}}};", f"{struct}* {two} = &{one};", f"{two}->t = {v.name};"], f"{one}.t"),
            ([f"{struct} {one}{{{other.name}}};", f"Tensor& {two} = {one}.t;", f"{two} = {v.name};"], f"{one}.t"),
            ([f"Tensor {one} = {other.name};", f"const auto {two} = std::ref({one});", f"{two}.get() = {v.name};"], one),
            ([f"Tensor {one} = {other.name};", f"{refers} {two}{{&{one}}};", f"*{two}.at = {v.name};"], one),
            ([f"std::vector<std::shared_ptr<{struct}>> {one} = {{std::make_shared<{struct}>({struct}{{{other.name}}})}};",
              f"const std::weak_ptr<{struct}> {two} = {one}[0];", f"{two}.lock()->t = {v.name};"], f"{one}[0]->t"),
            ([f"Tensor {one}[2] = {{{other.name}, {other.name}}};", f"Tensor* {two} = {one};", f"{two}[1] = {v.name};"], f"{one}[1]"),
            ([f"std::vector<Tensor> {one} = {{{other.name}}};", f"auto& {two} = {one};", f"{two}[0] = {v.name};"], f"{one}[0]"),
            ([f"std::vector<Tensor> {one} = {{{other.name}}};", f"const auto {two} = {one}.begin();", f"*{two} = {v.name};"], f"{one}[0]"),
            ([f"std::map<std::string, Tensor> {one};", f'Tensor& {two} = {one}["one"];', f"{two} = {v.name};"], f'{one}.at("one")'),
            ([f"Tensor {one} = {other.name};", f"const auto {two} = std::tie({one});", f"std::get<0>({two}) = {v.name};"], one),
            ([f"std::pair<Tensor, Tensor> {one}({other.name}, {other.name});", f"auto& [{two}, {two}_b] = {one};", f"{two} = {v.name};"],
             f"{one}.first"),
            ([f"Tensor {one} = {other.name};", f"const auto {two} = [&]() -> Tensor* {{ return &{one}; }};", f"*{two}() = {v.name};"], one),
            ([f"Tensor {one} = {other.name};", f"const std::span<Tensor> {two}(&{one}, 1);", f"{two}[0] = {v.name};"], one),
            ([f"std::optional<Tensor> {one} = {other.name};", f"Tensor& {two} = *{one};", f"{two} = {v.name};"], f"{one}.value()")])
        self.lines += lines
        return read

    # ---- Containers and closures ----

    def struct_in_container(self, v, other):
        struct, name = self.struct("Tensor t;"), self.name("boxes")
        lines, read = self.pick([
            ([f"std::map<std::string, {struct}> {name};", f'{name}.emplace("one", {struct}{{{v.name}}});'],
             self.pick([f'{name}.at("one").t', f'std::invoke(&{struct}::t, {name}.at("one"))', f"{name}.begin()->second.t"])),
            ([f"std::vector<{struct}> {name};", f"{name}.push_back({struct}{{{v.name}}});"],
             self.pick([f"{name}[0].t", f"{name}.front().t", f"std::invoke(&{struct}::t, {name}[0])"])),
            ([f"std::vector<{struct}> {name} = {{{struct}{{{other.name}}}, {struct}{{{v.name}}}}};"], f"{name}.back().t"),
            ([f"std::optional<{struct}> {name};", f"{name} = {struct}{{{v.name}}};"], f"{name}->t"),
            ([f"std::variant<int64_t, Tensor> {name} = {v.name};"], f"std::get<Tensor>({name})"),
            ([f"std::pair<std::string, {struct}> {name}(\"one\", {struct}{{{v.name}}});"], f"{name}.second.t"),
            ([f"std::deque<Tensor> {name};", f"{name}.push_front({v.name});"], f"{name}.front()"),
            ([f"std::any {name} = {v.name};"], f"std::any_cast<Tensor>({name})"),
            ([f"std::unordered_map<int64_t, Tensor> {name} = {{{{1, {v.name}}}}};"], f"{name}.find(1)->second"),
            ([f"std::vector<std::vector<Tensor>> {name} = {{{{{v.name}}}}};"], f"{name}[0][0]"),
            ([f"std::array<{struct}, 2> {name} = {{{struct}{{{v.name}}}, {struct}{{{v.name}}}}};"], f"{name}[1].t"),
            ([f"const auto {name} = std::make_tuple(1, {struct}{{{v.name}}});"], f"std::get<1>({name}).t"),
            ([f"{struct} {name}[] = {{{struct}{{{v.name}}}}};"], f"{name}[0].t"),
            ([f"c10::List<Tensor> {name};", f"{name}.push_back({v.name});"], f"{name}.get(0)"),
            ([f"const std::initializer_list<Tensor> {name} = {{{v.name}}};"], f"*{name}.begin()"),
            ([f"std::vector<Tensor> {name} = {{{v.name}}};"], f"torch::TensorList({name}).vec()[0]")])
        self.lines += lines
        return read

    def algorithm(self, v, _other):
        """A container of structs that an algorithm or a lambda reads."""
        struct, name, result = self.struct("Tensor t;"), self.name("boxes"), self.name("t")
        if self.chance(0.8):
            made, element = self.pick([([f"std::map<std::string, {struct}> {name};", f'{name}.emplace("one", {struct}{{{v.name}}});'],
                                        f'{name}.at("one")'),
                                       ([f"std::vector<{struct}> {name};", f"{name}.push_back({struct}{{{v.name}}});"], f"{name}[0]"),
                                       ([f"std::vector<{struct}> {name}(1);", f"{name}[0] = {struct}{{{v.name}}};"], f"{name}.front()")])
            function = self.pick(["const auto", f"const std::function<Tensor(const {struct}&)>"])
            self.lines += [*made, f"{function} {result} = [](const {struct}& one) {{ return one.t; }};"]
            return f"{result}({element})"
        self.lines += self.pick([[f"std::vector<{struct}> {name};", f"{name}.push_back({struct}{{{v.name}}});"],
                                 [f"const std::vector<{struct}> {name} = {{{struct}{{{v.name}}}}};"]])
        lines, read = self.pick([
            ([f"std::vector<Tensor> {result}(1);",
              f"std::transform({name}.begin(), {name}.end(), {result}.begin(), [](const {struct}& one) {{ return one.t; }});"], f"{result}[0]"),
            ([f"Tensor {result};", f"for (const {struct}& one : {name}) {result} = one.t;"], result),
            ([f"Tensor {result};", f"std::for_each({name}.begin(), {name}.end(), [&](const {struct}& one) {{ {result} = one.t; }});"], result),
            ([f"const Tensor {result} = std::accumulate({name}.begin(), {name}.end(), Tensor(), "
              f"[](const Tensor&, const {struct}& one) {{ return one.t; }});"], result)])
        self.lines += lines
        return read

    def closure(self, v, _other):
        name = self.name("get")
        holder, converts = self.struct("std::function<Tensor()> get;"), self.struct("Tensor t;", "operator Tensor() const { return t; }")
        adds = self.struct("Tensor t;", "@ operator+(const @& other) const { return {t + other.t}; }")
        callable = self.struct("Tensor t;", "Tensor operator()() const { return t; }")
        line, read = self.pick([
            (f"const auto {name} = [held = {v.name}] {{ return held; }};", f"{name}()"),
            (f"const std::function<Tensor()> {name} = [&] {{ return {v.name}; }};", f"{name}()"),
            (f"const std::vector<std::function<Tensor()>> {name} = {{[&] {{ return {v.name}; }}}};", f"{name}[0]()"),
            (f"const {holder} {name}{{[held = {v.name}] {{ return held; }}}};", f"{name}.get()"),
            (f"const auto {name} = [](const Tensor& t) {{ return [t] {{ return t; }}; }};", f"{name}({v.name})()"),
            (f"const {callable} {name}{{{v.name}}};", f"{name}()"),
            (f"const auto {name} = [](auto t) {{ return t; }};", f"{name}({v.name})"),
            (f"const auto {name} = std::bind([](const Tensor& t) {{ return t; }}, {v.name});", f"{name}()"),
            (f"Tensor (*{name})(const Tensor&) = [](const Tensor& t) {{ return t; }};", f"{name}({v.name})"),
            (f"const {converts} {name}{{{v.name}}};", f"Tensor({name})"),
            (f"const {adds} {name}{{{v.name}}};", f"({name} + {name}).t"),
            (f"const auto {name} = std::make_pair([&] {{ return {v.name}; }}, 1);", f"{name}.first()")])
        self.lines.append(line)
        return read

    # ---- Control flow ----

    def nested_label(self, v, other):
        name, label = self.name("t"), self.pick(["case 2:", "default:"])
        before = self.pick([["  case 0:", "    break;"], ["  case 1:", f"    {name} = {other.name};", "    break;"]])
        self.lines += [f"Tensor {name} = {other.name};", "switch (config.num_layers) {", *before, "    {", f"  {label}",
                       f"    {name} = {v.name};", "    }", "}"]
        return name

    def lvalue(self, v, other):
        name, alias = self.name("t"), self.name("alias")
        lines = self.pick([[f"(void(0), {name}) = {v.name};"],
                           [f"Tensor {alias};", f"(keeps ? {name} : {alias}) = {v.name};"],
                           [f"const auto {alias} = [&]() -> Tensor& {{ return {name}; }};", f"{alias}() = {v.name};"],
                           [f"Tensor {alias} = {v.name};", f"std::swap({name}, {alias});"],
                           [f"std::exchange({name}, {v.name});"],
                           [f"std::tie({name}, std::ignore) = std::make_tuple(Tensor({v.name}), 1);"],
                           [f"if (({name} = {v.name}).dim() > 9) {name} = -{name};"]])
        self.lines += [f"Tensor {name} = {other.name};", *lines]
        return name
