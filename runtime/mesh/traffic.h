// How much a rank has exchanged with others, counted where collectives are started.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace modular {

struct Exchanged {
  int64_t exchanges = 0;  // collectives and messages through which this rank received something
  /// That this rank received: of an all-gather and of a reduce-scatter the others' share of the larger tensor, of an
  /// all-reduce twice that, which no algorithm goes below (Patarasuk & Yuan, Bandwidth optimal all-reduce algorithms).
  double bytes = 0.0;
};

/// Since the process began.
struct Traffic : Exchanged {
  std::map<std::string, Exchanged> over;  // by the axes of the groups, e.g. "dp_replicate x dp_shard"
};

/// This process's. Not for use from several threads at once.
inline Traffic& traffic() {
  static Traffic counted;
  return counted;
}

}  // namespace modular
