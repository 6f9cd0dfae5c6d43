// Error files of failed ranks, in torchelastic's format.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace modular {

/// A rank's report of its own failure.
struct FailureReport {
  std::string message;       // one sentence, or the exception's message
  std::string location;      // "file.cc:12" if the exception records it; may be empty
  std::string phase;         // what the rank was doing, e.g. "step 12"; may be empty
  std::string waiting;       // collective that the rank was waiting for; may be empty
  int64_t nanoseconds = 0;   // since the Unix epoch
  bool consequence = false;  // a collective failed, probably because another rank died
};

/// Writes the report to `file` as JSON that torchrun's agent also reads (TORCHELASTIC_ERROR_FILE).
void write_failure(const std::string& file, const FailureReport& report);

/// Reads the report of a rank, or of any program that follows torchelastic's conventions. Returns nullopt if the file
/// does not exist.
std::optional<FailureReport> read_failure(const std::string& file);

/// Ends this process as a failed rank: reports the reason `why` and exits without unwinding.
[[noreturn]] void end_rank(const std::string& why);

/// Returns an exception's message for users: libtorch errors without the stack trace, filesystem errors as the paths
/// and the cause, other exceptions as what().
std::string get_message(const std::exception& error);

/// Runs `body` as a rank's main function and returns its value. An exception that leaves `body` is written to the file
/// that TORCHELASTIC_ERROR_FILE names and printed. The process then exits immediately with status 1, without unwinding,
/// because destructors of process groups wait for peers. This requires that no caller, up to main, has a try block.
int run_rank(const std::function<int()>& body);

}  // namespace modular
