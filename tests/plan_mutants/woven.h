// Removable versions of the calls that modgen weaves: write_mutants substitutes them for the generated model's own,
// with the location of each call.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/model.h"

namespace modular::woven {

/// Every call of this program, in the order of the files: "llama.h:97:17 tp::enter".
inline std::vector<std::string>& calls() {
  static std::vector<std::string> all;
  return all;
}

inline bool list(const std::vector<std::string>& more) {
  calls().insert(calls().end(), more.begin(), more.end());
  return true;
}

inline std::string removed;            // the call that models run without; empty for none
inline std::set<std::string> reached;  // calls that models reached

inline bool is_removed(const std::string& call) {
  reached.insert(call);
  return call == removed;
}

/// A layer's read of `entered`, the result of tp::enter; the value before it if the call is removed.
inline const Tensor& read(const char* call, const Tensor& value, const Tensor& entered) {
  return is_removed(call) ? value : entered;
}

namespace tp {

inline Tensor enter(const char* call, const Tensor& x, int64_t dim = -2) {
  return is_removed(call) ? x : modular::tp::enter(x, dim);
}

inline Tensor shared(const char* call, const Tensor& x) { return is_removed(call) ? x : modular::tp::shared(x); }

inline Tensor part(const char* call, const Tensor& x, int64_t dim = -2) {
  return is_removed(call) ? x : modular::tp::part(x, dim);
}

inline Tensor whole(const char* call, const Tensor& x, int64_t dim = -2) {
  return is_removed(call) ? x : modular::tp::whole(x, dim);
}

inline int64_t whole_size(const char* call, int64_t size) {
  return is_removed(call) ? size : modular::tp::whole_size(size);
}

template <class Linear>
Tensor reduce(const char* call, Linear& layer, const Tensor& x) {
  return is_removed(call) ? layer->forward(x) : modular::tp::reduce(layer, x);
}

inline Tensor reduce(const char* call, const Tensor& part) {
  return is_removed(call) ? part : modular::tp::reduce(part);
}

template <class Linear>
Tensor exit(const char* call, Linear& layer, const Tensor& x) {
  return is_removed(call) ? layer->forward(x) : modular::tp::exit(layer, x);
}

inline Tensor exit(const char* call, const Tensor& part, int64_t dim = -2) {
  return is_removed(call) ? part : modular::tp::exit(part, dim);
}

/// Without a bias, a layer computes this rank's partial sum anyway: such a call does not count as reached.
template <class Linear>
Tensor partial(const char* call, Linear& layer, const Tensor& x) {
  return layer->bias.defined() && is_removed(call) ? layer->forward(x) : modular::tp::partial(layer, x);
}

template <class Embedding>
Tensor embedding(const char* call, Embedding& table, const Tensor& ids) {
  return is_removed(call) ? table->forward(ids) : modular::tp::embedding(table, ids);
}

template <class Norm>
Tensor layer_norm(const char* call, Norm& norm, const Tensor& x) {
  return is_removed(call) ? norm->forward(x) : modular::tp::layer_norm(norm, x);
}

inline Tensor cross_entropy(const char* call, const Tensor& logits, const Tensor& targets) {
  return is_removed(call) ? modular::cross_entropy(logits, targets) : modular::tp::cross_entropy(logits, targets);
}

inline Outputs cross_entropy_outputs(const char* call, const Tensor& logits, const Batch& batch,
                                     Tensor (*targets_of)(const Tensor& labels)) {
  return is_removed(call) ? modular::cross_entropy_outputs(logits, batch, targets_of)
                          : modular::tp::cross_entropy_outputs(logits, batch, targets_of);
}

inline Tensor rms_norm(const char* call, const Tensor& x, const Tensor& weight, double eps) {
  return is_removed(call) ? modular::rms_norm(x, weight, eps) : modular::tp::rms_norm(x, weight, eps);
}

inline Tensor alibi_slopes(const char* call, int64_t heads, const at::Device& device) {
  return is_removed(call) ? modular::alibi_slopes(heads, device) : modular::tp::alibi_slopes(heads, device);
}

inline Tensor gather(const char* call, const Tensor& shard) {
  return is_removed(call) ? shard : modular::tp::gather(shard);
}

inline int64_t local(const char* call, int64_t count) { return is_removed(call) ? count : modular::tp::local(count); }

}  // namespace tp

namespace pp {

inline bool is_first(const char* call) { return is_removed(call) || modular::pp::is_first(); }
inline bool is_last(const char* call) { return is_removed(call) || modular::pp::is_last(); }
inline bool first_stack(const char* call) { return is_removed(call) || modular::pp::first_stack(); }
inline bool second_stack(const char* call, const Tensor& between) {
  return is_removed(call) || modular::pp::second_stack(between);
}

template <class List>
auto local(const char* call, List& list) {
  return is_removed(call) ? std::ranges::subrange(list->begin(), list->end()) : modular::pp::local(list);
}

}  // namespace pp
}  // namespace modular::woven
