// What sequence parallelism needs in the woven text. Between layers each tp rank has a part of the positions, a
// *share*. A reading of each entry finds where shares become values that have all positions, and the other way around
// (interpret_shares.cc); insert_calls.cc writes the calls.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/weave/interpret.h"

namespace modgen {

/// A call of sequence parallelism.
struct SequenceCall {
  enum class Kind : uint8_t {
    none,
    enter,       // a share enters split computations
    shared,      // a value that has all positions enters split computations
    exit,        // a sum over tp becomes a share
    reduce,      // a sum over tp keeps all positions
    part,        // a value that has all positions becomes a share
    whole,       // a share becomes a value that has all positions
    positions,   // dropout of a share
    whole_size,  // the number of all positions, from that of a share
  };
  /// The dimension of positions that the calls take if none is written: the one before the features.
  static constexpr int64_t kBeforeFeatures = -2;
  Kind kind = Kind::none;
  int64_t dim = kBeforeFeatures;
  bool operator==(const SequenceCall&) const = default;
};

/// A place in the text where a call of sequence parallelism may stand. An expression can have one of each kind.
struct SequencePlace {
  enum class Kind : uint8_t { enter, sum, operand, dropout, size };
  const Expr* expr = nullptr;
  bool on_shards = false;  // in the method's overload for split values
  Kind kind = Kind::operand;
  auto operator<=>(const SequencePlace&) const = default;
};

/// The calls of sequence parallelism in a family's text, which all entries share.
struct SequenceText {
  std::map<SequencePlace, SequenceCall> calls;  // by place; never iterated
  // Methods that loop over a list of layers whose values are shares: the statement before which a value that the loop
  // carries has all positions again.
  std::map<const Function*, size_t> loops;

  /// The call at `place`; none if the reading did not reach it.
  SequenceCall at(const SequencePlace& place) const {
    const auto found = calls.find(place);
    return found == calls.end() ? SequenceCall() : found->second;
  }
};

/// The reading of one entry.
class SequenceReading {
 public:
  /// Reads an entry whose parameters may have the `ties`.
  SequenceReading(const Interpretation& woven, const std::vector<EntryPlan::Tie>& ties, SequenceText& text);

  const MethodFindings* find(const Function* function) const {
    const auto found = woven_.find(function);
    return found == woven_.end() ? nullptr : &found->second;
  }

  /// Writes `call` at `place`. False if another run of the same text needs another call there.
  bool write(const SequencePlace& place, const SequenceCall& call);
  /// A number that is read at `place`.
  struct Number {
    SequencePlace place;
    std::set<const Expr*> sizes;  // the places of the sizes of shares from which it is computed
    bool is_whole = false;        // it has to count all positions
    bool can_convert = true;      // it may be converted at `place`
  };
  void read_number(Number number) { numbers_.push_back(std::move(number)); }
  /// Records that `size` was read of a value that is not a share.
  void read_full_size(const Expr* size) {
    numbers_.push_back({.place = {size, false, SequencePlace::Kind::size}, .sizes = {}});
  }
  /// Records that the gradients of `parameters` are sums over a rank's positions (`is_partial`), or the same on all
  /// ranks. Returns the parameter that is used in both ways, by its own name or by those that it is tied to; empty if
  /// there is none.
  std::string use_parameters(const std::set<std::string>& parameters, bool is_partial);
  /// Records a list of layers, which `function` loops over.
  void add_loop(const Function* function, std::string list, size_t end);

  /// A number that cannot be converted, and why.
  struct Unplaced {
    const Expr* number = nullptr;
    const char* why = "";
  };
  /// Decides where numbers are converted.
  std::optional<Unplaced> place_numbers();
  /// Forgets what was written since `before`.
  struct Mark {
    size_t calls = 0, loops = 0, numbers = 0, wholes = 0;
    std::map<std::string, bool> parameters = {};
  };
  Mark mark() const { return {added_.size(), added_loops_.size(), numbers_.size(), wholes_, parameters_}; }
  void undo(const Mark& before);
  /// The number of values that became whole for lack of a rule for shares.
  size_t wholes() const { return wholes_; }
  void count_whole() { ++wholes_; }

  std::optional<Count> positions;  // the number of all positions, while layers run
  std::vector<std::string> lists;  // lists of layers that were run
  /// The parameters whose gradients are sums over a rank's positions, and those that layers of theirs may lack.
  std::set<std::string> partial_parameters() const;

 private:
  /// The parameter whose tensor `parameter` has if parameters are tied.
  const std::string& find_source(const std::string& parameter) const;

  const Interpretation& woven_;
  SequenceText& text_;
  std::map<std::string, std::string> sources_;  // of tied parameters
  std::vector<SequencePlace> added_;
  std::vector<const Function*> added_loops_;
  std::vector<Number> numbers_;
  std::map<std::string, bool> parameters_;  // whether their gradients are partial
  size_t wholes_ = 0;
};

}  // namespace modgen
