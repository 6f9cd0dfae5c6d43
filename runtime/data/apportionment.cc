#include "runtime/data/apportionment.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/parallel/random/mixed_bits.h"

namespace modular {

Apportionment::Apportionment(std::span<const double> weights, uint64_t seed) : seed_(seed) {
  const double largest = *std::ranges::max_element(weights);  // by which their sum stays finite
  double sum = 0.0;
  for (const double weight : weights) sum += weight / largest;
  // Integers: all machines are to deal alike.
  for (const double weight : weights)
    shares_.push_back(std::max<int64_t>(std::llround(weight / largest / sum * 0x1p24), 1));
  all_ = std::accumulate(shares_.begin(), shares_.end(), int64_t{0});
}

size_t Apportionment::next(std::span<const int64_t> turns) const {
  const auto count = static_cast<int64_t>(shares_.size());
  if (count == 1) return 0;
  const int64_t turn = std::accumulate(turns.begin(), turns.end(), int64_t{1});
  const auto tie = [&](size_t one) { return mixed(seed_ ^ mixed(static_cast<uint64_t>(turn * count) + one)); };
  const int64_t parts = 2 * count - 2;
  size_t best = shares_.size();
  int64_t best_slack = 0;
  for (size_t one = 0; one < shares_.size(); ++one) {
    // What it is owed, in shares of a turn: only who is owed a part of one may be next, and of these whose turn would
    // otherwise be too late first.
    const int64_t owed = turn * shares_[one] - turns[one] * all_;
    if (owed * parts < all_) continue;
    const int64_t slack = all_ * (parts - 1) - owed * parts;
    const int64_t ahead = best == shares_.size() ? -1 : slack * shares_[best] - best_slack * shares_[one];
    if (ahead < 0 || (ahead == 0 && tie(one) < tie(best))) best = one, best_slack = slack;
  }
  return best;
}

}  // namespace modular
