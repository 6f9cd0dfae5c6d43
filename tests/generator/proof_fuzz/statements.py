"""Statements: locals, references, in-place changes, branches, loops."""

from layers import Layers
from parts import PARTIAL, FULL, WRONG, Value, Var


class Statements(Layers):
    def value(self, scope):
        """A new value computed from values in scope."""
        v = self.pick(scope[-4:] if self.chance(0.6) else scope)
        ways = self.plain_ways(scope)
        if not self.is_plain:
            ways += self.layer_ways() + [lambda one: self.lambda_call(one, scope), self.listed]
        right, fields, lines = self.is_right, list(self.fields), list(self.lines)
        for _ in range(20):
            made = self.pick(ways)(v)
            if made is not None and (self.is_right or not right or self.wildness > 0):
                return made
            self.is_right, self.fields[:], self.lines[:] = right, fields, lines
        return self.linear_map(v)

    def declared(self, value, scope):
        name = self.name("t")
        is_const = self.chance(0.5)
        kind = "const Tensor" if is_const else self.pick(["Tensor", "auto", "Tensor"])
        if kind == "auto" and value.text.startswith("-"):
            kind = "Tensor"
        self.lines.append(f"{kind} {name} = {value.text};")
        scope.append(Var(name, value.shape, value.type, is_const))
        return scope[-1]

    def statement(self, scope, depth=0):
        ways = [(self.new_local, 50), (self.reference, 8), (self.assignment, 8), (self.in_place, 6), (self.pair, 5)]
        if depth < 2:
            ways += [(self.branch, 9), (self.loop, 9), (self.switch, 3)]
        if depth < 1:
            ways += [(self.called, 12)]
        if depth < 1 and not self.is_plain and not self.is_quiet and scope[0].name == "x":
            ways += [(self.placed, 7)]
        if not self.is_plain and not self.is_quiet:
            ways += [(self.held, 9), (self.carried_local, 1)]
        choices, weights = zip(*ways)
        self.random.choices(choices, weights)[0](scope, depth)

    def new_local(self, scope, _depth):
        self.declared(self.value(scope), scope)

    # ---- References and assignments ----

    def reference(self, scope, _depth):
        v, name = self.pick(scope), self.name("r")
        if not v.is_const and self.chance(0.6):
            self.use("references that change")
            self.lines.append(f"{self.pick(['Tensor&', 'auto&'])} {name} = {v.name};")
            scope.append(Var(name, v.shape, v.type, False, v.alias_of or v))
            if self.chance(0.7):
                self.lines.append(f"{name} = {self.same_type(scope[-1], scope)};")
            return
        self.use("references")
        self.lines.append(f"{self.pick(['const Tensor&', 'const auto&'])} {name} = {v.name};")
        scope.append(Var(name, v.shape, v.type, True, v.alias_of or v))

    def assignment(self, scope, _depth):
        """Another value of the same shape and type for a local."""
        target = self.fresh(scope)
        self.lines.append(f"{target.name} = {self.same_type(target, scope)};")

    def fresh(self, scope):
        """A local that can be assigned; declares one if there is none."""
        targets = [v for v in scope if not v.is_const]
        if not targets or self.chance(0.3):
            v = self.pick(scope)
            name = self.name("t")
            self.lines.append(f"Tensor {name} = {v.name};")
            scope.append(Var(name, v.shape, v.type, False))
            return scope[-1]
        return self.pick(targets)

    def same_type(self, v, scope):
        """An expression with the shape and type of v; possibly with another type in a wild module."""
        alike = [w for w in scope if w.shape == v.shape and w.type == v.type]
        others = [w for w in scope if w.shape == v.shape and w.type != v.type]
        if others and self.wild():
            self.is_right = False
            v.type = WRONG
            return self.pick(others).name
        w = self.pick(alike or [v])
        if v.type in (PARTIAL, WRONG):
            return self.pick([f"{w.name} * 0.5", f"{v.name} + {w.name}", w.name])
        choices = [f"torch::tanh({w.name})", f"{v.name} * 0.5 + {w.name}", f"{w.name}.sigmoid() * {v.name}", w.name]
        return self.pick(choices if self.is_plain else choices + [f"deep ? {w.name} : {v.name}"])

    def in_place(self, scope, _depth):
        """An in-place change of a new tensor before it is read; of any tensor in a wild module."""
        self.use("changes in place")
        if self.wild() and any(not v.is_const for v in scope):
            target = self.pick([v for v in scope if not v.is_const])
            self.is_right = False
        else:
            v = self.pick(scope)
            made = self.pick([f"{v.name} * 0.5", f"{v.name}.clone()", f"-{v.name}", f"0.75 * {v.name}"])
            target = self.declared(Value(made, v.shape, v.type), scope)
            self.lines[-1] = f"Tensor {target.name} = {made};"
            target.is_const = False
        name = target.name
        if self.chance(0.3):
            name = self.name("r")
            self.lines.append(f"Tensor& {name} = {target.name};")
        same = [w for w in scope if w.shape == target.shape and w.type == target.type and w is not target]
        shapes = [w for w in scope if w.shape == target.shape and w is not target]
        changes = ["{0} *= 0.5;", "{0}.mul_(1.25);", "{0}.neg_();", "{0} /= 2.0;"]
        if target.type != PARTIAL:
            changes += ["{0} += 0.125;", "{0}.add_(0.25);"]
        if same:
            changes += ["{0} += {1};", "{0}.add_({1});", "{0} -= {1};"]
        if shapes and self.wild():
            self.is_right, same = False, shapes
            changes = ["{0} += {1};", "{0}.mul_({1});", "{0}.copy_({1});"]
        self.lines.append(self.pick(changes).format(name, self.pick(same).name if same else name))

    def pair(self, scope, _depth):
        """Two values returned as a pair or struct, and unpacked again."""
        v, w = self.pick(scope), self.pick(scope)
        first, second = self.name("t"), self.name("t")
        self.use("structured bindings")
        for value, name in ((v, first), (w, second)):
            scope.append(Var(name, value.shape, value.type))
        one, other = self.linear_map(v).text, w.name
        way = self.random.randrange(4)
        if way == 0:
            self.lines.append(f"const auto [{first}, {second}] = std::make_pair(Tensor({one}), {other});")
        elif way == 1:
            self.lines.append(f"const {self.prefix}Two {first}_{second}{{{one}, {other}}};")
            self.lines.append(f"const auto& [{first}, {second}] = {first}_{second};")
        elif way == 2:
            self.lines.append(f"const {self.prefix}Two {first}_{second}{{{one}, {other}}};")
            self.lines.append(f"const Tensor {first} = {first}_{second}.one;")
            self.lines.append(f"const Tensor& {second} = {first}_{second}.other;")
        else:
            self.lines.append(f"Tensor {first}, {second};")
            self.lines.append(f"std::tie({first}, {second}) = std::make_tuple(Tensor({one}), {other});")

    # ---- Branches and loops ----

    def block(self, scope, depth, count):
        """Statements in a separate scope."""
        outer, self.lines = self.lines, []
        inner = list(scope)
        for _ in range(count):
            self.statement(inner, depth + 1)
        lines, self.lines = self.lines, outer
        return inner, ["  " + line for line in lines]

    def changed(self, target, scope, depth, count=None):
        """A block that ends with an assignment to a local."""
        inner, lines = self.block(scope, depth, self.random.randrange(3) if count is None else count)
        return inner, lines + [f"  {target.name} = {self.same_type(target, inner)};"]

    def branch(self, scope, depth):
        target = self.fresh(scope)
        condition = self.pick(["deep", "!deep", "config.num_layers > 1", "seq > 2", "config.head_dim == 2 || deep",
                               f"{self.pick(scope).name}.dim() > 2"])
        self.lines.append(f"if ({condition}) {{")
        self.lines += self.changed(target, scope, depth)[1]
        if self.chance(0.5):
            self.lines.append("} else {")
            self.lines += self.changed(target, scope, depth)[1]
        self.lines.append("}")

    def switch(self, scope, depth):
        self.use("switches")
        target = self.fresh(scope)
        self.lines.append("switch (config.num_layers) {")
        for label in self.pick([["case 1:", "case 2:"], ["case 2:", "default:"], ["case 1:", "case 3:", "default:"]]):
            self.lines += [f"  {label} {{", *("  " + line for line in self.changed(target, scope, depth, 0)[1])]
            self.lines.append("    break;" if self.chance(0.8) or label == "default:" else "    [[fallthrough]];")
            self.lines.append("  }")
        if self.lines[-2] == "    [[fallthrough]];":
            self.lines[-2] = "    break;"
        self.lines.append("}")

    def loop(self, scope, depth):
        target = self.fresh(scope)
        index = self.name("i")
        form = self.pick(["for", "for", "for", "while", "do", "range"])
        self.use(f"loops ({form})")
        step = f"  ++{index};"
        if form == "for":
            bound = self.pick(["config.num_layers", "2", "3"])
            self.lines.append(f"for (int64_t {index} = 0; {index} < {bound}; ++{index}) {{")
        elif form == "range":
            pieces = self.pick(scope)
            self.lines.append(f"int64_t {index} = -1;")
            self.lines.append(f"for (const Tensor& {index}_piece : std::vector<Tensor>{{{pieces.name}, {pieces.name}}}) {{"
                              if pieces.type == FULL and self.chance(0.5) else
                              f"for (const int64_t {index}_number : {{0, 1, 2}}) {{")
            self.lines.append("  " + ("(void)" + self.lines[-1].split(" : ")[0].split()[-1] + ";"))
            self.lines.append(step)
        else:
            self.lines.append(f"int64_t {index} = -1;")
            self.lines.append(f"while ({index} < 2) {{" if form == "while" else "do {")
            self.lines.append(step)
        if not self.chance(0.4):
            self.lines += self.changed(target, scope, depth)[1]
        else:
            self.use("early exits of loops")
            word = self.pick(["break", "continue"])
            if self.chance(0.5):
                inner, lines = self.block(scope, depth, self.random.randrange(2))
                self.lines += [*lines, f"  if ({index} == 1) {word};",
                               f"  {target.name} = {self.same_type(target, inner)};"]
            else:
                self.lines.append(f"  if ({index} == 0) {{")
                self.lines += ["  " + line for line in self.changed(target, scope, depth, 0)[1]]
                self.lines += [f"    {word};", "  }"]
                self.lines += self.changed(target, scope, depth)[1]
        self.lines.append(f"}} while ({index} < 1);" if form == "do" else "}")
