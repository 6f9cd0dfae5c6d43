// Tensor-parallel sharding of a layer's parameters, derived from the annotation of its field.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "generator/weave/shard_types.h"
#include "generator/weave/trace.h"

namespace modgen {

struct Partition {
  std::optional<int64_t> dim;  // split dimension of the parameter; none if it is full on every tp rank
  std::vector<Size> parts;     // parts of that dimension, each split separately; empty if it is split as one
};

/// The partition of `layer`'s parameter "weight" or "bias", or of `layer` itself if it is a parameter or buffer.
Partition find_partition(const ModuleNode& layer, std::string_view parameter);

/// The config fields that the TP_LOCAL counts of a model come from.
std::set<std::string> find_counts(const ModuleNode& root);
/// Those of `counts` that are factors of the split dimension.
std::set<std::string> find_counts(const ModuleNode& layer, const Partition& partition,
                                  const std::set<std::string>& counts);

/// The parts that the annotation of `layer`'s field lists, as products of members of its parent's class.
std::vector<Expr> find_parts(const ModuleNode& layer);

/// Converts a partition to the shard type of the parameter's value.
ShardType to_type(const Partition& partition);

/// The arguments of `linear(…)`, `nn::Linear(…)` or its options, or of any other call that constructs a layer or a
/// tensor. Null if there is no such call.
const std::vector<Expr>* layer_arguments(const Expr* construction);

/// The global size of the split dimension `dim` of `layer`'s weight, or of the parameter or buffer, as the constructor
/// gives it.
Size split_size(const ModuleNode& layer, int64_t dim);

/// Number of output features of a linear layer or an embedding.
Size output_size(const ModuleNode& layer);

/// The sizes by which TP_VOCAB splits layers of a model, and of which the last ranks may hold fewer elements.
std::set<std::string> find_vocabularies(const ModuleNode& root);
/// Whether the split dimension of the layer, parameter or buffer is one of these `vocabularies`.
bool is_vocabulary(const ModuleNode& layer, const Partition& partition, const std::set<std::string>& vocabularies);

/// The annotation that splits a layer's parameters, or null.
const Annotation* split_annotation(const std::vector<Annotation>& annotations);

}  // namespace modgen
