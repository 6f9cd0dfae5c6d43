// The static parallel plan that modgen derives for an entry and writes into the generated file. Everything the runtime
// knows of a model's structure it reads here. Names are paths in the module tree as named_parameters() spells them; "*"
// is one component.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace modular {

/// A parameter of which each tp rank holds an equal slice along `dim`, or where that dimension is a row of `parts`
/// (query, key and value in one) an equal slice of each. What the plan does not name is replicated.
struct TensorSplit {
  std::string_view parameter;
  int64_t dim;
  std::vector<std::string_view> parts = {};  // sizes as products of config fields and numbers: "head_dim * num_heads"
};

/// Two names of one parameter when the config's boolean `flag` is set. The file keeps `source`.
struct Tie {
  std::string_view parameter;
  std::string_view source;
  std::string_view flag;
};

/// A config field, or a product of fields as in "n_shared_experts * moe_intermediate_size", that the size of a mesh
/// axis must divide.
struct Divides {
  std::string_view field;
  std::string_view axis;
};

/// Layers that pipeline stages are cut between, and what only the stages at their ends hold.
struct Tower {
  std::string_view split_list;          // e.g. "encoder.block"; empty: it is one piece, which no stage divides
  std::vector<std::string_view> first;  // modules that only the stage which begins it holds
  std::vector<std::string_view> last;   // modules that only the stage which ends it holds
};

/// What an entry's class, and all that it is made of, says of how it is run in parallel.
struct Plan {
  std::vector<std::string_view>
      units;  // FSDP units, e.g. "model.layers.*"; the root unit is the entry and is not listed
  std::vector<TensorSplit> tensor_splits;  // tp
  std::vector<Tie> ties;
  std::string_view split_list;  // pp: the list that is cut between stages, e.g. "model.layers"; empty: there is none
  std::vector<std::string_view> first;    // pp: modules that only the first stage holds
  std::vector<std::string_view> last;     // pp: modules that only the last stage holds
  std::optional<Tower> first_stack = {};  // pp: of two towers the one that runs first; the three above are the second's
  std::vector<std::string_view> everywhere = {};  // pp: what every stage holds of those modules and of the lists
  std::vector<Divides> divides;
};

}  // namespace modular
