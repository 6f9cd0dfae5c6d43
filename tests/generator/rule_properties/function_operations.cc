// The contract's functions.
#include <algorithm>

#include "checks/execute/contract_in_double.h"
#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;

std::optional<Tensor> given(const Arguments& arguments, size_t i) {
  return i < arguments.size() && arguments[i].tensor.defined() ? std::optional(arguments[i].tensor) : std::nullopt;
}

// ---- Norms ----

ShardType of_parameter(Sampler& sampler, const Shape& shape) {
  return sampler.chance(0.85) ? kInvariant : sampler.type_for(shape);
}

Application rms_norm(Sampler& sampler) {
  Shape x = sampler.shape(1, 4);
  const bool over_all_heads = sampler.chance(0.4);
  if (over_all_heads) x.back() = sampler.split_dimension();
  const Shape features = {x.back()};
  if (!over_all_heads && sampler.chance(0.15)) x.back() = {1, "", {}};  // the weight stretches it
  ShardType of_x = sampler.type_for(x), of_weight = of_parameter(sampler, features);
  if (over_all_heads && sampler.chance(0.8)) {
    of_weight = sampler.split_at(features, 0);
    of_x = sharded(static_cast<int64_t>(x.size()) - 1, sampler.chance(0.9) ? of_weight.parts : x.back().parts);
  }
  return {{sampler.tensor(x, of_x), sampler.tensor(features, of_weight), sampler.real(1e-6)},
          [](const Arguments& a, Call call) {
            return call == Call::rms_norm ? modular::tp::rms_norm(a[0].tensor, a[1].tensor, a[2].number)
                                          : modular::rms_norm(a[0].tensor, a[1].tensor, a[2].number);
          }};
}

/// torch::layer_norm(x, shape, weight, bias, eps)
Application layer_norm(Sampler& sampler) {
  const Shape x = sampler.shape(2, 4);
  const Shape features(x.end() - (sampler.chance(0.7) ? 1 : 2), x.end());
  std::vector<Operand> shape;
  for (const Dimension& dimension : features)
    shape.push_back(!dimension.text.empty() && sampler.chance(0.5) ? sampler.count(dimension.text, false)
                                                                   : sampler.number(dimension.size));
  const ShardType type = of_parameter(sampler, features);
  std::vector<Operand> operands = {sampler.tensor(x), sampler.list(std::move(shape))};
  if (sampler.chance(0.9)) operands.push_back(sampler.tensor(features, type));
  if (operands.size() == 3 && sampler.chance(0.8)) {
    operands.push_back(sampler.chance(0.8) ? sampler.tensor(features, type) : sampler.undefined());
    operands.push_back(sampler.real(1e-5));
  }
  return application(std::move(operands), [](const Arguments& a) {
    return at::layer_norm(a[0].tensor, a[1].integers(), given(a, 2), given(a, 3), 1e-5);
  });
}

// ---- Activations ----

Application activation(Sampler& sampler) {
  return application({sampler.text("silu"), sampler.tensor(sampler.shape(0, 4))},
                     [](const Arguments& a) { return modular::activation(a[0].text, a[1].tensor); });
}

Application gated_activation(Sampler& sampler) {
  std::vector<Operand> operands = sampler.tensors(sampler.broadcasting(2));
  operands.insert(operands.begin(), sampler.text("gelu"));
  return application(std::move(operands),
                     [](const Arguments& a) { return modular::gated_activation(a[0].text, a[1].tensor, a[2].tensor); });
}

Application soft_cap(Sampler& sampler) {
  return application({sampler.tensor(sampler.shape(0, 4)), sampler.real(0.75)},
                     [](const Arguments& a) { return modular::soft_cap(a[0].tensor, a[1].number); });
}

// ---- Attention ----

/// [batch, heads, seq, features]
Shape heads_shape(const Dimension& heads, int64_t seq, int64_t features) {
  return {{2, "", {}}, heads, {seq, "", {}}, {features, features == 2 ? "e" : "", {}}};
}

ShardType of_heads(Sampler& sampler, const Shape& shape) {
  if (sampler.chance(0.6)) return sampler.split_at(shape, 1);
  return sampler.chance(0.6) ? kInvariant : sampler.type_for(shape);
}

