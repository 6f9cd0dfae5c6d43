// Counts that something refers to, which changes them: members of structs, captures, results, pointers to members.
#pragma once

#include <functional>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t inner_size = 16;
  int64_t num_heads = 4;
};

struct AlphaAlias {
  int64_t& count;
};
struct AlphaMade {
  explicit AlphaMade(int64_t& number) : count(number) {}
  int64_t& count;
};

class AlphaLayersImpl : public Module {
 public:
  explicit AlphaLayersImpl(const AlphaConfig& config)
      : kept(config.num_heads),
        up(register_module("up", linear(config.hidden_size, config.inner_size, false))),
        down(register_module("down", linear(config.inner_size, config.hidden_size, false))),
        listed(config.num_heads),
        made(config.num_heads),
        nested(config.num_heads),
        captured(config.num_heads),
        wrapped(config.num_heads),
        held(config.num_heads),
        chosen(config.num_heads),
        returned(config.num_heads),
        named(config.num_heads),
        cast(config.num_heads),
        read(config.num_heads),
        initial(config.num_heads),
        of_member(held) {
    const int64_t copy = kept, &same = kept;
    const std::vector<int64_t> all = {kept, copy, same};
    const std::optional<int64_t> maybe(kept);
    AlphaAlias alias{listed};
    alias.count = 2;
    AlphaMade other(made);
    other.count = 2;
    std::vector<AlphaAlias> aliases = {{nested}};
    aliases[0].count = 2;
    [&count = captured] { count = 2; }();
    std::reference_wrapper<int64_t> wrapper(wrapped);
    wrapper.get() = 2;
    of_member = 2;
    of_default = 2;
    (config.inner_size > 2 ? chosen : read) = 2;
    get() = 2;
    std::invoke(&AlphaLayersImpl::named, *this) = 2;
    const_cast<int64_t&>(static_cast<const int64_t&>(cast)) = 2;
  }

  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), seq = x.size(1);
    return down(up(x).view({batch, seq, kept, -1}).flatten(2)) + down(up(x).view({batch, seq, listed, -1}).flatten(2)) +
           down(up(x).view({batch, seq, made, -1}).flatten(2)) + down(up(x).view({batch, seq, nested, -1}).flatten(2)) +
           down(up(x).view({batch, seq, captured, -1}).flatten(2));
  }
  int64_t& get() { return returned; }

  TP_LOCAL int64_t kept;  // not one of them: it is only read
  TP_COLWISE nn::Linear up;
  TP_ROWWISE nn::Linear down;
  TP_LOCAL int64_t listed;
  TP_LOCAL int64_t made;
  TP_LOCAL int64_t nested;
  TP_LOCAL int64_t captured;
  TP_LOCAL int64_t wrapped;
  TP_LOCAL int64_t held;
  TP_LOCAL int64_t chosen;
  TP_LOCAL int64_t returned;
  TP_LOCAL int64_t named;
  TP_LOCAL int64_t cast;
  TP_LOCAL int64_t read;
  TP_LOCAL int64_t initial;
  int64_t& of_member;
  int64_t& of_default = initial;
};
TORCH_MODULE(AlphaLayers);

class MODEL_ENTRY("causal-lm") AlphaForCausalLMImpl : public Module {
 public:
  explicit AlphaForCausalLMImpl(const AlphaConfig& config)
      : embed(register_module("embed", embedding(16, config.hidden_size, std::nullopt))),
        layers(register_module("layers", AlphaLayers(config))) {}
  Outputs forward(const Batch& batch) {
    return {.logits = layers(embed(batch.input_ids)), .loss_sum = {}, .token_count = {}, .carried = {}};
  }
  nn::Embedding embed;
  AlphaLayers layers;
};
TORCH_MODULE(AlphaForCausalLM);

}  // namespace modular::alpha
