// Layers, with parameters split according to their annotations.
#include <utility>

#include "checks/execute/contract_in_double.h"
#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;
namespace nn = modular::nn;
namespace tp = modular::tp;

/// Operand 0: a layer with these parameters. `type` is the shard type of the weight, `outputs` the number of output
/// features.
Operand layer(const ShardType& type, std::vector<Operand> parameters, const std::string& outputs = "") {
  Operand operand;
  operand.value.kind = Value::Kind::module;
  operand.value.type = type;
  operand.value.last_size = outputs;
  if (!outputs.empty()) operand.value.sizes = Sizes({read_product(outputs)});
  operand.elements = std::move(parameters);
  return operand;
}

Operand parameter(Sampler& sampler, const Shape& shape, const ShardType& type) { return sampler.tensor(shape, type); }

/// Calls `run` with the layer that `make` constructs from its parameters.
template <class Make, class Run>
Application layer_application(std::vector<Operand> operands, Make make, Run run) {
  return {std::move(operands), [=](const Arguments& a, Call call) {
            auto made = make(a[0].elements);
            return Concrete(run(made, a[1].tensor, call));
          }};
}

nn::Linear make_linear(const Arguments& parameters) {
  nn::Linear made(nn::LinearOptions(1, 1).bias(false));
  made->weight = parameters[0].tensor;
  made->bias = parameters[1].tensor;
  return made;
}

modular::TransposedLinear make_transposed(const Arguments& parameters) {
  modular::TransposedLinear made(1, 1);
  made->weight = parameters[0].tensor;
  made->bias = parameters[1].tensor;
  return made;
}

const auto kApply = [](auto& layer, const Tensor& x, Call call) -> Tensor {
  if (call == Call::exit) return tp::exit(layer, x);
  if (call == Call::partial) return tp::partial(layer, x);
  return layer->forward(x);
};

/// A linear layer; `of` returns the types of weight [out, in] and bias for its two dimensions.
template <class Types>
SampleOperation linear_layer(Types of, bool by_input) {
  return [=](Sampler& sampler) {
    const bool transposed = sampler.chance(0.3);
    Shape x = sampler.shape(transposed ? 2 : 1, 4);
    const Dimension in = by_input ? sampler.split_dimension() : sampler.dimension(),
                    out = by_input ? sampler.dimension() : sampler.split_dimension();
    x.back() = in;
    const auto last = static_cast<int64_t>(x.size()) - 1;
    auto [of_weight, of_bias] = of(sampler, in, out);
    ShardType of_x = kInvariant;
    if (by_input && sampler.chance(0.8)) of_x = sharded(last, sampler.chance(0.9) ? of_weight.parts : in.parts);
    if (!by_input && sampler.chance(0.3)) of_x = sampler.chance(0.5) ? kReplicated : kInvariant;
    if (sampler.chance(0.2)) of_x = sampler.type_for(x);
    Shape weight = {out, in};
    if (transposed) {
      std::swap(weight[0], weight[1]);
      if (of_weight.kind == ShardType::Kind::sharded) of_weight.dim = 1 - of_weight.dim;
    }
    const bool has_bias = transposed || sampler.chance(0.6);
    std::vector<Operand> operands = {layer(of_weight,
                                           {parameter(sampler, weight, of_weight),
                                            has_bias ? parameter(sampler, {out}, of_bias) : sampler.undefined()},
                                           out.text),
                                     sampler.tensor(x, of_x)};
    return transposed ? layer_application(std::move(operands), make_transposed, kApply)
                      : layer_application(std::move(operands), make_linear, kApply);
  };
}

std::pair<ShardType, ShardType> by_output(Sampler& sampler, const Dimension&, const Dimension& out) {
  const ShardType split = sampler.split_at({out}, 0);
  return {split, split};
}

std::pair<ShardType, ShardType> by_output_as_one(Sampler&, const Dimension&, const Dimension&) {
  return {sharded(0), sharded(0)};
}

std::pair<ShardType, ShardType> by_input(Sampler&, const Dimension&, const Dimension&) {
  return {sharded(1), kInvariant};
}

std::pair<ShardType, ShardType> full(Sampler&, const Dimension&, const Dimension&) { return {kInvariant, kInvariant}; }

// ---- Embeddings ----

Operand ids(Sampler& sampler, int64_t rows, bool may_be_split = true) {
  const Shape shape = sampler.shape(1, 3);
  return sampler.constant(shape, may_be_split && sampler.chance(0.15) ? sampler.split_for(shape) : kInvariant,
                          Elements::indices, rows);
}

/// An embedding; `split` returns the type of the table [rows, features].
SampleOperation embedding(ShardType (*split)(Sampler&, const Shape&)) {
  return [=](Sampler& sampler) {
    const Shape table = {sampler.split_dimension(), sampler.split_dimension()};
    const ShardType type = split(sampler, table);
    const std::optional<int64_t> padding = sampler.chance(0.3) ? std::optional<int64_t>(1) : std::nullopt;
    const auto make = [padding](const Arguments& parameters) {
      const Tensor& weight = parameters[0].tensor;
      nn::Embedding made(nn::EmbeddingOptions(2, 1).padding_idx(padding));
      made->weight = weight;
      return made;
    };
    const auto run = [](nn::Embedding& made, const Tensor& x, Call call) {
      return call == Call::embedding ? tp::embedding(made, x) : made->forward(x);
    };
    return layer_application(
        {layer(type, {parameter(sampler, table, type)}, table[1].text), ids(sampler, table[0].size)}, make, run);
  };
}