SampleOperation rotary(Tensor (*function)(const Tensor&, const Tensor&, const Tensor&)) {
  return [=](Sampler& sampler) {
    const int64_t seq = sampler.integer(2, 4), features = sampler.chance(0.5) ? 4 : 6;
    Shape x = heads_shape(sampler.split_dimension(), seq, features);
    for (const size_t stretched : {size_t{0}, size_t{2}})
      if (sampler.chance(0.1)) x[stretched] = {1, "", {}};
    const Shape table = {{sampler.chance(0.5) ? 1 : 2, "", {}}, {seq, "", {}}, {4, "", {}}};
    const bool learned = sampler.chance(0.3);
    const ShardType type = sampler.chance(0.9) ? kInvariant : sampler.type_for(table);
    const auto sampled = [&] { return learned ? sampler.tensor(table, type) : sampler.constant(table, type); };
    return application({sampler.tensor(x, of_heads(sampler, x)), sampled(), sampled()},
                       [=](const Arguments& a) { return function(a[0].tensor, a[1].tensor, a[2].tensor); });
  };
}

Application attention(Sampler& sampler) {
  const Hidden hidden = sampler.chance(0.5) ? Hidden::by_mask : Hidden::by_numbers;
  std::vector<Operand> operands = attended(sampler, hidden);
  operands.push_back(sampler.real(0.5));
  const bool drops = sampler.chance(0.5);
  if (drops) operands.push_back(dropping_layer());
  return {std::move(operands), [=](const Arguments& a, Call call) -> Concrete {
            const auto attend = [&](const auto& mask) {
              const Tensor &query = a[0].tensor, &key = a[1].tensor, &value = a[2].tensor;
              if (!drops) return modular::attention(query, key, value, mask, a[4].number);
              const modular::nn::Dropout layer(kDropped);
              return call == Call::attention ? modular::tp::attention(query, key, value, mask, a[4].number, layer)
                                             : modular::attention(query, key, value, mask, a[4].number, layer);
            };
            return hidden == Hidden::by_mask ? attend(make_mask(a[3])) : attend(a[3].tensor);
          }};
}

/// at::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
Application plain_attention(Sampler& sampler) {
  std::vector<Operand> operands = attended(sampler, sampler.chance(0.7) ? Hidden::by_numbers : Hidden::by_nothing);
  operands.insert(operands.end(), {sampler.real(0.0), sampler.flag(false), sampler.real(0.5), sampler.flag(true)});
  return application(std::move(operands), [](const Arguments& a) {
    return at::scaled_dot_product_attention(a[0].tensor, a[1].tensor, a[2].tensor, given(a, 3), a[4].number,
                                            a[5].flag(), a[6].number, a[7].flag());
  });
}

// ---- Functions of the batch ----

Application position_ids(Sampler& sampler) {
  return application({batch(sampler)}, [](const Arguments& a) {
    modular::Batch given;
    given.input_ids = a[0].elements[0].tensor;
    return modular::position_ids(given);
  });
}

/// A mask, represented by its tensors.
Concrete of_mask(modular::AttentionMask mask) {
  std::vector<Tensor> tensors;
  mask.tensors([&](const Tensor& tensor) {
    if (tensor.defined()) tensors.push_back(tensor);
  });
  return tensors;
}

SampleOperation of_batch(modular::AttentionMask (*function)(const modular::Batch&, int64_t)) {
  return [=](Sampler& sampler) {
    Application made = application({batch(sampler), sampler.literal(2)}, [=](const Arguments& a) {
      modular::Batch given;
      given.input_ids = given.documents = a[0].elements[0].tensor;
      return of_mask(function(given, a[1].integer()));
    });
    made.type = "modular::AttentionMask";
    return made;
  };
}

Application whole_mask(Sampler&) {
  Application made = application({}, [](const Arguments&) { return of_mask(modular::whole_mask()); });
  made.type = "modular::AttentionMask";
  return made;
}

/// visible_keys(mask, seq, device)
Application visible_keys(Sampler& sampler) {
  const int64_t seq = sampler.integer(2, 4);
  return application({attention_mask(sampler, seq), sampler.number(seq), sampler.option("at::kCPU", "c10::Device")},
                     [](const Arguments& a) {
                       return modular::visible_keys(make_mask(a[0]), a[1].integer(), at::kCPU).to(at::kDouble);
                     });
}

Application key_mask(Sampler& sampler) {
  return application({batch(sampler)}, [](const Arguments& a) {
    modular::Batch given;
    given.input_ids = a[0].elements[0].tensor;
    return modular::key_mask(given).to(at::kDouble);
  });
}

