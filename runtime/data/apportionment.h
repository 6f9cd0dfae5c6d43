// Deals out turns by weights, so that each candidate has had its share at any time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace modular {

class Apportionment {
 public:
  /// `weights` are finite and above 0. `seed` breaks ties.
  Apportionment(std::span<const double> weights, uint64_t seed);

  /// Index of the candidate whose turn is next, given the turns that each has had. If all turns are dealt this way,
  /// after n turns each candidate has had n times its share of the weights, to within less than one turn (Tijdeman, The
  /// chairman assignment problem); shares are rounded to 2^-24.
  size_t next(std::span<const int64_t> turns) const;

 private:
  std::vector<int64_t> shares_;  // of all_
  int64_t all_ = 0;
  uint64_t seed_;
};

}  // namespace modular
