"""Writes random modules: each is a separate family, with a config, a class with a `forward`, and an entry."""

import random

from mistakes import Mistakes
from parts import PARTIAL, FULL, WRONG, Module, Var


NORM = """class {p}NormImpl : public Module {{
 public:
  explicit {p}NormImpl(int64_t size) : weight(register_parameter("weight", torch::empty({{size}}))) {{}}

  Tensor forward(const Tensor& x) {{ return modular::rms_norm(x, weight, 1e-3); }}

  Tensor weight;
}};
TORCH_MODULE({p}Norm);

"""

NETWORK = """class {name}Impl : public Module {{
 public:
  explicit {name}Impl(const {p}Config& config)
      : up_proj(register_module("up_proj", linear(config.hidden_size, config.intermediate_size, /*bias=*/true))),
        down_proj(register_module("down_proj", linear(config.intermediate_size, config.hidden_size, /*bias=*/true))) {{}}

  Tensor forward(const Tensor& x) {{ return down_proj(torch::tanh(up_proj(x))); }}

  {up}nn::Linear up_proj;
  {down}nn::Linear down_proj;
}};
TORCH_MODULE({name});

"""


class Writer(Mistakes):
    def to_hidden(self, v):
        """Reduces v to numbers, or to a value like the hidden states; None for a partial sum, and where that would mix
        what has to stay apart."""
        rank = len(v.shape)
        if v.type in (PARTIAL,):
            return None
        if v.type == FULL or v.type == WRONG:
            return v.name if v.shape == [self.B, self.S, self.H] else self.to_numbers(v, v.name)
        at = v.type[1]
        if not v.shape[at].in_constructor:
            return self.to_numbers(v, v.name)
        moved = v.name if at == rank - 1 else f"{v.name}.transpose({at}, {rank - 1})"
        layer = self.layer("rows", v.shape[at], self.H)
        if v.shape[:2] == [self.B, self.S] and rank == 3 and at == 2:
            return f"{layer}({moved})"
        return self.to_numbers(v, f"{layer}({moved})")

    def to_numbers(self, v, text):
        """The mean, or a mean at each position: of v, or of `text`, which has its rank and first dimensions."""
        if v.shape[:2] == [self.B, self.S] and len(v.shape) > 2 and (self.apart or self.chance(0.3)):
            others = ", ".join(self.dim(i, len(v.shape)) for i in range(2, len(v.shape)))
            return f"{text}.mean({{{others}}}).unsqueeze(-1) * 0.1"
        return None if any(dim in self.apart for dim in v.shape) else f"{text}.mean() * 0.1"

    def write(self):
        scope = [Var("x", [self.B, self.S, self.H], FULL)]
        count = self.random.randint(2, 5) if self.is_quiet else self.random.randint(4, 11)
        mistaken_after = self.random.randint(max(count - 4, 0), count - 1) if self.one_mistake else None
        for index in range(count):
            self.statement(scope)
            if index == mistaken_after:
                getattr(self, self.one_mistake)(scope)
        results = []
        for v in reversed(scope[1:]):
            if len(results) < 3 and (text := self.to_hidden(v)):
                results.append(text)
        outcome = " + ".join(["x", *results])
        body = "".join(f"    {line}\n" for line in self.lines)
        return Module(self.family, self.text(body, outcome), self.is_right, self.used_features)

    def network_annotations(self):
        """A class with its own layers; a wild one may have wrong annotations."""
        up, down = "TP_COLWISE ", "TP_ROWWISE "
        if self.wild():
            up, down = self.pick([(down, up), ("", down), (up, ""), (up, up), (down, down)])
            self.is_right = self.is_right and not any("Network" in declaration for declaration, _ in self.fields)
        return up, down

    def text(self, body, outcome):
        p = self.prefix
        initializers = "".join(f",\n        {initializer}" for _, initializer in self.fields if initializer)
        fields = "".join(f"  {declaration}\n" for declaration, _ in self.fields)
        methods = "".join(code + "\n" for code in self.methods)
        functions = "".join(code + "\n" for _, code in self.functions)
        lists = "".join(f"\n    {line}" for line in self.made_lists) + ("\n  " if self.made_lists else "")
        heads = "TP_LOCAL int64_t num_heads;"
        inner = "TP_LOCAL int64_t inner_size;"
        if self.wildness > 0 and self.chance(0.08):
            self.is_right = False
            heads, inner = self.pick([(heads[9:], inner), (heads, inner[9:])])
        vocabulary = self.pick(["TP_VOCAB ", ""])
        embedding = self.pick(["TP_VOCAB ", ""])
        up, down = self.network_annotations()
        unit = "FSDP_UNIT " if self.chance(0.1) else ""  # slow to compile
        is_listed = self.chance(0.5)
        member = f"PP_SPLIT ModuleListOf<{p}Block> blocks;" if is_listed else f"{p}Block block;"
        made = f'blocks(register_module("blocks", ModuleListOf<{p}Block>()))' if is_listed else \
            f'block(register_module("block", {p}Block(config)))'
        first, last = ("PP_FIRST ", "PP_LAST ") if is_listed else ("", "")
        filled = f"blocks->push_back({p}Block(config));" if is_listed else ""
        run = "for (auto& block : *blocks) hidden_states = block(hidden_states);" if is_listed else \
            "hidden_states = block(hidden_states);"
        submodules = NORM.format(p=p) if self.submodules else ""
        if any("Network" in declaration for declaration, _ in self.fields):
            submodules += NETWORK.format(p=p, name=f"{p}Network", up=up, down=down)
        submodules += "".join(NETWORK.format(p=p, name=name, up=up, down=down) for name, up, down in self.networks)
        structs = "".join(f"struct {name} {{\n{members.replace('@', name)}}};\n\n" for members, name in self.structs.items())
        includes = "".join(f"#include <{one}>\n" for one in ("any", "deque", "functional", "map", "numeric", "span", "sstream", "unordered_map"))
        return f"""#pragma once
{includes if self.structs else ''}#include "modular/modular.h"

namespace modular::{self.family} {{
MODULAR_FAMILY({p});

struct {p}Config : Config {{
  int64_t vocab_size = {self.vocab};
  int64_t hidden_size = {self.hidden};
  int64_t intermediate_size = {self.inner};
  int64_t num_heads = {self.heads};
  int64_t head_dim = {self.head_dim};
  int64_t num_layers = 2;
}};

struct {p}Two {{
  Tensor one, other;
}};

struct {p}Refers {{
  Tensor& one;
  const Tensor& other;
}};

{structs}{functions}{submodules}class {p}BlockImpl : public Module {{
 public:
  explicit {p}BlockImpl(const {p}Config& config)
      : config(config),
        num_heads(config.num_heads),
        head_dim(config.head_dim),
        inner_size(config.intermediate_size),
        deep(config.num_layers > 2),
        keeps(config.num_layers > 1),
        drops(config.num_layers > 3){initializers} {{{lists}}}

  Tensor forward(const Tensor& x) {{
    const int64_t batch = x.size(0), seq = x.size(1);
    (void)batch, (void)seq;
{body}    return {outcome};
  }}

{methods}  {p}Config config;
  {heads}
  int64_t head_dim;
  {inner}
  bool deep, keeps, drops;
{fields}}};
TORCH_MODULE({p}Block);

class MODEL_ENTRY("causal-lm") {unit}{p}ForCausalLMImpl : public Module {{
 public:
  explicit {p}ForCausalLMImpl(const {p}Config& config)
      : embed(register_module("embed", embedding(config.vocab_size, config.hidden_size, std::nullopt))),
        {made},
        head(register_module("head", linear(config.hidden_size, config.vocab_size, /*bias=*/true))) {{{filled}}}

  Outputs forward(const Batch& batch) {{
    Tensor hidden_states = embed(batch.input_ids);
    {run}
    const Tensor logits = head(torch::tanh(hidden_states));
    Outputs outputs;
    if (batch.labels.defined()) {{
      outputs.loss_sum = cross_entropy(logits, batch.labels);
      outputs.token_count = count_targets(batch.labels);
    }}
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }}

  {first}{embedding}nn::Embedding embed;
  {member}
  {last}{vocabulary}nn::Linear head;
}};
TORCH_MODULE({p}ForCausalLM);

}}  // namespace modular::{self.family}
"""


def write_module(seed, family, wild):
    """A module from a seed: right by construction, or if `wild`, with one or more mistakes."""
    chosen = random.Random(seed)
    if not wild:
        return Writer(seed, family, 0.0).write()
    kind = chosen.random()
    if kind < 0.6:
        return Writer(seed, family, 0.0, mistake="mistake" if kind < 0.3 else "hidden_mistake").write()
    return Writer(seed, family, chosen.choice([0.04, 0.12, 0.3])).write()
