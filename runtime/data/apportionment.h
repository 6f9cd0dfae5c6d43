// Turns dealt out by weights, so that each has had its share at any time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace modular {

class Apportionment {
 public:
  /// `weights` are finite and above 0. `seed` decides between those that are due alike.
  Apportionment(std::span<const double> weights, uint64_t seed);

  /// Who is next after each has had so many turns. Where all turns were dealt out so, after n of them each has had n
  /// times its share of the weights, give or take less than one turn (Tijdeman, The chairman assignment problem);
  /// shares are rounded to 2^-24.
  size_t next(std::span<const int64_t> turns) const;

 private:
  std::vector<int64_t> shares_;  // of all_
  int64_t all_ = 0;
  uint64_t seed_;
};

}  // namespace modular
