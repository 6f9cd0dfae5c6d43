"""Code where the place of woven calls matters, parameters that are known by other names, and alternatives of a member."""

from counts import Counts
from parts import FULL, Value, Var


class Placing(Counts):
    def placed(self, scope, _depth=0):
        """Right code: calls have to be woven where the order of evaluation wants them."""
        self.pick([self.declarators, self.declarators, self.assigning_condition, self.assigning_condition, self.hooked_sum, self.changed_sum,
                   self.changed_sum, self.overloaded_norm, self.alternatives])(scope)

    def hidden_states(self, scope):
        return self.pick([v for v in scope if v.shape == [self.B, self.S, self.H] and v.type == FULL])

    def through_layers(self, name):
        """A layer by columns, an activation, and a layer by rows: a partial sum until modgen sums it."""
        column, row = self.layer("columns", self.H, self.M), self.layer("rows", self.M, self.H)
        return f"{row}({self.pick(['torch::silu', 'torch::tanh'])}({column}({name})))"

    def declarators(self, scope):
        self.use("several declarators")
        v, names = self.hidden_states(scope), [self.name("t") for _ in range(5)]
        layers = [self.layer("columns", self.H, self.M) for _ in range(3)]
        parts = [f"{names[0]} = {v.name} * 2.0", f"{names[1]} = {layers[0]}({names[0]})", f"{names[2]} = {names[0]} * 0.5",
                 f"{names[3]} = {layers[1]}({self.pick([names[2], names[0]])})", f"{names[4]} = {layers[2]}({names[2]})"]
        values = [(v.shape, FULL), (v.shape[:-1] + [self.M], ("split", 2))] * 2 + [(v.shape[:-1] + [self.M], ("split", 2))]
        self.lines.append(f"{self.pick(['Tensor', 'const Tensor'])} {', '.join(parts)};")
        is_const = self.lines[-1].startswith("const")
        scope += [Var(name, shape, type, is_const) for name, (shape, type) in zip(names, values)]

    def assigning_condition(self, scope):
        self.use("conditions that assign")
        v, name, chosen = self.hidden_states(scope), self.name("z"), self.name("chosen")
        column, other = self.layer("columns", self.H, self.M), self.layer("columns", self.H, self.M)
        # A value that is read twice is entered in a statement of its own.
        entered = f"{column}({name}).defined()" + f" && {other}({name}).defined()" * self.chance(0.7)
        assigned = f"{self.pick(['deep', 'drops', 'keeps'])} && ({name} = {v.name} * 2.0).defined() && {entered}"
        if self.chance(0.5):
            self.lines += [f"Tensor {name};", f"const bool {chosen} = {assigned};"]
            return self.declared(Value(f"{chosen} ? {v.name} : {v.name} * 0.5", v.shape, FULL), scope)
        result = self.name("t")
        self.lines += [f"Tensor {result} = {v.name};"]
        self.lines += self.pick([
            [f"if (Tensor {name}; {assigned}) {result} = {v.name} * 0.5;"],
            [f"if (Tensor {name} = {v.name} * 0.25; {entered}) {result} = {result} + {name};"],
            [f"int64_t {chosen} = 0;", f"Tensor {name} = {v.name};",
             f"while ({chosen}++ < 2 && ({name} = torch::tanh({name})).defined() && {entered}) {result} = {result} + {name};"]])
        scope.append(Var(result, v.shape, FULL, False))
        return scope[-1]

    def hooked_sum(self, scope):
        self.use("hooks")
        v, one, two = self.hidden_states(scope), self.name("t"), self.name("t")
        hook = self.pick(["[](const Tensor& g) { return g * g; }", "[](const Tensor& g) { return torch::tanh(g); }"])
        self.lines.append(f"const Tensor {one} = {self.through_layers(v.name)};")
        self.lines.append(f"const Tensor {two} = {self.pick([f'{one} * 2.0 + {self.through_layers(v.name)}', f'{one} * 2.0', f'{one} + {v.name}'])};")
        self.lines.append(f"{two}.register_hook({hook});")
        scope.append(Var(two, v.shape, FULL))

    def changed_sum(self, scope):
        """Numbers written into a result that modgen may leave open as a partial sum."""
        self.use("numbers written into sums")
        v, name = self.hidden_states(scope), self.name("t")
        self.lines.append(f"Tensor {name} = {self.through_layers(v.name)}{self.pick([' * 2.0', ' * 0.5'])};")
        changes = ["[0] = 1.0;", "[0][1] = 0.5;", "[1][0][0] = 0.25;"] * 3
        changes += [".select(0, 1).fill_(0.25);", ".slice(1, 0, 1).fill_(0.5);", ".narrow(1, 0, 2).zero_();", ".index_put_({0}, 0.5);", " += 1.0;",
                    ".fill_(0.25);", ".masked_fill_(torch::ones({2, 4, 1}) > 0.5, 0.5);", ".select(0, 0) += 0.5;"]
        self.lines.append(name + self.pick(changes))
        total = f"{name} + {self.through_layers(v.name)}"
        made = self.pick([f"torch::tanh({total})", total, name, f"torch::tanh({name})"])
        self.declared(Value(made, v.shape, FULL), scope)

    def overloaded_norm(self, scope, is_taken=False):
        """A method that is called with full values and with split ones."""
        self.use("methods for full and split values")
        v, weight, name = self.hidden_states(scope), self.parameter([self.d]), self.name("normed")
        column, row, plain = self.layer("columns", self.H, self.hd), self.layer("rows", self.hd, self.H), self.layer("full", self.H, self.d)
        made = self.pick([f"t * {weight}", self.contract(f"rms_norm(t, {weight}, 1e-3)")])
        self.methods.append(self.code(f"Tensor {name}(const Tensor& t)", [f"return {made};"]))
        if is_taken:
            self.methods.append(self.code(f"Tensor {name}_on_shards(const Tensor& t)", ["return t * 5.0;"]))
        split = f"{row}({name}({column}({v.name}).view({{batch, seq, num_heads, head_dim}})).flatten(2))"
        mean = "mean(-1, true)" if self.apart else "mean()"
        self.declared(Value(f"{split} + {name}({plain}({v.name})).{mean} * 0.1", v.shape, FULL), scope)

    # ---- Parameters by other names ----

    def kept_elsewhere(self, weight):
        """Another name for a parameter: its declaration, initializer, statement of the constructor, and how it is read."""
        name, struct = self.name("kept"), self.struct("Tensor t;")
        function = "std::function<Tensor()>"
        declaration, initializer, statement, read = self.pick([
            ("std::vector<Tensor> {0};", None, "{0}.push_back({1});", "{0}[0]"),
            ("std::vector<Tensor> {0};", "{0}{{{1}}}", None, "{0}.front()"),
            ("std::map<std::string, Tensor> {0};", None, '{0}["one"] = {1};', '{0}.at("one")'),
            (struct + " {0};", None, "{0}.t = {1};", "{0}.t"),
            (struct + " {0};", "{0}{{{1}}}", None, "{0}.t"),
            ("Tensor* {0} = nullptr;", None, "{0} = &{1};", "(*{0})"),
            (function + " {0};", None, "{0} = [this] {{ return {1}; }};", "{0}()"),
            (function + " {0};", None, "{0} = [held = {1}] {{ return held; }};", "{0}()"),
            ("std::shared_ptr<Tensor> {0};", None, "{0} = std::make_shared<Tensor>({1});", "(*{0})"),
            ("std::optional<Tensor> {0};", None, "{0} = {1};", "(*{0})"),
            ("Tensor {0};", None, "{0} = {1};", "{0}")])
        self.fields.append((declaration.format(name), initializer and initializer.format(name, weight)))
        if statement:
            self.made_lists.append(statement.format(name, weight))
        return read.format(name)

    def alias_of_full(self, scope):
        """A full parameter that a split value meets under another name: its gradient is a sum over ranks."""
        v, column, row = self.hidden_states(scope), self.layer("columns", self.H, self.hd), self.layer("rows", self.hd, self.H)
        weight, read = self.parameter([self.d]), self.name("kept")
        if self.chance(0.5):
            self.fields.append((f"Tensor {read};", f'{read}(register_buffer("{read}", {weight}))'))
        else:
            read = self.kept_elsewhere(weight)
        heads = f"{column}({v.name}).view({{batch, seq, num_heads, head_dim}})"
        return Value(f"{row}(({heads} * {read}.view({{head_dim}})).flatten(2))", v.shape, FULL)

    def alias_of_split(self, scope):
        """A split parameter that is read as if it were full."""
        v = self.hidden_states(scope)
        if self.chance(0.25):
            name, result = self.name("kept"), self.name("total")
            self.fields.append((f"std::vector<Tensor> {name};", None))
            self.made_lists.append(f"{name} = parameters();")
            self.layer("columns", self.H, self.M)
            self.lines += [f"Tensor {result} = torch::zeros({{1}});", f"for (const Tensor& one : {name}) {result} = {result} + one.square().sum();"]
            return Value(f"{v.name} * ({result} * 0.01)", v.shape, FULL)
        weight = self.pick([f"{self.layer('columns', self.H, self.M)}->weight", self.parameter([self.M, self.H], 0)])
        return Value(f"{v.name} * ({self.kept_elsewhere(weight)}.square().{self.pick(['sum', 'mean'])}() * 0.01)", v.shape, FULL)

    # ---- Alternatives of a member ----

    def alternatives(self, scope, differ=False):
        """A member that is one of two classes with layers of the same names."""
        self.use("alternatives of a member")
        v, name = self.hidden_states(scope), self.name("mlp")
        annotations = [("TP_COLWISE ", "TP_ROWWISE "), ("TP_COLWISE ", "TP_ROWWISE ")]
        if differ:
            annotations[self.pick([0, 1])] = ("", "")
        one, two = (f"{self.prefix}{self.name('Way')}" for _ in annotations)
        self.networks += [(one, *annotations[0]), (two, *annotations[1])]
        self.fields.append((f"OneOf<{one}, {two}> {name}{{nullptr}};", None))
        self.made_lists.append(f"if (config.num_layers {self.pick(['>', '<'])} 1) {name} = register_module(\"{name}\", {one}(config)); "
                               f"else {name} = register_module(\"{name}\", {two}(config));")
        self.declared(Value(f"{name}({v.name})", v.shape, FULL), scope)
