#include "generator/weave/sequence.h"

#include <algorithm>
#include <ranges>

namespace modgen {

bool SequenceReading::write(const SequencePlace& place, const SequenceCall& call) {
  const auto [known, is_new] = text_.calls.try_emplace(place, call);
  if (is_new) added_.push_back(place);
  return known->second == call;
}

std::string SequenceReading::use_parameters(const std::set<std::string>& parameters, bool is_partial) {
  for (const std::string& parameter : parameters) {
    const auto [known, is_new] = parameters_.try_emplace(parameter, is_partial);
    if (known->second != is_partial) return parameter;
  }
  return {};
}

void SequenceReading::add_loop(const Function* function, std::string list, size_t end) {
  if (std::ranges::find(lists, list) == lists.end()) lists.push_back(std::move(list));
  if (text_.loops.try_emplace(function, end).second) added_loops_.push_back(function);
}

const Expr* SequenceReading::place_numbers() {
  // A size is converted where it is read if all its readers need all positions; otherwise each of these converts it.
  std::set<const Expr*> full, shared;
  for (const Number& number : numbers_) {
    if (number.place.kind == SequencePlace::Kind::size && number.sizes.empty()) full.insert(number.place.expr);
    if (!number.is_whole) shared.insert(number.sizes.begin(), number.sizes.end());
  }
  const auto is_converted_late = [&](const Expr* size) { return shared.contains(size) || full.contains(size); };
  for (bool grew = true; grew;) {
    grew = false;
    for (const Number& number : numbers_)
      if (std::ranges::any_of(number.sizes, is_converted_late))
        for (const Expr* size : number.sizes) grew |= !is_converted_late(size) && shared.insert(size).second;
  }
  for (const Number& number : numbers_) {
    const bool is_late = std::ranges::any_of(number.sizes, is_converted_late);
    SequenceCall call;
    if (number.is_whole && is_late) call.kind = SequenceCall::Kind::whole_size;
    const bool is_size = number.place.kind == SequencePlace::Kind::size || number.sizes.contains(number.place.expr);
    if (!is_size && !write({number.place.expr, number.place.on_shards, SequencePlace::Kind::size}, call))
      return number.place.expr;
    for (const Expr* size : number.sizes) {
      const SequenceCall early{is_late || !number.is_whole ? SequenceCall::Kind::none : SequenceCall::Kind::whole_size};
      for (const bool on_shards : {false, true})
        if (!write({size, on_shards, SequencePlace::Kind::size}, early)) return size;
    }
  }
  for (const Expr* size : full)
    for (const bool on_shards : {false, true})
      if (!write({size, on_shards, SequencePlace::Kind::size}, {})) return size;
  return nullptr;
}

void SequenceReading::undo(const Mark& before) {
  for (; added_.size() > before.calls; added_.pop_back()) text_.calls.erase(added_.back());
  numbers_.resize(before.numbers);
  parameters_ = before.parameters;
  wholes_ = before.wholes;
  for (; added_loops_.size() > before.loops; added_loops_.pop_back()) text_.loops.erase(added_loops_.back());
}

std::set<std::string> SequenceReading::partial_parameters() const {
  std::set<std::string> names;
  for (const auto& [name, is_partial] : parameters_)
    if (is_partial) names.insert(name);
  return names;
}

}  // namespace modgen
