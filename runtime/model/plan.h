// The static parallel plan that modgen derives for an entry and writes into the generated file. It is the runtime's
// only source of information on a model's structure. Names are module paths as in named_parameters(); "*" matches one
// component.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace modular {

/// A parameter that tp shards along `dim`: each rank holds an equal slice, or, if the dimension concatenates `parts`
/// (fused query, key and value), an equal slice of each part. Parameters without a TensorSplit are replicated.
struct TensorSplit {
  std::string_view parameter;
  int64_t dim;
  std::vector<std::string_view> parts = {};  // sizes as products of config fields and numbers: "head_dim * num_heads"
};

/// Two names of one parameter if the config's boolean `flag` is set. The file keeps `source`.
struct Tie {
  std::string_view parameter;
  std::string_view source;
  std::string_view flag;
};

/// A config field, or a product of fields such as "n_shared_experts * moe_intermediate_size", that must be divisible by
/// the size of a mesh axis.
struct Divides {
  std::string_view field;
  std::string_view axis;
};

/// A stack of layers that pipeline stages are cut between, and the modules that only the stages at its ends hold.
struct Tower {
  std::string_view split_list;          // e.g. "encoder.block"; empty: the stack is not divided into stages
  std::vector<std::string_view> first;  // modules that only the first stage of the stack holds
  std::vector<std::string_view> last;   // modules that only the last stage of the stack holds
};

/// The parallel plan of an entry's class and of all its submodules.
struct Plan {
  std::vector<std::string_view>
      units;  // FSDP units, e.g. "model.layers.*"; the root unit is the entry and is not listed
  std::vector<TensorSplit> tensor_splits;  // tp
  std::vector<Tie> ties;
  std::string_view split_list;  // pp: the list that is split over stages, e.g. "model.layers"; empty if there is none
  std::vector<std::string_view> first;    // pp: modules that only the first stage holds
  std::vector<std::string_view> last;     // pp: modules that only the last stage holds
  std::optional<Tower> first_stack = {};  // pp: the first of two stacks; the three fields above are the second's
  std::vector<std::string_view> everywhere = {};  // pp: submodules of those modules and lists that every stage holds
  std::vector<Divides> divides;
};

}  // namespace modular
