#include "generator/weave/sequence.h"

#include <algorithm>
#include <ranges>

namespace modgen {

SequenceReading::SequenceReading(const Interpretation& woven, const std::vector<EntryPlan::Tie>& ties,
                                 SequenceText& text)
    : woven_(woven), text_(text) {
  for (const EntryPlan::Tie& tie : ties) sources_.emplace(tie.parameter, tie.source);
}

bool SequenceReading::write(const SequencePlace& place, const SequenceCall& call) {
  const auto [known, is_new] = text_.calls.try_emplace(place, call);
  if (is_new) added_.push_back(place);
  return known->second == call;
}

std::string SequenceReading::use_parameters(const std::set<std::string>& parameters, bool is_partial) {
  for (const std::string& parameter : parameters) {
    const auto [known, is_new] = parameters_.try_emplace(parameter, is_partial);
    if (known->second != is_partial) return parameter;
    if (sources_.empty() || !is_new) continue;
    for (const auto& [other, is_other_partial] : parameters_)
      if (is_other_partial != is_partial && find_source(other) == find_source(parameter))
        return parameter + ", which is tied to " + other + ",";
  }
  return {};
}

const std::string& SequenceReading::find_source(const std::string& parameter) const {
  const std::string* source = &parameter;
  for (size_t steps = 0; steps < sources_.size(); ++steps)
    if (const auto tie = sources_.find(*source); tie != sources_.end()) source = &tie->second;
  return *source;
}

void SequenceReading::add_loop(const Function* function, std::string list, size_t end) {
  if (std::ranges::find(lists, list) == lists.end()) lists.push_back(std::move(list));
  if (text_.loops.try_emplace(function, end).second) added_loops_.push_back(function);
}

std::optional<SequenceReading::Unplaced> SequenceReading::place_numbers() {
  static constexpr const char* kTwoTexts =
      "a number of positions is whole in one call of this method, and a rank's in another";
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
    if (number.is_whole && is_late && !number.can_convert)
      return Unplaced{
          number.place.expr,
          "a rank's number of positions would have to be converted here, but this is not an int64_t, or it changes"};
    // A size that is read where it stands is converted there, in every call.
    const bool is_size = number.place.kind == SequencePlace::Kind::size || number.sizes.contains(number.place.expr);
    const bool is_converted_there = is_size && call.kind == SequenceCall::Kind::none;
    if (!is_converted_there && !write({number.place.expr, number.place.on_shards, SequencePlace::Kind::size}, call))
      return Unplaced{number.place.expr, kTwoTexts};
    for (const Expr* size : number.sizes) {
      const SequenceCall early{is_late || !number.is_whole ? SequenceCall::Kind::none : SequenceCall::Kind::whole_size};
      for (const bool on_shards : {false, true})
        if (!write({size, on_shards, SequencePlace::Kind::size}, early)) return Unplaced{size, kTwoTexts};
    }
  }
  for (const Expr* size : full)
    for (const bool on_shards : {false, true})
      if (!write({size, on_shards, SequencePlace::Kind::size}, {})) return Unplaced{size, kTwoTexts};
  return std::nullopt;
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