/// at::embedding(table, ids)
Application rows_of_table(Sampler& sampler) {
  const Shape table = {sampler.split_dimension(), sampler.split_dimension()};
  const ShardType type = sampler.chance(0.5) ? sampler.split_at(table, 1) : sampler.type_for(table);
  return application({sampler.tensor(table, type), ids(sampler, table[0].size)},
                     [](const Arguments& a) { return at::embedding(a[0].tensor, a[1].tensor); });
}

// ---- Other layers ----

Application convolution(Sampler& sampler) {
  const Shape x = {sampler.small_dimension(), sampler.dimension(), {4, "", {}}, {4, "", {}}};
  const Dimension channels = sampler.dimension();
  const Shape weight = {channels, x[1], {2, "", {}}, {2, "", {}}};
  return application(
      {layer(kInvariant, {parameter(sampler, weight, kInvariant), parameter(sampler, {channels}, kInvariant)}),
       sampler.tensor(x, sampler.chance(0.5) ? kInvariant : sampler.type_for(x))},
      [](const Arguments& a) {
        return at::conv2d(a[1].tensor, a[0].elements[0].tensor, a[0].elements[1].tensor, /*stride=*/2);
      });
}

Application layer_norm(Sampler& sampler) {
  const Shape x = sampler.shape(1, 4);
  const Shape features = {x.back()};
  const auto make = [](const Arguments& parameters) {
    modular::LayerNorm made(1, 1e-5);
    made->weight = parameters[0].tensor;
    made->bias = parameters[1].tensor;
    return made;
  };
  const auto run = [](modular::LayerNorm& made, const Tensor& value, Call call) {
    return call == Call::layer_norm ? tp::layer_norm(made, value) : made->forward(value);
  };
  return layer_application(
      {layer(kInvariant, {parameter(sampler, features, kInvariant),
                          sampler.chance(0.7) ? parameter(sampler, features, kInvariant) : sampler.undefined()}),
       sampler.tensor(x)},
      make, run);
}

Application dropout(Sampler& sampler) {
  Shape x = sampler.shape(2, 4);
  x.back() = sampler.split_dimension();
  return {
      {dropping_layer(), sampler.tensor(x, sampler.chance(0.4) ? sampler.split_at(x, static_cast<int64_t>(x.size()) - 1)
                                                               : sampler.type_for(x))},
      [](const Arguments& a, Call call) -> Concrete {
        nn::Dropout made(kDropped);
        return call == Call::dropout ? tp::dropout(made, a[1].tensor) : made->forward(a[1].tensor);
      }};
}

/// A layer without parameters.
SampleOperation without_parameters(Tensor (*function)(const Tensor&)) {
  return [=](Sampler& sampler) {
    return application({layer(kInvariant, {}), sampler.tensor(sampler.shape(0, 4))},
                       [=](const Arguments& a) { return function(a[1].tensor); });
  };
}

/// Dropout RNG state of every layer's first call, for a batch whose rows belong to one sample.
class FixedDropout final : public modular::dropout::Draws {
 public:
  modular::DropoutRng draw(const nn::DropoutImpl& layer) override {
    return {.samples = at::zeros({1}, at::kLong), .key = 7, .p = layer.p};
  }
};

}  // namespace

Operand dropping_layer() {
  static FixedDropout draws;
  modular::bound.dropout = &draws;
  return layer(kInvariant, {});
}

const OperationTable& layer_operations() {
  const SampleOperation itself = without_parameters([](const Tensor& x) { return x; });
  static const OperationTable table = {
      {"tp_colwise", linear_layer(by_output, /*by_input=*/false)},
      {"tp_rowwise", linear_layer(by_input, /*by_input=*/true)},
      {"tp_vocab linear", linear_layer(by_output_as_one, /*by_input=*/false)},
      {"tp_vocab embedding", embedding([](Sampler&, const Shape&) { return sharded(0); })},
      {"tp_shard embedding", embedding([](Sampler& sampler, const Shape& table) {
         return sampler.chance(0.8) ? sampler.split_at(table, 1) : sharded(0);
       })},
      {"embedding", rows_of_table},
      {"linear layer", linear_layer(full, /*by_input=*/false)},
      {"embedding layer", embedding([](Sampler&, const Shape&) { return kInvariant; })},
      {"Conv2d layer", convolution},
      {"LayerNorm layer", layer_norm},
      {"GELU layer", without_parameters([](const Tensor& x) { return at::gelu(x); })},
      {"SiLU layer", without_parameters([](const Tensor& x) { return at::silu(x); })},
      {"ReLU layer", without_parameters([](const Tensor& x) { return at::relu(x); })},
      {"Tanh layer", without_parameters([](const Tensor& x) { return at::tanh(x); })},
      {"Dropout layer", dropout},
      {"torch::nn::Dropout layer", itself},
      {"Identity layer", itself},
  };
  return table;
}

}  // namespace modgen::rule_properties