Application rotary_tables(Sampler& sampler) {
  Operand options = sampler.option("rope", "modular::RopeParameters");
  options.expr.kind = Expr::Kind::field;
  return application({options, sampler.count("b", sampler.chance(0.2)), sampler.literal(16),
                      position_ids(sampler).operands[0], sampler.option("c10::kDouble", "c10::ScalarType")},
                     [](const Arguments& a) {
                       modular::Batch given;
                       given.input_ids = a[3].elements[0].tensor;
                       const auto tables =
                           modular::rotary_tables({}, a[1].integer(), a[2].integer(), given, at::kDouble);
                       return std::vector{tables.first, tables.second};
                     });
}

Application interpolated_positions(Sampler& sampler) {
  const Shape positions = {{1, "", {}}, {10, "", {}}, sampler.dimension()};
  return application(
      {sampler.tensor(positions, sampler.chance(0.7) ? kInvariant : sampler.type_for(positions)),
       sampler.number(sampler.integer(2, 3)), sampler.number(3)},
      [](const Arguments& a) { return modular::interpolated_positions(a[0].tensor, a[1].integer(), a[2].integer()); });
}

SampleOperation of_labels(Tensor (*function)(const Tensor&)) {
  return [=](Sampler& sampler) {
    const Shape labels = {sampler.small_dimension(), sampler.dimension()};
    return of_one(
        sampler.constant(labels, sampler.chance(0.7) ? kInvariant : sampler.type_for(labels), Elements::indices, 5),
        function);
  };
}

// ---- Experts and losses ----

/// mix_experts(activation, x, gate_up, down, chosen, weights)
Application mix_experts(Sampler& sampler) {
  const Dimension rows = {5, "", {}}, hidden = sampler.dimension(), experts = {3, "d", {}}, each = {2, "", {}};
  const Dimension inner = {4, "a", {}}, both = {8, "", {"a", "a"}};
  const Shape x = {rows, hidden}, gate_up = {experts, both, hidden}, down = {experts, hidden, inner};
  const bool split = sampler.chance(0.7);
  const ShardType of_gate_up =
      sampler.chance(0.9) ? split ? sharded(1, both.parts) : kInvariant : sampler.split_for(gate_up);
  const ShardType of_down = sampler.chance(0.9) ? split ? sharded(2) : kInvariant : sampler.type_for(down);
  return {{sampler.text("silu"), sampler.tensor(x, sampler.chance(0.9) ? kInvariant : sampler.type_for(x)),
           sampler.tensor(gate_up, of_gate_up), sampler.tensor(down, of_down),
           sampler.constant({rows, each}, kInvariant, Elements::indices, 3), sampler.tensor({rows, each}, kInvariant)},
          [](const Arguments& a, Call call) -> Concrete {
            const Tensor sum =
                modular::mix_experts(a[0].text, a[1].tensor, a[2].tensor, a[3].tensor, a[4].tensor, a[5].tensor);
            return call == Call::sum ? modular::tp::exit(sum) : sum;
          }};
}

/// mix_clamped_experts(x, gate_up, gate_up_bias, down, chosen, weights, alpha, limit)
Application mix_clamped_experts(Sampler& sampler) {
  const Dimension rows = {5, "", {}}, hidden = sampler.dimension(), experts = {3, "d", {}}, each = {2, "", {}};
  const Dimension inner = {4, "a", {}}, both = {8, "", {}};
  const Shape x = {rows, hidden}, gate_up = {experts, hidden, both}, bias = {experts, both},
              down = {experts, inner, hidden};
  const bool split = sampler.chance(0.7);
  const auto type = [&](const Shape& shape, int64_t dim) {
    return !sampler.chance(0.9) ? sampler.type_for(shape) : split ? sharded(dim) : kInvariant;
  };
  return {{sampler.tensor(x, sampler.chance(0.9) ? kInvariant : sampler.type_for(x)),
           sampler.tensor(gate_up, type(gate_up, 2)), sampler.tensor(bias, type(bias, 1)),
           sampler.tensor(down, type(down, 1)), sampler.constant({rows, each}, kInvariant, Elements::indices, 3),
           sampler.tensor({rows, each}, kInvariant), sampler.real(1.5), sampler.real(2.0)},
          [](const Arguments& a, Call call) -> Concrete {
            const Tensor sum = modular::mix_clamped_experts(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor,
                                                            a[4].tensor, a[5].tensor, a[6].number, a[7].number);
            return call == Call::sum ? modular::tp::exit(sum) : sum;
          }};
}

