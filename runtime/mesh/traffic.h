// Communication volume of a rank, counted where collectives are started.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace modular {

struct Exchanged {
  int64_t exchanges = 0;  // collectives and messages through which this rank received data
  /// Bytes that this rank received. For an all-gather or a reduce-scatter: the other ranks' chunks of the larger
  /// tensor. For an all-reduce: twice that, the lower bound of all algorithms (Patarasuk & Yuan, Bandwidth optimal
  /// all-reduce algorithms).
  double bytes = 0.0;
};

/// Totals since the process started.
struct Traffic : Exchanged {
  std::map<std::string, Exchanged> over;  // by the axes of the group, e.g. "dp_replicate x dp_shard"
};

/// Counters of this process. Not thread-safe.
inline Traffic& traffic() {
  static Traffic counted;
  return counted;
}

}  // namespace modular
