"""Values in containers, lambdas that change their captures, pointers, and references in objects."""

from functions import Functions
from parts import PARTIAL, FULL, WRONG, Value, Var


class Holders(Functions):
    def held(self, scope, _depth=0):
        """Values that are read and changed through a container, lambda, pointer or reference."""
        ways = [(self.container, 30), (self.optional, 25), (self.changing_lambda, 2), (self.mutable_lambda, 1), (self.referring, 1),
                (self.pointer, 1)]  # modgen rejects most of the last four
        choices, weights = zip(*ways)
        self.random.choices(choices, weights)[0](scope)

    def target(self, scope):
        """A local to change, usually a full one, since modgen rejects many changes of split values."""
        full = [v for v in scope if v.type == FULL]
        return self.fresh(full if full and self.chance(0.75) and any(not v.is_const for v in full) else scope)

    def another(self, name, v):
        """A value with the shape and type of `v`, stored in `name`; possibly with another type in a wild module."""
        if self.wild():
            self.is_right, v.type = False, WRONG
            return f"{name}.square() + 0.5"
        if v.type in (PARTIAL, WRONG):
            return self.pick([f"{name} * 0.5", f"-{name}"])
        return self.pick([f"torch::tanh({name})", f"{name} * 0.5", f"{name}.sigmoid() * {name}"])

    # ---- Lambdas ----

    def changing_lambda(self, scope):
        self.use("lambdas that change what they capture")
        v, name, way = self.target(scope), self.name("change"), self.random.randrange(5)
        other = self.name("alias")
        changed = self.another({1: other, 2: other}.get(way, v.name), v)
        made = {0: f"const auto {name} = [&] {{ {v.name} = {changed}; }};",
                1: f"const auto {name} = [&{other} = {v.name}] {{ {other} = {changed}; }};",
                2: f"const auto {name} = [](Tensor& {other}) {{ {other} = {changed}; }};",
                3: f"const std::function<void()> {name} = [&] {{ {v.name} = {changed}; }};",
                4: f"const auto {name} = [&]() -> Tensor& {{ {v.name} = {changed}; return {v.name}; }};"}[way]
        self.lines.append(made)
        if self.chance(0.3):  # it changes the value at the time of the call
            self.lines.append(f"{v.name} = {self.another(v.name, v)};")
        call = f"{name}({v.name})" if way == 2 else f"{name}()"
        if way == 4 and self.chance(0.6):
            call = f"{call} = {self.another(v.name, v)}"
        for _ in range(self.pick([1, 1, 2])):
            self.lines.append(f"if (keeps) {call};" if self.chance(0.2) else f"{call};")

    def mutable_lambda(self, scope):
        """A lambda that changes its copy, so that the captured variable stays the same."""
        self.use("lambdas that change copies")
        v, name = self.pick(scope), self.name("turned")
        copy, result = self.name("copy"), Var(self.name("t"), v.shape, v.type)
        self.lines += [f"auto {name} = [{copy} = Tensor({v.name})]() mutable {{ {copy} = {copy} * 0.5; return {copy}; }};",
                       f"const Tensor {result.name} = {name}() + {name}();"]
        scope.append(result)

    # ---- Containers ----

    def container(self, scope):
        self.use("containers that change")
        full = [v for v in scope if v.type == FULL]
        v, name, item = self.pick(full if full and self.chance(0.75) else scope), self.name("list"), self.name("item")
        kind = self.pick(["std::vector<Tensor>", "std::array<Tensor, 2>", "std::vector<Tensor>"])
        one, is_linear = Var(item, v.shape, v.type), v.type in (PARTIAL, WRONG)
        self.lines.append(f"{kind} {name} = {{{v.name}, {self.linear_map(v).text}}};")
        if self.wild():
            others = [w for w in scope if w.shape == v.shape and w.type != v.type]
            if others:
                self.is_right, one.type = False, WRONG
                self.lines.append(f"{name}[{self.pick('01')}] = {self.pick(others).name};")
        for _ in range(self.pick([1, 1, 2])):
            changed = self.another(item, one)
            index = self.pick(["0", "1", "config.num_layers - 1"])
            changes = [[f"{name}[{index}] = {changed.replace(item, f'{name}[{index}]')};"],
                       [f"Tensor& {item} = {name}[{index}];", f"{item} = {changed};"],
                       [f"for (Tensor& {item} : {name}) {item} = {changed};"],
                       [f"{name}.back() = {changed.replace(item, f'{name}.front()')};"],
                       [f"std::swap({name}[0], {name}[1]);"]]
            if self.chance(0.2):  # which modgen rejects
                changes += [[f"for (auto {item}_at = {name}.begin(); {item}_at != {name}.end(); ++{item}_at) "
                             f"*{item}_at = {changed.replace(item, f'(*{item}_at)')};"]]
            if kind.startswith("std::vector"):
                changes += [[f"{name}.push_back({changed.replace(item, f'{name}.back()')});"],
                            [f"{name}.insert({name}.begin(), {changed.replace(item, f'{name}.back()')});"]]
            self.lines.append("{")
            self.lines += ["  " + line for line in self.pick(changes)]
            self.lines.append("}")
        read = self.pick([f"{name}[0] + {name}[1]", f"{name}.front()", f"{name}.back() * 0.5", f"{name}.at(1)",
                          f"{name}.begin()->neg()", f"*std::next({name}.begin()) * 0.75"])
        if not is_linear and kind.startswith("std::vector") and self.chance(0.2):
            read = f"torch::stack({name}, 0).mean(0)"
            one.type = one.type if one.type == FULL else WRONG
            self.is_right = self.is_right and one.type == FULL
        self.declared(Value(f"({read})", v.shape, one.type), scope)

    def optional(self, scope):
        self.use("optionals")
        v, name = self.pick(scope), self.name("maybe")
        alike = [w for w in scope if w.shape == v.shape and w.type == v.type]
        other, type = self.pick(alike), v.type
        others = [w for w in scope if w.shape == v.shape and w.type != v.type]
        if others and self.wild():
            self.is_right, type, other = False, WRONG, self.pick(others)
        condition = self.pick(["deep", "keeps", "drops", "seq > 2"] if not self.is_plain else ["true"])
        self.lines += [f"std::optional<Tensor> {name};", f"if ({condition}) {name} = {v.name};"]
        read = self.pick([f"{name} ? *{name} : {other.name}", f"{name}.has_value() ? {name}.value() : {other.name}",
                          f"{name}.value_or({other.name})"])
        self.declared(Value(f"({read})", v.shape, type), scope)

    # ---- References ----

    def referring(self, scope):
        """An object with a reference."""
        self.use("references in objects")
        v, name, other = self.target(scope), self.name("refers"), self.pick(scope)
        self.lines.append(f"{self.prefix}Refers {name}{{{v.name}, {other.name}}};")
        for _ in range(self.pick([1, 1, 2])):
            self.lines.append(f"{name}.one = {self.another(self.pick([v.name, f'{name}.one']), v)};")
        scope.append(Var(self.name("t"), other.shape, other.type))
        self.lines.append(f"const Tensor {scope[-1].name} = {name}.other{self.pick(['', ' * 0.5', '.clone()'])};")

    def pointer(self, scope):
        self.use("pointers")
        v, name = self.target(scope), self.name("pointer")
        self.lines.append(f"Tensor* {name} = &{v.name};")
        alike = [w for w in scope if not w.is_const and w is not v and w.shape == v.shape and w.type == v.type]
        last = v
        if alike and self.chance(0.4):
            last = self.pick(alike)
            self.lines.append(f"{'if (keeps) ' if self.chance(0.4) else ''}{name} = &{last.name};")
        self.lines.append(f"*{name} = {self.another(f'(*{name})', v)};")
        last.type = v.type
