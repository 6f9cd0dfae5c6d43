"""Mistakes with numbers: local counts that are no share any more, and numbers that C++ narrows."""

from carriers import Carriers
from parts import FULL, Value, split


class Counts(Carriers):
    def count_mistakes(self):
        return {
            "shares counted up": self.counted_up,
            "shares cut to integers": self.cut_to_integer,
            "counts changed in a constructor": self.changed_in_constructor,
            "counts cut in a constructor": self.cut_in_constructor,
            "narrow numbers": self.narrow_dimension,
            "numbers computed from shares": self.computed_from_share,
            "references to shares": self.share_by_reference,
            "rewritten comparisons": self.rewritten_comparison,
        }

    # ---- Numbers computed from shares ----

    def counted_up(self, scope):
        """A share plus or minus one, which is as many on each rank as on one process times the number of ranks only by chance."""
        share, size = self.pick([("num_heads", self.heads), ("inner_size", self.inner)])
        name, grow, start = self.name("n"), self.name("grow"), f" = {share};"
        up, down = size + 1, size - 1
        ways = [([f"++{name};"], up), ([f"{name}++;"], up), ([f"--{name};"], down), ([f"{name}--;"], down), ([f"++{name};"], up),
                ([f"if (--{name} > 0) {name} = {name};"], down), ([f"{name} += 1;"], up), ([f"{name} -= 1;"], down),
                ([f"const auto {grow} = [](int64_t& count) {{ ++count; }};", f"{grow}({name});"], up),
                ([f"int64_t& {grow} = {name};", f"++{grow};"], up),
                ([f"int64_t* {grow} = &{name};", f"++*{grow};"], up),
                ([f"{name} = {name} + 1;"], up)]
        lines, value = self.pick(ways)
        self.lines += [f"int64_t {name}{start}", *lines]
        return self.judged(scope, name, value, share, size)

    def cut_to_integer(self, scope):
        share, size = self.pick([("num_heads", self.heads), ("inner_size", self.inner)])
        name, factor = self.name("few"), self.pick([0.75, 0.6, 0.4, 0.3])
        self.lines.append(self.pick([f"const int64_t {name} = {share} * {factor};",
                                     f"const auto {name} = static_cast<int64_t>({share} * {factor});",
                                     f"const int {name} = static_cast<double>({share}) * {factor};"]))
        return self.judged(scope, name, int(size * factor), share, size)

    def computed_from_share(self, scope):
        """A number that is another one on each rank, as a factor."""
        share, v, name = self.pick(["num_heads", "inner_size"]), self.full(scope), self.name("number")
        made = self.pick([f"{share} % 3 + 1", f"std::max<int64_t>({share}, 3)", f"std::min<int64_t>({share}, 3)", f"{share} == 4 ? 2 : 3",
                          f"{share} ? {share} : 1", f"({share} & 6) + 1", f"std::abs({share} - 3) + 1", f"{share} * {share}", f"std::sqrt({share})",
                          f"1.0 / {share}", f"-{share}", f"{share} << 1", f"({share} ^ 1) + 1", f"std::vector<int64_t>({share}, 1).size()",
                          f"std::vector<int64_t>{{{share}}}[0]", f"std::string({share}, 'a').size()", f"std::pair(1, {share}).second",
                          f"[=, this] {{ return {share}; }}()", f"std::to_string({share}).size() + {share}",
                          f"std::optional<int64_t>({share}).value()", f"torch::arange({share}).numel()",
                          f"torch::full({{1}}, {share}).item<double>()", f"std::array<int64_t, 1>{{{share}}}.front()",
                          f"static_cast<double>({share})", f"static_cast<float>({share}) * 0.5", f"*std::make_shared<int64_t>({share})",
                          f"std::accumulate(&{share}, &{share} + 1, 0)", f"(void(0), {share})", f"{share} > 2 && {share} < 5", f"!({share} - 4) + 1"])
        self.lines.append(f"const {self.pick(['auto', 'double', 'int64_t'])} {name} = {made};")
        return Value(f"{v.name} * static_cast<double>({name})", v.shape, FULL)

    def judged(self, scope, count, value, share, size):
        """Something that depends on the relation of a count to a share: it is `value` to `size` on one process."""
        v = self.full(scope)
        if self.chance(0.25) and value > size:
            result = self.name("t")
            self.lines += [f"Tensor {result} = {v.name};", f"for (; {count} > {share} / 2; --{count}) {result} = {result} * 0.75;"]
            return Value(result, v.shape, FULL)
        form = self.pick(["{0} * {1} == {2} * {3} ? 2.0 : 3.0", "{0} * {1} != {2} * {3} ? 2.0 : 3.0",
                          "{0} * {1} >= {2} * {3} && {0} * {1} <= {2} * {3} ? 0.5 : 1.5"])
        return Value(f"{v.name} * ({form.format(count, size, share, value)})", v.shape, FULL)

    def full(self, scope):
        return self.pick([v for v in scope if v.type == FULL])

    # ---- Counts of constructors ----

    def changed_in_constructor(self, scope):
        name, less = self.name("few"), self.heads - 2
        helper, alias, struct = self.name("lower"), self.name("alias"), self.struct("int64_t& count;")
        line = self.pick([f"{name} -= {less};", f"{name} = {name} - {less};", f"int64_t& {alias} = {name};\n    {alias} -= {less};",
                          f"std::tie({name}, std::ignore) = std::make_tuple({name} - {less}, 0);", f"[&] {{ {name} -= {less}; }}();",
                          f"for (int64_t i = 0; i < {less}; ++i) --{name};", f"{helper}({name});", f"{helper}();", f"this->{name} -= {less};",
                          f"int64_t* {alias} = &{name};\n    *{alias} -= {less};", f"auto& {alias} = {name};\n    {alias} = 2;",
                          f"int64_t {alias} = 2;\n    std::swap({name}, {alias});", f"std::exchange({name}, 2);",
                          f"{struct} {alias}{{{name}}};\n    {alias}.count = 2;", f"for (int64_t* {alias} : {{&{name}}}) *{alias} = 2;",
                          f"const auto {alias} = [](int64_t& count) {{ count = 2; }};\n    {alias}({name});",
                          f"const auto {alias} = std::ref({name});\n    {alias}.get() = 2;", f"if (config.num_layers > 1) {name} = 2;",
                          f"{name} = config.num_layers > 1 ? 2 : {name};", f"std::istringstream(\"2\") >> {name};"])
        if line == f"{helper}({name});":
            self.functions.append((helper, self.code(f"inline void {helper}(int64_t& count)", [f"count -= {less};"], "")))
        elif line == f"{helper}();":
            self.methods.append(self.code(f"void {helper}()", [f"{name} -= {less};"]))
        self.made_lists.append(line)
        return self.grouped(scope, name, f"{name}(config.num_heads)")

    def cut_in_constructor(self, scope):
        name, factor = self.name("few"), 2 / self.heads
        made = self.pick([f"{name}(config.num_heads * {factor})", f"{name}(static_cast<int64_t>(config.num_heads * {factor}))",
                          f"{name}(config.num_heads - {self.heads - 2})", f"{name}(std::min<int64_t>(config.num_heads, 2))"])
        return self.grouped(scope, name, made)

    def grouped(self, scope, count, made):
        """A norm of groups of features: two groups on one process, which no four ranks share."""
        v = self.pick([v for v in scope if v.shape == [self.B, self.S, self.H] and v.type == FULL])
        self.fields.append((f"TP_LOCAL int64_t {count};", made))
        groups = self.name("groups")
        self.lines.append(f"const Tensor {groups} = {self.layer('columns', self.H, self.hd)}({v.name})"
                          f".view({{batch, seq, {count}, -1}});")
        normed = f"({groups} * torch::rsqrt({groups}.square().mean(-1, true) + 1.0)).flatten(2)"
        return Value(f"{self.layer('rows', self.hd, self.H)}({normed})", v.shape, FULL)

    def share_by_reference(self, scope):
        """A reference to a count, which the generated code computes where it is named."""
        v = self.pick([v for v in scope if v.shape == [self.B, self.S, self.H] and v.type == FULL])
        name, column, row = self.name("n"), self.layer("columns", self.H, self.hd), self.layer("rows", self.hd, self.H)
        line, count = self.pick([(f"int64_t& {name} = num_heads;", name), (f"auto& {name} = num_heads;", name),
                                 (f"int64_t* {name} = &num_heads;", f"*{name}"),
                                 (f"const auto {name} = [](int64_t& count) {{ return count; }};", f"{name}(num_heads)")])
        self.lines.append(line)
        return Value(f"{row}(torch::tanh({column}({v.name}).view({{batch, seq, {count}, -1}})).flatten(2))", v.shape, FULL)

    # ---- Numbers of other types ----

    def narrow_dimension(self, scope):
        """A dimension in a type that cannot hold it: C++ reduces the split one."""
        parted = [v for v in scope if v.type[0] == "split" and len(v.shape) > 1] or [self.parted(scope)]
        v, name = self.pick(parted), self.name("dim")
        at, struct = v.type[1], self.struct("uint64_t dim : 2;")
        ways = [f"const int8_t {name} = {256 + at};", f"const int8_t {name} = {256 + at - len(v.shape)};", f"const uint8_t {name} = {256 + at};",
                f"int8_t {name} = {100 + at};\n    {name} += 156;", f"const int {name} = {at}.75;",
                f"const int16_t {name} = {65536 + at};", f"const int {name} = 4294967296 + {at};"]
        read = name
        if self.chance(0.3):
            ways, read = [f"const {struct} {name}{{{at + 4}}};"] if at < 4 else ways, f"static_cast<int64_t>({name}.dim)" if at < 4 else name
        self.lines += self.pick(ways).split("\n    ")
        return Value(f"{v.name} * torch::tanh({v.name}.sum({read}, true))", v.shape, v.type)

    def rewritten_comparison(self, scope):
        """`!=` and `<` that C++ writes with other operators, of sizes that ranks split."""
        parted = [v for v in scope if v.type[0] == "split" and v.shape] or [self.parted(scope)]
        v, one, two = self.pick(parted), self.name("one"), self.name("two")
        size = f"t.size({v.type[1]})"
        operator, asked = self.pick([
            (f"bool operator==(const @&) const {{ return {size} == {v.shape[v.type[1]].size}; }}", f"{one} != {two}"),
            (f"auto operator<=>(const @&) const {{ return {size} <=> int64_t{{{v.shape[v.type[1]].size}}}; }}",
             self.pick([f"{one} < {two}", f"{one} >= {two}"]))])
        struct = self.struct("Tensor t;", operator)
        self.lines.append(f"const {struct} {one}{{{v.name}}}, {two}{{{v.name}}};")
        full = self.full(scope)
        return Value(f"{full.name} * ({asked} ? 2.0 : 3.0)", full.shape, FULL)

    def parted(self, scope):
        """A new split value."""
        made = Value(f"{self.layer('columns', self.H, self.M)}({scope[0].name})", [self.B, self.S, self.M], split(2))
        return self.declared(made, scope)
