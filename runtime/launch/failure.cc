#include "runtime/launch/failure.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/files/open_file.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/machine_watch.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"

namespace modular {
namespace {

using Json = nlohmann::json;

/// "file.cc:12" from "Exception raised from function at /path/file.cc:12 (most recent call first)".
std::string find_location(const std::string& text) {
  const size_t raised = text.find("Exception raised from ");
  const size_t at = raised == std::string::npos ? raised : text.find(" at ", raised);
  if (at == std::string::npos) return {};
  return text.substr(at + 4, text.find_first_of(" \n", at + 4) - at - 4);
}

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

FailureReport describe(const std::exception_ptr& exception) {
  FailureReport report;
  const Status status = current_status();
  report.phase = status.phase;
  report.waiting = status.waiting;
  report.nanoseconds = now();
  report.message = "terminated without an exception";
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const CollectiveError& error) {
    report.message = error.what();
    report.consequence = true;
    if (const std::string machine = silent_machine(); !machine.empty())
      report.message = fmt::format("{} is gone: {}", machine, report.message);
  } catch (const std::exception& error) {
    report.message = get_message(error);
    report.location = find_location(error.what());
    // Thrown by c10d itself, e.g. by its NCCL watchdog thread: also caused by another rank's failure.
    report.consequence = dynamic_cast<const c10::DistError*>(&error) != nullptr;
  } catch (...) {
    report.message = "an exception of an unknown type";
  }
  return report;
}

[[noreturn]] void end_with(const FailureReport& report) {
  if (const char* file = std::getenv("TORCHELASTIC_ERROR_FILE"); file && *file) write_failure(file, report);
  const char* rank = std::getenv("RANK");
  fflush(stdout);
  print_to(stderr, "error{}: {}\n", rank ? fmt::format(" on rank {}", rank) : "", report.message);
  _exit(1);
}

[[noreturn]] void terminate_rank() { end_with(describe(std::current_exception())); }

constexpr int64_t kMostReportBytes = int64_t{16} << 20;

/// Returns a member of `object`; null if `object` is not an object or lacks the member.
Json get_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json() : *found;
}

std::string get_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

void write_failure(const std::string& file, const FailureReport& report) {
  const Json extra = {{"timestamp", std::to_string(report.nanoseconds / 1'000'000'000)},
                      {"nanoseconds", report.nanoseconds},
                      {"py_callstack", report.location},
                      {"phase", report.phase},
                      {"waiting", report.waiting},
                      {"consequence", report.consequence}};
  const Json json = {{"message", {{"message", report.message}, {"extraInfo", extra}}}};
  // Library messages may contain invalid UTF-8.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  try {
    const OpenFile out = open_to_write(file, O_CREAT | O_TRUNC);
    if (::write(out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
    print_to(stderr, "{} cannot be written: {}\n", file, std::strerror(errno));
  } catch (const std::runtime_error& error) {  // the failure itself has been printed
    print_to(stderr, "{}\n", error.what());
  }
}

std::optional<FailureReport> read_failure(const std::string& file) {
  if (!is_there(file)) return std::nullopt;
  FailureReport report;
  std::string text;
  try {
    text = read_file(file, kMostReportBytes);
  } catch (const std::runtime_error& error) {
    report.message = error.what();
    return report;
  }
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  const Json& message = json["message"];
  if (!message.is_object()) {
    report.message = get_text(json, "message");
    return report;
  }
  report.message = get_text(message, "message");
  const Json extra = get_member(message, "extraInfo"), consequence = get_member(extra, "consequence"),
             nanoseconds = get_member(extra, "nanoseconds");
  report.location = get_text(extra, "py_callstack");
  report.phase = get_text(extra, "phase");
  report.waiting = get_text(extra, "waiting");
  report.consequence = consequence.is_boolean() && consequence.get<bool>();
  if (nanoseconds.is_number_integer()) report.nanoseconds = nanoseconds.get<int64_t>();
  constexpr int64_t kLatest = int64_t{1} << 33;  // seconds
  if (const int64_t since = std::atoll(get_text(extra, "timestamp").c_str());
      report.nanoseconds == 0 && 0 < since && since < kLatest)
    report.nanoseconds = since * 1'000'000'000;
  return report;
}

void end_rank(const std::string& why) {
  const Status status = current_status();
  end_with({.message = why, .phase = status.phase, .waiting = status.waiting, .nanoseconds = now()});
}

std::string get_message(const std::exception& error) {
  if (const auto* const torch_error = dynamic_cast<const c10::Error*>(&error))
    return torch_error->what_without_backtrace();
  const auto* const file_error = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (!file_error) return error.what();
  constexpr size_t kLongest = 500;  // a path that is too long for the file system may have any length
  std::string paths = file_error->path1().string();
  if (!file_error->path2().empty()) paths += ", " + file_error->path2().string();
  if (paths.size() > kLongest) paths = paths.substr(0, kLongest) + "…";
  return fmt::format("{}: {}", paths, file_error->code().message());
}

int run_rank(const std::function<int()>& body) {
  std::set_terminate(terminate_rank);
  return body();
}

}  // namespace modular
