#include "runtime/mesh/agreement.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "runtime/mesh/print.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;

const std::string kConfig = "config of rank 0", kDifference = "configs differ", kRejected = "rejected rank",
                  kMet = "met", kHeard = "heard of a rejected rank";
constexpr milliseconds kLongestPause(100);           // between two polls; longer in jobs with many ranks
constexpr auto kLongWait = std::chrono::seconds(5);  // after which the wait is reported
constexpr auto kHearing = std::chrono::seconds(5);
constexpr auto kReport = std::chrono::seconds(20);

std::vector<uint8_t> get_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// Returns the value of a key, or nullopt if it is not set.
std::optional<std::string> get_value(const Store& store, const std::string& key) {
  if (!store->check({key})) return std::nullopt;
  const std::vector<uint8_t> bytes = store->get(key);
  return std::string(bytes.begin(), bytes.end());
}

std::string here(int64_t rank) { return fmt::format("rank {} is here", rank); }

/// Whether the store ends with this rank, or with the launcher of its machine, which outlives this rank.
bool keeps_store(const Environment& environment) {
  const bool is_on_first_machine = environment.rank == environment.local_rank;
  return environment.store_prefix.empty() &&
         (environment.launcher_hosts_store ? is_on_first_machine : environment.rank == 0);
}

/// The job's store, in which a rejected rank leaves its message, and the part of it that belongs to this meeting.
struct Meeting {
  const Store& job;
  Store own;
  const Environment& environment;
  milliseconds timeout;
};

/// Counts this rank as informed of the outcome. A rank that keeps the store alive waits until all ranks are informed.
void leave(const Store& store, const Environment& environment, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  store->add(kHeard, 1);
  while (keeps_store(environment) && store->add(kHeard, 0) < environment.world_size && Clock::now() < deadline)
    std::this_thread::sleep_for(kLongestPause);
}

/// Throws if a rank was rejected.
void check_rejected(const Meeting& meeting) {
  const auto why = get_value(meeting.job, kRejected);
  if (!why) return;
  leave(meeting.job, meeting.environment, kHearing);
  throw std::runtime_error(*why);
}

/// Waits for `key`. Throws if a rank was rejected or if the deadline passes; then the message names the missing ranks.
void await(const Meeting& meeting, const std::string& key) {
  const auto& [job, store, environment, timeout] = meeting;
  const auto begin = Clock::now(), deadline = begin + timeout;
  bool is_reported = environment.rank != 0;
  const auto missing = [&] {
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < environment.world_size; ++rank)
      if (!store->check({here(rank)})) ranks.push_back(rank);
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
  };
  // c10d's own wait logs to the terminal every second and cannot watch a second key.
  const milliseconds longest = std::max(kLongestPause, milliseconds(environment.world_size));
  for (milliseconds pause(1); !store->check({key}); pause = std::min(2 * pause, longest)) {
    check_rejected(meeting);
    std::this_thread::sleep_for(pause);
    if (Clock::now() - begin > kLongWait && !std::exchange(is_reported, true))
      print_to(stderr, "rank 0 waits for {} to join the job\n", missing());
    if (Clock::now() < deadline) continue;
    throw std::runtime_error(fmt::format("rank {} has waited {} s for {} to join the job", environment.rank,
                                         std::chrono::ceil<std::chrono::seconds>(timeout).count(), missing()));
  }
}

/// Describes the first difference from rank 0's config; empty if there is none.
std::string difference(const Environment& environment, const ResolvedConfig& config, const std::string& rank0_text) {
  const Json first = Json::parse(rank0_text, nullptr, /*allow_exceptions=*/false);
  ResolvedConfig theirs;
  std::string their_host;
  try {
    first.at("config").get_to(theirs);
    first.at("host").get_to(their_host);
  } catch (const Json::exception&) {
    return "the job's store holds something that is not rank 0's config: is another job using it?";
  }
  const std::string advice = "start all ranks with the same command, files and program";
  for (size_t index = 0; index < std::max(config.size(), theirs.size()); ++index) {
    static const std::pair<std::string, std::string> kNone;
    const auto& [key, value] = index < config.size() ? config[index] : kNone;
    const auto& [their_key, their_value] = index < theirs.size() ? theirs[index] : kNone;
    if (key == their_key && value == their_value) continue;
    const bool same_key = key == their_key;
    return fmt::format("{} is {} on rank {} ({}), and {} on rank 0 ({}): {}", key.empty() ? their_key : key,
                       key.empty() ? "not set" : value, environment.rank, host_name(),
                       same_key || key.empty() ? their_value : "not set", their_host, advice);
  }
  return {};
}

}  // namespace

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

Store agree(const Store& job, const Environment& environment, const ResolvedConfig& config, milliseconds timeout) {
  try {
    // A process that creates several meshes meets the others once per mesh. Keys of one meeting must not leak into the
    // next.
    const int64_t number = job->add(fmt::format("meetings of rank {}", environment.rank), 1);
    const Store store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("mesh_{}", number), job);
    const Meeting meeting = {job, store, environment, timeout};
    store->set(here(environment.rank), get_bytes(host_name()));
    if (environment.rank == 0) {
      const Json own = {{"host", host_name()}, {"config", config}};
      store->set(kConfig, get_bytes(own.dump(-1, ' ', false, Json::error_handler_t::replace)));
    } else {
      await(meeting, kConfig);
      const std::string sentence = difference(environment, config, get_value(store, kConfig).value_or(""));
      if (!sentence.empty()) store->compareSet(kDifference, {}, get_bytes(sentence));
    }
    await(meeting, arrive(store, kMet, environment.world_size));
    if (const auto sentence = get_value(store, kDifference)) {
      leave(job, environment, kHearing);
      throw std::runtime_error(*sentence);
    }
    return store;
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("rank {} has lost the job's store at {}:{}: {}", environment.rank,
                                         environment.master_addr, environment.master_port,
                                         error.what_without_backtrace()));
  }
}

void report_rejected_rank(const Environment& environment, const std::string& why) {
  try {
    const Store store = connect_store(environment, kReport);
    const std::string sentence = fmt::format("rank {} ({}): {}", environment.rank, host_name(), why);
    store->compareSet(kRejected, {}, get_bytes(sentence));
    leave(store, environment, kReport);
  } catch (const std::exception&) {
    return;  // without a store no rank is waiting
  }
}

}  // namespace modular
