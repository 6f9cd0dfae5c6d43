// What a rank is doing, kept where its launcher can read it after the rank was killed.
#pragma once

#include <string>
#include <string_view>

namespace modular {

/// A rank's own account of where it is. Kept in the file that MODULAR_STATUS_FILE names, mapped into memory, so that it
/// outlives a SIGKILL; without the variable, in memory only. Cheap enough to set in every step. Not for use from
/// several threads at once.
struct Status {
  std::string phase;    // e.g. "step 12: backward"
  std::string waiting;  // the collective that the rank waits for, e.g. "all_reduce of the loss over dp_shard"
};

/// Says what the rank does from here on.
void set_phase(std::string_view phase);
/// Says what the rank waits for; empty when it continues.
void set_waiting(std::string_view waiting);

Status current_status();

/// What a rank left in its status file; empty where there is none.
Status read_status(const std::string& file);

}  // namespace modular