Application cross_entropy(Sampler& sampler) {
  Shape logits = sampler.shape(2, 3);
  const Dimension vocabulary = sampler.split_dimension();
  logits.back() = vocabulary;
  const Shape targets(logits.begin(), logits.end() - 1);
  const auto last = static_cast<int64_t>(logits.size()) - 1;
  const ShardType type = sampler.chance(0.6) ? sampler.split_at(logits, last) : sampler.type_for(logits);
  const ShardType of_targets = sampler.chance(0.9) ? kInvariant : sampler.split_for(targets);
  return {{sampler.tensor(logits, type), sampler.constant(targets, of_targets, Elements::indices, vocabulary.size)},
          [](const Arguments& a, Call call) -> Concrete {
            return call == Call::cross_entropy ? modular::tp::cross_entropy(a[0].tensor, a[1].tensor)
                                               : modular::cross_entropy(a[0].tensor, a[1].tensor);
          }};
}

/// cross_entropy_outputs(logits, batch, targets_of): the second value stands for a batch with these labels.
Application cross_entropy_outputs(Sampler& sampler) {
  Application loss = cross_entropy(sampler);
  loss.operands.push_back(sampler.text("same_labels"));
  loss.run = [](const Arguments& a, Call call) -> Concrete {
    modular::Batch batch;
    batch.labels = a[1].tensor;
    batch.want_logits = true;
    const auto outputs_of =
        call == Call::cross_entropy_outputs ? modular::tp::cross_entropy_outputs : modular::cross_entropy_outputs;
    const modular::Outputs outputs = outputs_of(a[0].tensor, batch, modular::same_labels);
    return outputs.loss_sum + outputs.logits.square().sum();
  };
  return loss;
}

/// sampled_cross_entropy(hidden, weight, bias, targets, temperature)
Application sampled_cross_entropy(Sampler& sampler) {
  Shape hidden = sampler.shape(2, 3);
  const Dimension vocabulary = sampler.split_dimension(),
                  dim = sampler.chance(0.3) ? sampler.split_dimension() : hidden.back();
  hidden.back() = dim;
  const Shape weight = {vocabulary, dim}, bias = {vocabulary}, targets(hidden.begin(), hidden.end() - 1);
  ShardType of_weight = sampler.chance(0.6) ? sharded(0) : kInvariant, of_bias = of_weight;
  if (sampler.chance(0.2)) of_weight = sampler.type_for(weight);
  if (sampler.chance(0.2)) of_bias = sampler.type_for(bias);
  const ShardType of_hidden = sampler.chance(0.8) ? kInvariant : sampler.type_for(hidden);
  const ShardType of_targets = sampler.chance(0.9) ? kInvariant : sampler.split_for(targets);
  return {{sampler.tensor(hidden, of_hidden), sampler.tensor(weight, of_weight),
           sampler.chance(0.8) ? sampler.tensor(bias, of_bias) : sampler.undefined(),
           sampler.constant(targets, of_targets, Elements::indices, vocabulary.size), sampler.real(0.75)},
          [classes = vocabulary.size](const Arguments& a, Call call) -> Concrete {
            const modular::SampledClasses sampled = {
                .ids = at::arange(classes - 1, 0, -2, at::kLong),
                .log_counts = at::linspace(-1.0, 0.5, classes, at::TensorOptions(at::kDouble))};
            modular::Parallel parallel = modular::bound;
            parallel.sampled = &sampled;
            const modular::Binding binding(parallel);
            const auto loss = call == Call::sampled_cross_entropy ? modular::tp::sampled_cross_entropy
                                                                  : modular::sampled_cross_entropy;
            return loss(a[0].tensor, a[1].tensor, a[2].tensor, a[3].tensor, a[4].number);
          }};
}

Application scalar_tensor(Sampler& sampler) {
  return application({sampler.count("a", sampler.chance(0.3))},
                     [](const Arguments& a) { return at::scalar_tensor(a[0].number, at::kDouble); });
}

// ---- The woven calls ----

Application enter(Sampler& sampler) {
  return application({sampler.tensor(sampler.shape(0, 4))},
                     [](const Arguments& a) { return modular::tp::enter(a[0].tensor); });
}

Application gather(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  const ShardType type =
      shape.back().size % 4 == 0 && sampler.chance(0.7) ? sampler.split_at(shape, last) : sampler.type_for(shape);
  return application({sampler.tensor(shape, type)},
                     [](const Arguments& a) { return modular::tp::gather(a[0].tensor); });
}

}  // namespace

Operand batch(Sampler& sampler) {
  Operand operand;
  operand.value.kind = Value::Kind::object;
  operand.expr.kind = Expr::Kind::local;
  operand.expr.name = "batch";
  operand.elements = {sampler.constant({{2, "", {}}, {3, "", {}}}, kInvariant, Elements::indices)};
  return operand;
}

