// The contract's functions with one number per head.
#include "checks/execute/contract_in_double.h"
#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

/// alibi_slopes(heads, device)
Application alibi_slopes(Sampler& sampler) {
  return {
      {sampler.count(sampler.chance(0.5) ? "a" : "b", sampler.chance(0.6)), sampler.option("at::kCPU", "c10::Device")},
      [](const Arguments& a, Call call) -> Concrete {
        return call == Call::alibi_slopes ? modular::tp::alibi_slopes(a[0].integer(), at::kCPU)
                                          : modular::alibi_slopes(a[0].integer(), at::kCPU);
      }};
}

/// alibi_mask(batch, slopes, type)
Application alibi_mask(Sampler& sampler) {
  Shape slopes = {sampler.split_dimension()};
  if (sampler.chance(0.1)) slopes.insert(slopes.begin(), sampler.small_dimension());
  const auto last = static_cast<int64_t>(slopes.size()) - 1;
  const ShardType type = sampler.chance(0.6) ? sampler.split_at(slopes, last) : sampler.type_for(slopes);
  return application({batch(sampler), sampler.tensor(slopes, type), sampler.option("c10::kDouble", "c10::ScalarType")},
                     [](const Arguments& a) {
                       modular::Batch given;
                       given.input_ids = a[0].elements[0].tensor;
                       return modular::alibi_mask(given, a[1].tensor, at::kDouble);
                     });
}

/// attention_with_biases(query, key, value, biases, scale, dropout)
Application attention_with_biases(Sampler& sampler) {
  std::vector<Operand> operands = attended(sampler, Hidden::by_numbers);
  operands.push_back(sampler.real(0.5));
  const bool drops = sampler.chance(0.5);
  if (drops) operands.push_back(dropping_layer());
  return {std::move(operands), [=](const Arguments& a, Call call) -> Concrete {
            const auto &query = a[0].tensor, &key = a[1].tensor, &value = a[2].tensor, &biases = a[3].tensor;
            if (!drops) return modular::attention_with_biases(query, key, value, biases, a[4].number);
            const modular::nn::Dropout layer(kDropped);
            return call == Call::attention
                       ? modular::tp::attention_with_biases(query, key, value, biases, a[4].number, layer)
                       : modular::attention_with_biases(query, key, value, biases, a[4].number, layer);
          }};
}

/// attention_with_sinks(query, key, value, mask, scale, sinks)
Application attention_with_sinks(Sampler& sampler) {
  std::vector<Operand> operands = attended(sampler, Hidden::by_mask);
  Shape sinks = {{operands[0].full.tensor.size(1), "", {}}};
  if (sinks[0].size == 8) sinks[0].parts = {"a", "a"};
  if (sampler.chance(0.05)) sinks.insert(sinks.begin(), Dimension{1, "", {}});
  const auto last = static_cast<int64_t>(sinks.size()) - 1;
  ShardType type = operands[0].type == kInvariant ? kInvariant : sampler.split_at(sinks, last);
  if (sampler.chance(0.1)) type = sampler.type_for(sinks);
  operands.push_back(sampler.real(0.5));
  operands.push_back(sampler.tensor(sinks, type));
  return application(std::move(operands), [](const Arguments& a) {
    return modular::attention_with_sinks(a[0].tensor, a[1].tensor, a[2].tensor, make_mask(a[3]), a[4].number,
                                         a[5].tensor);
  });
}

}  // namespace

const OperationTable& head_operations() {
  static const OperationTable table = {
      {"alibi_slopes", alibi_slopes},
      {"alibi_mask", alibi_mask},
      {"attention_with_biases", attention_with_biases},
      {"attention_with_sinks", attention_with_sinks},
  };
  return table;
}

}  // namespace modgen::rule_properties
