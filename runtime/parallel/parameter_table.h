// What a model's parameters and buffers are, read off the module tree and the plan: names, shapes, owners.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/config.h"
#include "runtime/model/module.h"
#include "runtime/model/plan.h"
#include "runtime/parallel/pipeline_stages.h"
#include "runtime/parallel/sharded_parameter.h"
#include "runtime/parallel/split_part.h"

namespace modular {

/// Whether `name` is what `pattern` says, component by component; "*" is any one component.
bool matches(std::string_view pattern, std::string_view name);

/// Whether `name` or one of the paths that lead to it matches `pattern`.
bool lies_in(std::string_view pattern, std::string_view name);

/// A module whose parameters are gathered together.
struct ModelUnit {
  std::string name;  // path in the module tree; empty for the root
  nn::Module* module = nullptr;
};

/// One parameter, whatever the number of its names; or one buffer.
struct ModelParameter {
  std::string name;                 // canonical: the one that checkpoints use
  std::vector<std::string> names;   // all, in the order of the module tree
  std::vector<int64_t> multiplied;  // beside them: how many of its elements per token is multiplied by where it is used
                                    // by that name; none where rows are looked up, and of experts those of the chosen
  at::Tensor tensor;                // as registered; on meta until made real
  std::vector<int64_t> global_shape;    // of the full parameter
  std::optional<int64_t> tensor_split;  // the dimension that tp splits
  std::vector<SplitPart> parts;         // along it, each of which is split on its own; one where it is split as a whole
  size_t unit = 0;                      // index in ParameterTable::units of the smallest unit that holds all its uses
  bool held = true;                     // whether one of this rank's pipeline stages has it
  bool shared_between_stages = false;   // tied, with uses on the first and on the last stage
  bool in_every_stage = false;          // of a pipeline: the plan gives it, by one of its names, to none
  bool layer_matrix = false;            // of a layer, [rows, columns] or [experts, rows, columns]: no table, no head
  bool trainable = true;                // false for a buffer, and a parameter that is frozen: they have no gradient
};

/// The class of a module as specs call it: "LlamaDecoderLayer".
std::string class_name(const nn::Module& module);

struct ParameterTable {
  std::vector<ModelUnit> units;  // the root first, then as in the module tree
  std::vector<ModelParameter> parameters;
  std::vector<ModelParameter> buffers;  // split over tp alone
};

/// Reads the table of a model that was built on meta from `config`. `stages` are this rank's stages of a pipeline; none
/// without one. Of the plan's units those are units whose class is one of `unit_classes`; "*" is any.
ParameterTable parameter_table(nn::Module& root, const Plan& plan, const AnyConfig& config,
                               const std::vector<const StageOnRank*>& stages,
                               const std::vector<std::string>& unit_classes = {"*"});

/// Parameters and buffers that this rank's stages have.
std::vector<at::Tensor> held_tensors(const ParameterTable& table);

/// What each layer costs, counted over the lists of both towers: how many elements per token is multiplied by in it,
/// and in what only the stage that runs it has, as a head's on the last one. `table` and `sizes` are those of the
/// model, the latter as stack_sizes() has them.
std::vector<int64_t> layer_costs(const ParameterTable& table, const Plan& plan, const std::vector<int64_t>& sizes);

/// Whether a parameter holds a matrix of each expert of a mixture: [experts, rows, columns], in a module called
/// "experts".
bool is_of_experts(std::string_view name, const std::vector<int64_t>& global_shape);

/// How many experts there are in each of the model's mixtures; 0 without.
int64_t expert_count(const std::vector<ModelParameter>& parameters);

/// Whether one of the parameter's names lies in one of `patterns`.
bool lies_in_any(const std::vector<std::string>& patterns, const ModelParameter& parameter);

/// Takes the gradient from the parameters of which a name lies in one of `frozen`; where `trained` is given, from all
/// but adapters and those of which a name lies in it.
void freeze(std::vector<ModelParameter>& parameters, const std::vector<std::string>& frozen,
            const std::optional<std::vector<std::string>>& trained = {});

/// The shape of what rank `tp_rank` of `tp` keeps of a parameter.
std::vector<int64_t> local_shape(const ModelParameter& parameter, int64_t tp, int64_t tp_rank);

/// Elements [begin, begin + size) along one dimension.
struct Slice {
  int64_t dim = 0, begin = 0, size = 0;
};

/// Where `slice` of what tp rank `tp_rank` of `tp` keeps of a parameter lies in the whole one, and whether this rank
/// counts it among those of tp. A number is a slice of 1.
std::vector<ParameterSlice> get_slices_on_rank(const ModelParameter& parameter, int64_t tp, int64_t tp_rank,
                                               const Slice& slice);

}  // namespace modular
