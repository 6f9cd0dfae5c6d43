"""Functions of the module: methods, static methods, overloads, free functions, lambdas, other modules."""

from parts import FULL, WRONG, Value, Var
from statements import Statements

# Contract functions whose names a module's own functions may have. Such a module calls the contract's functions by
# qualified name.
OF_CONTRACT = ("rms_norm", "soft_cap", "activation", "rotary", "attention", "gated_activation", "causal_conv1d")


class Functions(Statements):
    def called(self, scope, _depth=0):
        """Adds a function of some of the values in scope, and a call of it."""
        kinds = [self.method, self.method, self.out_parameter, self.of_two, self.own_function, self.own_function]
        self.pick(kinds)(scope)

    def body(self, given, is_plain):
        """Parameters for values in scope, statements that use them, and the values in scope at the end."""
        outer, self.lines = self.lines, []
        was_plain, self.is_plain = self.is_plain, is_plain
        parameters = [Var(self.name("p"), v.shape, v.type) for v in given]
        inner = list(parameters)
        for _ in range(self.pick([1, 2, 3])):
            if is_plain:
                self.new_local(inner, 1)
            else:
                self.statement(inner, 1)
        self.is_plain = was_plain
        lines, self.lines = self.lines, outer
        # The sizes of the batch are not known in a method.
        sizes = [] if is_plain else ["const int64_t batch = 2, seq = 4;", "(void)batch, (void)seq;"]
        return parameters, inner, sizes + lines

    def given(self, scope):
        return self.random.sample(scope, min(len(scope), self.pick([1, 2])))

    @staticmethod
    def code(signature, lines, indent="  "):
        return f"{indent}{signature} {{\n" + "".join(f"{indent}  {line}\n" for line in lines) + f"{indent}}}\n"

    def method(self, scope):
        given = self.given(scope)
        parameters, inner, lines = self.body(given, False)
        result = self.pick(inner[-2:])
        number = self.pick(["", "double factor", "int64_t times"])
        name = self.pick(["mixed", "turned"]) if number else self.name("helper")
        if (name, len(parameters), number) in self.taken:
            name = self.name("helper")
        self.taken.add((name, len(parameters), number))
        end = {"": result.name, "double factor": f"{result.name} * factor",
               "int64_t times": f"{result.name} * static_cast<double>(times)"}[number]
        if self.chance(0.2):
            self.use("early returns")
            lines.append(f"if (deep) return {self.same_type(result, inner)}{' * 0.5' if number else ''};")
        signature = ", ".join([f"const Tensor& {p.name}" for p in parameters] + ([number] if number else []))
        self.methods.append(self.code(f"Tensor {name}({signature})", [*lines, f"return {end};"]))
        arguments = [v.name for v in given] + {"": [], "double factor": ["0.5"], "int64_t times": ["int64_t{2}"]}[number]
        self.use("overloads" if number else "methods")
        self.declared(Value(f"{name}({', '.join(arguments)})", result.shape, result.type), scope)

    def out_parameter(self, scope):
        self.use("out parameters")
        given = self.given(scope)
        parameters, inner, lines = self.body(given, False)
        result, name, out = self.pick(inner[-2:]), self.name("helper"), self.name("out")
        signature = ", ".join([f"const Tensor& {p.name}" for p in parameters] + [f"Tensor& {out}"])
        lines.append(f"{out} = {result.name};")
        if self.chance(0.3):
            lines.append(f"{out} = {out} * 0.5;")
        self.methods.append(self.code(f"void {name}({signature})", lines))
        alike = [v for v in scope if not v.is_const and v.shape == result.shape and v.type == result.type]
        if alike and self.chance(0.5):
            target = self.pick(alike)
        else:
            target = Var(self.name("t"), result.shape, result.type, False)
            self.lines.append(f"Tensor {target.name};")
            scope.append(target)
        self.lines.append(f"{name}({', '.join([*(v.name for v in given), target.name])});")

    def of_two(self, scope):
        self.use("functions of two results")
        given = self.given(scope)
        parameters, inner, lines = self.body(given, False)
        results = [self.pick(inner[-2:]), self.pick(inner)]
        name, names = self.name("helper"), [self.name("t"), self.name("t")]
        signature = ", ".join(f"const Tensor& {p.name}" for p in parameters)
        kind = self.pick([f"{self.prefix}Two", "std::pair<Tensor, Tensor>"])
        lines.append(f"return {{{results[0].name}, {results[1].name}}};")
        self.methods.append(self.code(f"{kind} {name}({signature})", lines))
        call = f"{name}({', '.join(v.name for v in given)})"
        self.lines.append(f"const auto [{names[0]}, {names[1]}] = {call};")
        for one, result in zip(names, results):
            scope.append(Var(one, result.shape, result.type))

    def own_function(self, scope):
        """A static method or a free function, possibly with the name of a function that has a rule."""
        given = self.given(scope)
        parameters, inner, lines = self.body(given, True)
        result = self.pick(inner[-2:])
        name = self.pick(OF_CONTRACT) if self.hides else self.name("helper")
        if name in self.taken or name in [lines_name for lines_name, *_ in self.functions]:
            name = self.name("helper")
        self.taken.add(name)
        signature = ", ".join(f"const Tensor& {p.name}" for p in parameters)
        arguments = [v.name for v in given]
        if name in OF_CONTRACT:
            self.use("functions named as rules")
            # With the parameters of the contract's function.
            more = {"rms_norm": (2, ", double"), "soft_cap": (1, ", double"), "attention": (2, ", double")}
            if name in more and more[name][0] == len(parameters):
                signature += more[name][1]
                arguments.append("0.5")
        lines.append(f"return {result.name};")
        if self.chance(0.5):
            self.use("static methods")
            self.methods.append(self.code(f"static Tensor {name}({signature})", lines))
            call = name
        else:
            self.use("free functions")
            self.functions.append((name, self.code(f"inline Tensor {name}({signature})", lines, "")))
            call = f"{self.family}::{name}" if name in OF_CONTRACT else name
        self.declared(Value(f"{call}({', '.join(arguments)})", result.shape, result.type), scope)

    def listed(self, v):
        """Values in a vector, concatenated. If they are split, modgen does not know the elements that are pushed back."""
        if v.type != FULL and not self.wild():
            return None
        self.use("vectors")
        name = self.name("list")
        if self.chance(0.5):
            self.lines += [f"std::vector<Tensor> {name};", f"{name}.push_back({v.name});", f"{name}.push_back(-{v.name});"]
        else:
            self.lines.append(f"const std::vector<Tensor> {name} = {{{v.name}, torch::tanh({v.name})}};")
        bad = v.type != FULL
        return Value(f"torch::stack({name}, 0).{self.pick(['sum', 'mean'])}(0)", v.shape, self.typed(None if bad else FULL))

    def lambda_call(self, v, scope):
        """A lambda that is called. modgen rejects it if its result or a capture is split."""
        if v.type != FULL and not self.wild():
            return None
        others = [w for w in scope if w.type == FULL and w.shape == v.shape]
        name, parameter = self.name("mix"), self.name("p")
        captured = self.pick(others).name if others and self.chance(0.6) else parameter
        capture = self.pick(["[&]", "[=]"]) if captured != parameter else "[]"
        if self.is_right and v.type != FULL:
            self.is_right = False
        self.use("lambdas")
        self.lines.append(f"const auto {name} = {capture}(const Tensor& {parameter}) {{ "
                          f"return torch::tanh({parameter}) * 0.5 + {captured}; }};")
        return Value(f"{name}({v.name})", v.shape, FULL if v.type == FULL else WRONG)

    # ---- Other modules ----

    def submodule(self, v):
        """A norm that is used for full and split values, or a small network, as a separate module."""
        if not v.shape or v.type == WRONG:
            return None
        last = v.shape[-1]
        if v.shape == [self.B, self.S, self.H] and v.type == FULL and self.chance(0.7):
            return self.network(v)
        if last not in (self.d, self.H) or v.type[0] == "partial" or v.type == ("split", len(v.shape) - 1):
            return None
        self.use("modules")
        key = (self.prefix + "Norm", last)
        name = self.submodules.get(key)
        if name is None:
            name = self.submodules[key] = self.name("norm")
            self.fields.append((f"{self.prefix}Norm {name};",
                                f'{name}(register_module("{name}", {self.prefix}Norm({last.in_constructor})))'))
        return Value(f"{name}({v.name})", v.shape, v.type)

    def network(self, v):
        self.use("modules")
        name, is_list = self.name("mlp"), self.chance(0.3)
        if not is_list:
            self.fields.append((f"{self.prefix}Network {name};",
                                f'{name}(register_module("{name}", {self.prefix}Network(config)))'))
            return Value(f"{name}({v.name})", v.shape, v.type)
        self.use("lists of modules")
        self.fields.append((f"ModuleListOf<{self.prefix}Network> {name};",
                            f'{name}(register_module("{name}", ModuleListOf<{self.prefix}Network>()))'))
        self.made_lists.append(f"for (int64_t i = 0; i < config.num_layers; ++i) {name}->push_back("
                               f"{self.prefix}Network(config));")
        result = self.name("t")
        self.lines += [f"Tensor {result} = {v.name};",
                       f"for (auto& layer : *{name}) {result} = {result} + layer({result});"]
        return Value(result, v.shape, v.type)
