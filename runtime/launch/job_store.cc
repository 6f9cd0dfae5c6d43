#include "runtime/launch/job_store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <future>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "runtime/mesh/print.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;

const std::string kDone = "launcher/done/";
constexpr auto kAnswer = std::chrono::seconds(10);
constexpr auto kSilence = std::chrono::minutes(1);  // after which node 0 counts as gone
constexpr auto kAtOnce = std::chrono::milliseconds(50);
constexpr auto kLookForSignals = std::chrono::milliseconds(100);

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// What `call` returns, on a thread of its own: c10d waits for an answer for ever, and where it does, so does that
/// thread.
template <class Call>
auto begin_call(Call call) {
  using Result = decltype(call());
  const auto promise = std::make_shared<std::promise<Result>>();
  auto result = promise->get_future();
  std::thread([promise, call = std::move(call)] {
    try {
      if constexpr (std::is_void_v<Result>) {
        call();
        promise->set_value();
      } else {
        promise->set_value(call());
      }
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  return result;
}

/// The same within some seconds. Throws std::runtime_error where there is no answer.
template <class Call>
auto answer_to(Call call) {
  auto result = begin_call(std::move(call));
  if (result.wait_for(kAnswer) != std::future_status::ready)
    throw std::runtime_error(fmt::format("no answer for {} seconds", kAnswer.count()));
  try {
    return result.get();
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

}  // namespace

JobStore::JobStore(const LaunchOptions& options, const std::function<void()>& while_waiting)
    : nodes_(options.nodes),
      node_rank_(options.node_rank),
      host_(options.nodes == 1 || options.master_addr.empty() ? "127.0.0.1" : options.master_addr) {
  c10d::TCPStoreOptions store_options;
  if (nodes_ == 1) {
    store_options = loopback_store(options.master_port);
  } else {
    store_options.port = options.master_port;
    store_options.isServer = node_rank_ == 0;
    store_options.waitWorkers = false;
  }
  auto connecting =
      begin_call([host = host_, store_options] { return c10::make_intrusive<c10d::TCPStore>(host, store_options); });
  while (connecting.wait_for(kLookForSignals) != std::future_status::ready) while_waiting();
  try {
    store_ = connecting.get();
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("cannot {} the job's store at {}:{} (--master-addr, --master-port): {}",
                                         node_rank_ == 0 ? "open" : "reach", host_, options.master_port,
                                         error.what_without_backtrace()));
  }
}

uint16_t JobStore::port() const { return store_->getPort(); }

std::string JobStore::failure_key() const { return fmt::format("launcher/failure/{}", attempt_); }

void JobStore::tell_failure(const std::string& summary) {
  if (nodes_ == 1) return;
  const std::string value = fmt::format("{}:{}", node_rank_, summary);
  try {
    answer_to([store = store_, key = failure_key(), value] {
      store->compareSet(key, {}, std::vector<uint8_t>(value.begin(), value.end()));
    });
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: cannot tell the other nodes of the failure: {}\n", error.what());
  }
}

std::string JobStore::failure_elsewhere() {
  if (nodes_ == 1) return {};
  try {
    if (!asked_.valid()) {
      asked_at_ = Clock::now();
      asked_ = begin_call([store = store_, key = failure_key()] {
        return store->check({key}) ? text_of(store->get(key)) : std::string();
      });
    }
    if (asked_.wait_for(kAtOnce) != std::future_status::ready) {
      if (Clock::now() - asked_at_ < kSilence) return {};
      throw std::runtime_error("no answer");
    }
    const std::string value = asked_.get();
    const size_t colon = value.find(':');
    if (value.empty() || value.substr(0, colon) == std::to_string(node_rank_)) return {};
    return printable(value.substr(colon + 1));
  } catch (const std::exception&) {
    return fmt::format("modrun: the launcher of node 0 at {} is gone: see its last lines there\n", host_);
  }
}

void JobStore::tell_done() {
  if (nodes_ == 1) return;
  try {
    answer_to([store = store_, key = kDone + std::to_string(node_rank_)] { store->set(key, std::vector<uint8_t>{1}); });
  } catch (const std::runtime_error& error) {
    print_to(stderr, "modrun: node 0's launcher at {} ended before this one\n", host_);
  }
}

bool JobStore::another_is_done() {
  for (int64_t node = 0; node < nodes_; ++node) {
    if (node == node_rank_) continue;
    try {
      if (answer_to([store = store_, key = kDone + std::to_string(node)] { return store->check({key}); })) return true;
    } catch (const std::runtime_error&) {
      return true;
    }
  }
  return false;
}

bool JobStore::may_close() {
  if (node_rank_ != 0) return true;
  std::vector<std::string> keys;
  for (int64_t node = 1; node < nodes_; ++node) keys.push_back(kDone + std::to_string(node));
  try {
    return keys.empty() || answer_to([store = store_, keys] { return store->check(keys); });
  } catch (const std::runtime_error&) {
    return true;  // it serves nobody any more
  }
}

std::string printable(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool is_long_control = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // of ISO 6429, in UTF-8
    const bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f || is_long_control;
    shown += is_control ? '?' : text[i];
    if (is_long_control) ++i;
  }
  return shown;
}

}  // namespace modular
