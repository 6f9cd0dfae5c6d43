"""Synthetic specs for measuring: chains in which each family derives from the previous one, with a renamed Llama at
the root. Every family changes its config and, in turn, one of its classes."""

import pathlib

NORM = """  using {base}Impl::{base}Impl;

  Tensor forward(const Tensor& hidden_states) {{ return rms_norm(hidden_states, weight + {level}.0, eps); }}
"""
MLP = """  using {base}Impl::{base}Impl;

  Tensor forward(const Tensor& x) {{ return {base}Impl::forward(x) * {level}.0; }}
"""
ATTENTION = """  explicit {name}Impl(const {family}Config& config) : {base}Impl(config) {{
    q_proj = register_module("q_proj", linear(config.hidden_size, num_heads * head_dim, /*bias=*/true));
  }}
"""
LAYER = """  {name}Impl(const {family}Config& config, int64_t layer) : {base}Impl(config, layer), scale_{level}({level}.0) {{}}

  double scale_{level};
"""
CLASSES = [("RMSNorm", NORM), ("MLP", MLP), ("Attention", ATTENTION), ("DecoderLayer", LAYER)]


def names(chain, level):
    return f"chain{chain:02}_level{level:02}", f"Chain{chain:02}Level{level:02}"


def root(llama, chain):
    name, family = names(chain, 1)
    return llama.replace("Llama", family).replace("llama", name)


def derived(chain, level):
    name, family = names(chain, level)
    before, base_family = names(chain, level - 1)
    part, body = CLASSES[level % len(CLASSES)]
    declared = max(level - len(CLASSES), 1)  # the last level that declared this class
    declaring, declaring_family = names(chain, declared)
    base = f"{declaring_family}{part}"
    inherited = f"{declaring}::{base}Impl" if declared == level - 1 else f"{before}::Its<{declaring}::{base}Impl>"
    text = body.format(base=base, name=family + part, family=family, level=level)
    return f"""#pragma once

#include "modular/{before}.h"

namespace modular::{name} {{
MODULAR_FAMILY({family});

struct {family}Config : {before}::{base_family}Config {{
  int64_t max_position_embeddings = {1024 * level};
}};

class {family}{part}Impl : public {inherited} {{
 public:
{text}}};
TORCH_MODULE({family}{part});

using {family}ForCausalLM MODEL_ENTRY("causal-lm") = {before}::{base_family}ForCausalLM;

}}  // namespace modular::{name}
"""


def write(llama: str, folder: pathlib.Path, chains=20, levels=15):
    """Writes `chains` times `levels` specs into `folder`; `llama` is the text of modular/llama.h."""
    folder.mkdir(parents=True, exist_ok=True)
    for chain in range(chains):
        (folder / f"{names(chain, 1)[0]}.h").write_text(root(llama, chain))
        for level in range(2, levels + 1):
            (folder / f"{names(chain, level)[0]}.h").write_text(derived(chain, level))
