// Names, shapes and owners of a model's parameters and buffers, derived from the module tree and the plan.
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
#include "runtime/parallel/parameters/sharded_parameter.h"
#include "runtime/parallel/pipeline/pipeline_stages.h"

namespace modular {

/// Whether `name` matches `pattern`, component by component; "*" matches any one component.
bool matches(std::string_view pattern, std::string_view name);

/// Whether `name` or one of its parent paths matches `pattern`.
bool lies_in(std::string_view pattern, std::string_view name);

/// A module whose parameters are unsharded together.
struct ModelUnit {
  std::string name;  // path in the module tree; empty for the root
  nn::Module* module = nullptr;
};

/// One parameter, which may have several names, or one buffer.
struct ModelParameter {
  std::string name;                // canonical: the name in checkpoints
  std::vector<std::string> names;  // all names, in module-tree order
  // Parallel to `names`: number of active elements per token in the use by that name; 0 for an embedding lookup, and
  // only the chosen experts' elements for experts.
  std::vector<int64_t> multiplied;
  at::Tensor tensor;                    // as registered; on the meta device until made real
  std::vector<int64_t> global_shape;    // shape of the full parameter
  std::optional<int64_t> tensor_split;  // the dimension that tp shards
  std::vector<SplitPart> parts;         // parts along it, each of which is sharded separately; usually one
  size_t unit = 0;                      // index in ParameterTable::units of the smallest unit that holds all its uses
  bool held = true;                     // whether one of this rank's pipeline stages uses it
  bool shared_between_stages = false;   // tied, and used by the first and the last stage
  bool in_every_stage = false;  // in a pipeline: the plan assigns one of its names to no stage, so all stages have it
  bool layer_matrix = false;    // matrix of a layer, [rows, columns] or [experts, rows, columns]: not a table or a head
  bool is_expert = false;       // stacks the matrices of a mixture's experts: [experts, rows, columns]
  bool is_rate = false;         // rates of a state space, which do not decay
  bool partial_in_sequence = false;  // with sequence parallelism, each tp rank has a part of its gradient
  bool trainable = true;             // false for buffers and frozen parameters, which have no gradient
};

/// Returns the class name of a module as in specs: "LlamaDecoderLayer".
std::string class_name(const nn::Module& module);

struct ParameterTable {
  std::vector<ModelUnit> units;  // the root first, then in module-tree order
  std::vector<ModelParameter> parameters;
  std::vector<ModelParameter> buffers;  // sharded over tp only
};

/// Returns the table of a model that was built on the meta device from `config`. `stages` are this rank's pipeline
/// stages; empty without a pipeline. Of the plan's units, those whose class is in `unit_classes` become units; "*" is
/// any class.
ParameterTable parameter_table(nn::Module& root, const Plan& plan, const AnyConfig& config,
                               const std::vector<const StageOnRank*>& stages,
                               const std::vector<std::string>& unit_classes = {"*"});

/// Returns the parameters and buffers of this rank's stages.
std::vector<at::Tensor> held_tensors(const ParameterTable& table);

/// Returns the cost of each layer, over the lists of both stacks: the number of active elements per token in the layer
/// and in the modules that only its stage has, e.g. the head of the last one. `table` covers the full model, and
/// `sizes` are its stack_sizes().
std::vector<int64_t> layer_costs(const ParameterTable& table, const Plan& plan, const std::vector<int64_t>& sizes);

/// Number of experts in each mixture of the model; 0 without experts.
int64_t expert_count(const std::vector<ModelParameter>& parameters);

/// Whether one of the parameter's names, or a parent path of it, matches one of `patterns`.
bool lies_in_any(const std::vector<std::string>& patterns, const ModelParameter& parameter);

/// Disables gradients of parameters with a name in one of `frozen`. If `trained` is given, also of all parameters
/// except adapters and parameters with a name in `trained`.
void freeze(std::vector<ModelParameter>& parameters, const std::vector<std::string>& frozen,
            const std::optional<std::vector<std::string>>& trained = {});

/// Returns the shape of the part of a parameter that rank `tp_rank` of `tp` holds.
std::vector<int64_t> local_shape(const ModelParameter& parameter, int64_t tp, int64_t tp_rank);

/// Elements [begin, begin + size) along one dimension.
struct Slice {
  int64_t dim = 0, begin = 0, size = 0;
};

/// Maps `slice` of the part that rank `tp_rank` of `tp` holds to slices of the full parameter, and decides whether this
/// tp rank owns them. A scalar is a slice of size 1.
std::vector<ParameterSlice> get_slices_on_rank(const ModelParameter& parameter, int64_t tp, int64_t tp_rank,
                                               const Slice& slice);

/// Returns the paths of the linear layers of `root` that match one of `patterns` and whose two
/// sizes are multiples of kFloat8Multiple.
std::vector<std::string> float8_layers(const nn::Module& root, const std::vector<std::string>& patterns);

/// Makes these layers compute in float8.
void multiply_in_float8(nn::Module& root, const std::vector<std::string>& patterns);

}  // namespace modular
