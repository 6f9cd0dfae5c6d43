#include "runtime/launch/job_store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <stdexcept>

namespace modular {
namespace {

const std::string kFailure = "launcher/failure", kDone = "launcher/done/";

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

JobStore::JobStore(const LaunchOptions& options)
    : nodes_(options.nodes),
      node_rank_(options.node_rank),
      host_(options.master_addr.empty() ? "127.0.0.1" : options.master_addr) {
  c10d::TCPStoreOptions store_options;
  store_options.port = options.master_port;
  store_options.isServer = node_rank_ == 0;
  store_options.waitWorkers = false;
  try {
    store_ = c10::make_intrusive<c10d::TCPStore>(host_, store_options);
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("cannot {} the job's store at {}:{} (--master-addr, --master-port): {}",
                                         node_rank_ == 0 ? "open" : "reach", host_, options.master_port,
                                         error.what_without_backtrace()));
  }
}

uint16_t JobStore::port() const { return store_->getPort(); }

void JobStore::tell_failure(const std::string& summary) {
  if (nodes_ == 1) return;
  const std::string value = fmt::format("{}:{}", node_rank_, summary);
  try {
    store_->compareSet(kFailure, {}, std::vector<uint8_t>(value.begin(), value.end()));
  } catch (const c10::Error& error) {
    fmt::print(stderr, "modrun: cannot tell the other nodes of the failure: {}\n", error.what_without_backtrace());
  }
}

std::string JobStore::failure_elsewhere() {
  if (nodes_ == 1) return {};
  try {
    if (!store_->check({kFailure})) return {};
    const std::string value = text_of(store_->get(kFailure));
    const size_t colon = value.find(':');
    if (value.substr(0, colon) == std::to_string(node_rank_)) return {};
    return value.substr(colon + 1);
  } catch (const c10::Error& error) {
    return fmt::format("modrun: the launcher of node 0 at {} is gone: see its last lines there\n", host_);
  }
}

void JobStore::tell_done() {
  if (nodes_ == 1) return;
  try {
    store_->set(kDone + std::to_string(node_rank_), std::vector<uint8_t>{1});
  } catch (const c10::Error& error) {
    fmt::print(stderr, "modrun: node 0's launcher at {} ended before this one\n", host_);
  }
}

bool JobStore::may_close() {
  if (node_rank_ != 0) return true;
  std::vector<std::string> keys;
  for (int64_t node = 1; node < nodes_; ++node) keys.push_back(kDone + std::to_string(node));
  return keys.empty() || store_->check(keys);
}

}  // namespace modular