Operand attention_mask(Sampler& sampler, int64_t seq) {
  const Shape padding = {{2, "", {}}, {seq, "", {}}};
  Operand operand;
  operand.value.kind = Value::Kind::object;
  operand.expr.kind = Expr::Kind::local;
  operand.expr.name = "mask";
  operand.elements = {
      sampler.constant(padding, sampler.chance(0.9) ? kInvariant : sampler.type_for(padding), Elements::flags)};
  operand.value.members["padding"] = operand.elements[0].value;
  return operand;
}

modular::AttentionMask make_mask(const Concrete& argument) {
  return modular::causal_mask(argument.elements[0].tensor, /*window=*/2);
}

std::vector<Operand> attended(Sampler& sampler, Hidden hidden) {
  static const std::vector<Dimension> groups = {{4, "a", {}}, {8, "b", {"a", "a"}}};
  const Dimension key_heads = sampler.one_of(groups);
  const Dimension heads = sampler.chance(0.5) ? key_heads : Dimension{8, "b", {"a", "a"}};
  const int64_t seq = sampler.integer(2, 3), features = sampler.integer(2, 3);
  const Shape query = heads_shape(heads, seq, features), key = heads_shape(key_heads, seq, features);
  const ShardType type = of_heads(sampler, query);
  const auto type_of_keys = [&] { return sampler.chance(0.9) && type.parts.empty() ? type : of_heads(sampler, key); };
  std::vector<Operand> operands = {sampler.tensor(query, type), sampler.tensor(key, type_of_keys()),
                                   sampler.tensor(key, type_of_keys())};
  if (hidden != Hidden::by_numbers) {
    operands.push_back(hidden == Hidden::by_mask ? attention_mask(sampler, seq) : sampler.undefined());
    return operands;
  }
  const Dimension position = {seq, "", {}};
  Shape mask = {
      {sampler.chance(0.5) ? 1 : 2, "", {}}, sampler.chance(0.6) ? Dimension{1, "", {}} : heads, position, position};
  if (sampler.chance(0.2)) mask.erase(mask.begin(), mask.begin() + 2);
  const bool by_head = mask.size() == 4 && mask[1].size > 1;
  const ShardType of_mask = by_head && sampler.chance(0.8) ? type
                            : sampler.chance(0.95)         ? kInvariant
                                                           : sampler.type_for(mask);
  operands.push_back(sampler.chance(0.5) || of_mask.kind == ShardType::Kind::partial ? sampler.tensor(mask, of_mask)
                                                                                     : sampler.constant(mask, of_mask));
  return operands;
}

const OperationTable& function_operations() {
  static const OperationTable table = {
      {"rms_norm", rms_norm},
      {"layer_norm", layer_norm},
      {"activation", activation},
      {"gated_activation", gated_activation},
      {"soft_cap", soft_cap},
      {"rotary",
       rotary([](const Tensor& x, const Tensor& cos, const Tensor& sin) { return modular::rotary(x, cos, sin); })},
      {"rotary_adjacent", rotary([](const Tensor& x, const Tensor& cos, const Tensor& sin) {
         return modular::rotary_adjacent(x, cos, sin);
       })},
      {"rotary_tables", rotary_tables},
      {"causal_mask", of_batch(modular::causal_mask)},
      {"bidirectional_mask", of_batch(modular::bidirectional_mask)},
      {"whole_mask", whole_mask},
      {"visible_keys", visible_keys},
      {"key_mask", key_mask},
      {"key_distances", of_labels([](const Tensor& ids) { return modular::key_distances(ids); })},
      {"position_ids", position_ids},
      {"counted_position_ids", of_labels([](const Tensor& ids) { return modular::counted_position_ids(ids, 1); })},
      {"next_tokens", of_labels([](const Tensor& labels) { return modular::next_tokens(labels); })},
      {"previous_tokens", of_labels([](const Tensor& labels) { return modular::previous_tokens(labels, 1, 0); })},
      {"count_targets", of_labels([](const Tensor& labels) { return modular::count_targets(labels); })},
      {"attention", attention},
      {"scaled_dot_product_attention", plain_attention},
      {"sampled_cross_entropy", sampled_cross_entropy},
      {"cross_entropy", cross_entropy},
      {"cross_entropy_outputs", cross_entropy_outputs},
      {"interpolated_positions", interpolated_positions},
      {"scalar_tensor", scalar_tensor},
      {"tp::enter", enter},
      {"tp::gather", gather},
      {"mix_experts", mix_experts},
      {"mix_clamped_experts", mix_clamped_experts},
  };
  return table;
}

}  // namespace modgen::rule_properties
