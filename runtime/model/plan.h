// The static parallel plan that modgen derives for an entry and writes into the generated file. It is the runtime's
// only source of information on a model's structure. Names are module paths as in named_parameters(); "*" matches one
// component.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

/// A parameter that tp shards along `dim`: each rank holds an equal slice, or, if the dimension concatenates `parts`
/// (fused query, key and value), an equal slice of each part. Parameters without a TensorSplit are replicated.
struct TensorSplit {
  std::string parameter;
  int64_t dim;
  std::vector<std::string> parts = {};  // sizes as products of config fields and numbers: "head_dim * num_heads"
};

/// Two names of one parameter if the config's boolean `flag` is set. The file keeps `source`.
struct Tie {
  std::string parameter;
  std::string source;
  std::string flag;
};

/// A config field, or a product of fields such as "n_shared_experts * moe_intermediate_size", that the size of a mesh
/// axis has to divide.
struct Divides {
  /// Consequence of a size that does not divide it.
  enum Otherwise {
    error,   // the model cannot run
    shared,  // a count of heads or groups that serve several others: ranks hold the same one if there are more ranks
    uneven,  // a vocabulary: the last ranks hold fewer rows
  };
  std::string field;
  std::string axis;
  Otherwise otherwise = error;
};

/// A parameter that stacks the matrices of a mixture's experts: [experts, rows, columns].
struct ExpertWeights {
  std::string parameter;
  std::string chosen;  // the config field with the number of experts per token; empty if it is not known
};

/// A stack of layers that pipeline stages are cut between, and the modules that only the stages at its ends hold.
struct Stack {
  std::string split_list = {};          // e.g. "encoder.block"; empty: the stack is not divided into stages
  std::vector<std::string> first = {};  // modules that only the first stage of the stack holds
  std::vector<std::string> last = {};   // modules that only the last stage of the stack holds
};

/// The parallel plan of an entry's class and of all its submodules.
struct Plan {
  std::vector<std::string> units = {};  // FSDP units, e.g. "model.layers.*"; the root unit, the entry, is not listed
  std::vector<TensorSplit> tensor_splits = {};  // tp
  std::vector<Tie> ties = {};
  std::string split_list = {};  // pp: the list that is split over stages, e.g. "model.layers"; empty if there is none
  std::vector<std::string> first = {};       // pp: modules that only the first stage holds
  std::vector<std::string> last = {};        // pp: modules that only the last stage holds
  std::optional<Stack> first_stack = {};     // pp: the first of two stacks; the three fields above are the second's
  std::vector<std::string> everywhere = {};  // pp: submodules of those modules and lists that every stage holds
  std::vector<Divides> divides = {};
  std::vector<ExpertWeights> experts = {};
  std::vector<std::string> rates = {};   // rates of state spaces: no weight decay, no matmul
  std::vector<std::string> tables = {};  // parameters that are looked up like an nn::Embedding's weight
  // Sequence parallelism: the lists whose layers can run on a part of the positions, e.g. "model.layers"; and the
  // parameters of which each tp rank then has a part of the gradient. Empty: every tp rank has all positions.
  std::vector<std::string> sequence = {};
  std::vector<std::string> partial_in_sequence = {};
  // The entry looks along the sequence other than through functions that know the cache of generation (cache.h), which
  // therefore runs each forward over all tokens.
  bool uncached = false;
  // Context parallelism: why cp ranks cannot divide the positions of the entry's sequences; empty if they can. And
  // whether all cp ranks then compute the same loss, which counts once.
  std::string context_error = {};
  bool full_loss = false;

  /// The same rows for a class that holds this plan's class as its member `path`, e.g. "model".
  Plan under(std::string_view path) const {
    Plan moved = *this;
    const auto move = [&](std::string& name) { name.insert(0, std::string(path) + "."); };
    const auto move_all = [&](std::vector<std::string>& names) {
      for (std::string& name : names) move(name);
    };
    const auto move_list = [&](std::string& list) {
      if (!list.empty()) move(list);
    };
    for (TensorSplit& split : moved.tensor_splits) move(split.parameter);
    for (Tie& tie : moved.ties) move(tie.parameter), move(tie.source);
    for (ExpertWeights& weights : moved.experts) move(weights.parameter);
    for (auto* names : {&moved.units, &moved.first, &moved.last, &moved.everywhere, &moved.rates, &moved.tables,
                        &moved.sequence, &moved.partial_in_sequence})
      move_all(*names);
    move_list(moved.split_list);
    if (moved.first_stack) {
      move_list(moved.first_stack->split_list);
      move_all(moved.first_stack->first);
      move_all(moved.first_stack->last);
    }
    return moved;
  }

  /// This plan followed by the rows of `more`, whose `split_list` and `first_stack` are not set.
  Plan with(const Plan& more) const {
    Plan sum = *this;
    const auto append = [&](auto member) {
      (sum.*member).insert((sum.*member).end(), (more.*member).begin(), (more.*member).end());
    };
    append(&Plan::units);
    append(&Plan::tensor_splits);
    append(&Plan::ties);
    append(&Plan::first);
    append(&Plan::last);
    append(&Plan::everywhere);
    append(&Plan::divides);
    append(&Plan::experts);
    append(&Plan::rates);
    append(&Plan::tables);
    append(&Plan::sequence);
    append(&Plan::partial_in_sequence);
    sum.uncached |= more.uncached;
    if (!more.context_error.empty()) sum.context_error = more.context_error;
    sum.full_loss |= more.full_loss;
    return sum;
  }
};

}  // namespace modular
