// How tp splits the parameters of a layer, by the annotation of its field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/weave/module_tree.h"
#include "generator/weave/shard_types.h"

namespace modgen {

struct Partition {
  std::optional<int64_t> dim;  // of the parameter; none where it is whole on every tp rank
  std::vector<Size> parts;     // of that dimension, each of which is split by itself; empty where it is split as one
};

/// The partition of `layer`'s parameter "weight" or "bias"; of a parameter or buffer by itself its own.
Partition find_partition(const ModuleNode& layer, std::string_view parameter);

/// The same as a type: the parameter's value as a tp rank sees it.
ShardType to_type(const Partition& partition);

/// The arguments of `linear(…)`, `nn::Linear(…)`, or of the options inside of one; likewise of whatever else makes a
/// layer or a tensor. Null where there is no such call.
const std::vector<Expr>* layer_arguments(const Expr* construction);

/// The size over all tp ranks of dimension `dim`, which is split, of `layer`'s weight or of the parameter or buffer, as
/// the constructor gives it.
Size split_size(const ModuleNode& layer, int64_t dim);

/// How many features a linear layer or an embedding gives.
Size output_size(const ModuleNode& layer);

/// "head_dim * 2": the factors of a size that is known, in their order.
std::string product_text(const Size& size);

/// The factors of `size`, sorted; none where it cannot be traced.
std::optional<std::vector<std::string>> find_factors(const Size& size);

/// The one annotation of `layer` that splits its parameters, or null.
const Annotation* split_annotation(const std::vector<Annotation>& annotations);

}  // namespace modgen
