// The contract's functions for state space models.
#include "checks/execute/contract_in_double.h"
#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

/// An operand of a function whose operands are split the same way: its shape, the dimension of channels, heads or
/// groups, and the kind of its elements.
struct Alike {
  Shape shape;
  int64_t dim = 0;
  Elements elements = Elements::any;
};

/// Operands that are all split at their dimension or all full, with an occasional exception.
std::vector<Operand> alike(Sampler& sampler, const std::vector<Alike>& operands) {
  const bool split = sampler.chance(0.7);
  const std::vector<std::string> parts =
      sampler.chance(0.3) ? operands[0].shape[static_cast<size_t>(operands[0].dim)].parts : std::vector<std::string>();
  std::vector<Operand> sampled;
  for (const Alike& one : operands) {
    const Dimension& dimension = one.shape[static_cast<size_t>(one.dim)];
    const bool has_parts = parts.empty() || dimension.parts == parts;
    const ShardType fitting = split ? sharded(one.dim, has_parts ? parts : std::vector<std::string>()) : kInvariant;
    sampled.push_back(
        sampler.tensor(one.shape, sampler.chance(0.96) ? fitting : sampler.type_for(one.shape), one.elements));
  }
  return sampled;
}

Dimension of_size(int64_t size) { return {size, "", {}}; }

Application causal_conv1d(Sampler& sampler) {
  const Dimension channels = sampler.split_dimension();
  std::vector<Operand> operands = alike(
      sampler, {{{of_size(2), of_size(4), channels}, 2}, {{channels, of_size(1), of_size(3)}, 0}, {{channels}, 0}});
  if (sampler.chance(0.3)) operands[2] = sampler.undefined();
  return application(std::move(operands),
                     [](const Arguments& a) { return modular::causal_conv1d(a[0].tensor, a[1].tensor, a[2].tensor); });
}

Application gated_rms_norm(Sampler& sampler) {
  static const std::vector<Dimension> choices = {
      {8, "b", {"a", "a"}}, {16, "b * e", {"b", "b"}}, {16, "", {"a", "a * d"}}, {8, "a * e", {}}};
  const Dimension channels = sampler.one_of(choices);
  std::vector<Operand> operands = alike(
      sampler, {{{of_size(2), of_size(3), channels}, 2}, {{of_size(2), of_size(3), channels}, 2}, {{channels}, 0}});
  const bool split = operands[0].type.kind == ShardType::Kind::sharded;
  operands.push_back(sampler.chance(0.9) ? sampler.count("a", sampler.chance(0.95) ? split : !split)
                                         : sampler.literal(4));
  operands.push_back(sampler.real(1e-5));
  return application(std::move(operands), [](const Arguments& a) {
    return modular::gated_rms_norm(a[0].tensor, a[1].tensor, a[2].tensor, a[3].integer(), a[4].number);
  });
}

/// state_space_duality(x, dt, A, B, C, D, chunk_size)
Application state_space_duality(Sampler& sampler) {
  const Dimension groups = sampler.chance(0.5) ? Dimension{4, "a", {}} : Dimension{8, "b", {"a", "a"}};
  const Dimension heads = sampler.chance(0.5) ? groups : Dimension{8, "b", {"a", "a"}}, state = of_size(3);
  const Dimension batch = of_size(2), seq = of_size(5);
  std::vector<Operand> operands = alike(sampler, {{{batch, seq, heads, of_size(2)}, 2},
                                                  {{batch, seq, heads}, 2, Elements::positive},
                                                  {{heads}, 0},
                                                  {{batch, seq, groups, state}, 2},
                                                  {{batch, seq, groups, state}, 2},
                                                  {{heads}, 0}});
  operands.push_back(sampler.literal(sampler.integer(2, 6)));
  return application(std::move(operands), [](const Arguments& a) {
    return modular::state_space_duality(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, a[4].tensor, a[5].tensor,
                                        a[6].integer());
  });
}

/// selective_scan(x, dt, A, B, C, D)
Application selective_scan(Sampler& sampler) {
  const Dimension batch = of_size(2), seq = of_size(4), channels = sampler.split_dimension(), state = of_size(3);
  std::vector<Operand> operands = alike(sampler, {{{batch, seq, channels}, 2},
                                                  {{batch, seq, channels}, 2, Elements::positive},
                                                  {{channels, state}, 0},
                                                  {{channels}, 0}});
  const Shape shared = {batch, seq, state};
  for (int i = 0; i < 2; ++i)
    operands.insert(operands.end() - 1, sampler.tensor(shared, sampler.chance(0.95)  ? kInvariant
                                                               : sampler.chance(0.5) ? kReplicated
                                                                                     : kPartial));
  return application(std::move(operands), [](const Arguments& a) {
    return modular::selective_scan(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, a[4].tensor, a[5].tensor);
  });
}

/// without_padding(x, padding)
Application without_padding(Sampler& sampler) {
  Shape x = {sampler.dimension(), sampler.dimension(), sampler.dimension()};
  Operand padding = sampler.constant({x[0], x[1]}, sampler.chance(0.9) ? kInvariant : sharded(0), Elements::indices);
  if (x[0].size % 4 != 0 && padding.type.kind == ShardType::Kind::sharded) padding = sampler.undefined();
  if (sampler.chance(0.2)) padding = sampler.undefined();
  return application({sampler.tensor(x), padding},
                     [](const Arguments& a) { return modular::without_padding(a[0].tensor, a[1].tensor); });
}

}  // namespace

const OperationTable& state_space_operations() {
  static const OperationTable table = {
      {"causal_conv1d", causal_conv1d},
      {"gated_rms_norm", gated_rms_norm},
      {"state_space_duality", state_space_duality},
      {"selective_scan", selective_scan},
      {"without_padding", without_padding},
  };
  return table;
}

}  // namespace modgen::rule_properties
