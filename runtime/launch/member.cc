#include "runtime/launch/member.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "runtime/mesh/agreement.h"
#include "runtime/mesh/print.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kBetweenTries = milliseconds(200);
constexpr size_t kLongestText = size_t{1} << 16;

/// Truncates `text` to fit into a message.
std::string shortened(std::string text) {
  if (text.size() <= kLongestText) return text;
  text.resize(kLongestText);
  text.resize(text.size() - unfinished_bytes(text));
  return text + "…\n";
}

constexpr auto kConnectTimeout = seconds(5);  // of one attempt

}  // namespace

Member::Member(const LaunchOptions& options) : options_(options), patience_(options.join_timeout) {}

Member::~Member() {
  if (connecting_ >= 0) ::close(connecting_);
}

// Node 0 reaches itself even if its host name resolves to another machine.
std::string Member::host() const { return options_.node_rank == 0 ? "127.0.0.1" : options_.master_addr; }

std::string Member::address() const { return fmt::format("{}:{}", options_.master_addr, options_.master_port); }

void Member::add_descriptors(std::vector<pollfd>& events) const {
  if (is_over_) return;
  if (connection_) events.push_back({connection_->descriptor(), connection_->events(), 0});
  if (connecting_ >= 0) events.push_back({connecting_, POLLOUT, 0});
}

void Member::connect() {
  const auto now = Clock::now();
  if (connecting_ < 0) {
    if (now - tried_at_ < kBetweenTries) return;
    tried_at_ = now;
    connecting_ = begin_connecting(host(), options_.master_port, tries_++);
    if (connecting_ < 0) return;
  }
  pollfd event = {connecting_, POLLOUT, 0};
  if (poll(&event, 1, 0) != 1) {
    if (now - tried_at_ < kConnectTimeout) return;
  } else if (has_connected(connecting_)) {
    connection_.emplace(std::exchange(connecting_, -1), options_.node_timeout);
    connection_->send({{"report", "hello"},
                       {"protocol", kLauncherProtocol},
                       {"node", options_.node_rank},
                       {"host", host_name()},
                       {"process", getpid()},
                       {"nodes", options_.nodes},
                       {"ranks", options_.ranks_per_node},
                       {"restarts_allowed", options_.max_restarts},
                       {"job", job_},
                       {"attempt", attempt_},
                       {"restarts", restarts_}});
    for (const Json& message : std::exchange(reports_, {})) connection_->send(message);
    return;
  }
  ::close(std::exchange(connecting_, -1));
}

void Member::step() {
  if (is_over_) return;
  if (!connection_) {
    connect();
    const auto waited = Clock::now() - since_;
    if (!connection_ && waited > patience_)
      return handle_loss(
          fmt::format("cannot reach node 0's launcher at {} within {} s: start modrun there with --node-rank 0, or "
                      "check --master-addr and --master-port",
                      address(), std::chrono::ceil<seconds>(patience_).count()));
    if (!connection_ && waited > kLongWait && !std::exchange(has_reported_waiting_, true))
      print_to(stderr, "modrun: waiting for node 0 at {}\n", address());
    if (!connection_) return;
  }
  for (const Json& message : connection_->receive()) {
    try {
      on_message(message);
    } catch (const Json::exception&) {
      return handle_loss(
          fmt::format("{} at {} sent something that is not an order of modrun's launcher", coordinator_, address()));
    }
  }
  if (!connection_->open() && !is_over_)
    return handle_loss(fmt::format("{} at {} is gone: {}", coordinator_, address(), connection_->why_closed()));
  const bool silent = connection_->silence() >= kSilence;
  if (silent == std::exchange(is_silent_, silent) || options_.node_rank == 0) return;
  if (silent)
    print_to(stderr, "modrun: {} at {} has not answered for {} s; it counts as gone after {} s (--node-timeout)\n",
             coordinator_, address(), kSilence.count(), std::chrono::ceil<seconds>(options_.node_timeout).count());
  else
    print_to(stderr, "modrun: {} answers again\n", coordinator_);
}

void Member::on_message(const Json& message) {
  static const std::map<std::string, Order::Kind> kKinds = {{"prepare", Order::Kind::prepare},
                                                            {"start", Order::Kind::start},
                                                            {"stop", Order::Kind::stop},
                                                            {"end", Order::Kind::end},
                                                            {"reject", Order::Kind::reject}};
  const auto name = message.at("order").get<std::string>();
  if (name == "welcome") {
    coordinator_ = fmt::format("node 0 ({})", message.at("host").get<std::string>());
    joined_ = true;
    return;
  }
  if (name == "notice") return print_to(stderr, "{}", message.at("text").get<std::string>());
  const auto kind = kKinds.find(name);
  if (kind == kKinds.end()) return;  // from a later version
  Order order{kind->second};
  order.round = message.value("round", int64_t{0});
  if (order.kind == Order::Kind::prepare || order.kind == Order::Kind::start) {
    order.attempt = message.at("attempt").get<int64_t>();
    order.restarts = message.at("restarts").get<int64_t>();
    attempt_ = order.attempt + (order.kind == Order::Kind::start ? 1 : 0);
    restarts_ = order.restarts + 1;  // of the next attempt, if any
  }
  if (order.kind == Order::Kind::start) {
    order.store_port = message.at("store_port").get<uint16_t>();
    order.prefix = message.at("prefix").get<std::string>();
    job_ = order.job = message.at("job").get<std::string>();
  }
  if (order.kind == Order::Kind::end) order.well = message.at("well").get<bool>();
  if (order.kind == Order::Kind::stop || order.kind == Order::Kind::reject)
    order.text = message.at("text").get<std::string>();
  if (order.kind == Order::Kind::end || order.kind == Order::Kind::reject) {
    is_over_ = true;
    connection_->finish();
  }
  orders_.push_back(std::move(order));
}

void Member::handle_loss(const std::string& why) {
  is_over_ = true;
  joined_ = false;
  connection_.reset();
  orders_.push_back({.kind = Order::Kind::lost, .text = why});
}

void Member::rejoin() {
  is_over_ = false;
  has_reported_waiting_ = true;  // the launcher has printed it
  since_ = Clock::now();
  patience_ = options_.rejoin_timeout;
}

std::optional<Order> Member::next() {
  if (orders_.empty()) return std::nullopt;
  Order order = std::move(orders_.front());
  orders_.erase(orders_.begin());
  using Kind = Order::Kind;
  if (order.kind == Kind::prepare || order.kind == Kind::start || order.kind == Kind::stop) round_ = order.round;
  return order;
}

void Member::report(Json message) {
  message["round"] = round_;
  if (connection_)
    connection_->send(message);
  else
    reports_.push_back(message);
}

void Member::report_ready() { report({{"report", "ready"}}); }
void Member::report_failed(const std::string& summary) { report({{"report", "failed"}, {"text", shortened(summary)}}); }
void Member::report_ended(bool well) { report({{"report", "ended"}, {"well", well}}); }
void Member::report_rejected(const std::string& why) { report({{"report", "rejected"}, {"text", shortened(why)}}); }

}  // namespace modular
