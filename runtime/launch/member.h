// A launcher's side of a multi-node job: it follows the orders of node 0's launcher (coordinator.h).
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/connection.h"
#include "runtime/launch/launcher.h"

namespace modular {

/// An order from the coordinator, or the notice that the coordinator is lost.
struct Order {
  enum class Kind { prepare, start, stop, end, reject, lost };
  Kind kind;
  int64_t attempt = 0, restarts = 0;  // prepare, start
  int64_t round = 0;                  // prepare, start, stop: echoed in the reports that answer
  uint16_t store_port = 0;            // start: on node 0
  std::string prefix, job;            // start: prefix of the ranks' keys in the store, and the job's name
  bool well = false;                  // end: no rank of the job failed
  std::string text;                   // stop, reject, lost: the reason, as lines to print
};

/// A launcher's connection to the coordinator. Never blocks: the caller polls.
class Member {
 public:
  explicit Member(const LaunchOptions& options);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void add_descriptors(std::vector<pollfd>& events) const;
  /// Connects if necessary, and reads orders.
  void step();
  /// Returns the next order that has arrived.
  std::optional<Order> next();
  /// Whether the coordinator has accepted this launcher.
  bool joined() const { return joined_; }
  /// Whether this launcher has taken part in an attempt.
  bool has_started() const { return !job_.empty(); }
  /// Whether no order will follow.
  bool is_over() const { return is_over_; }

  void report_ready();
  /// Reports that a rank of this machine failed; all machines print `summary`.
  void report_failed(const std::string& summary);
  /// Reports that this machine has no running ranks; `well` if none failed.
  void report_ended(bool well);
  /// Reports that this machine cannot take part.
  void report_rejected(const std::string& why);
  /// After an order `lost`: reconnects within options.rejoin_timeout for the next attempt.
  void rejoin();

 private:
  void connect();
  void report(nlohmann::json message);
  void on_message(const nlohmann::json& message);
  void handle_loss(const std::string& why);
  std::string host() const;
  std::string address() const;

  const LaunchOptions& options_;
  std::optional<Connection> connection_;
  int connecting_ = -1;
  int64_t tries_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now(), tried_at_ = {};
  std::chrono::milliseconds patience_;
  bool has_reported_waiting_ = false, is_silent_ = false, is_over_ = false, joined_ = false;
  std::string coordinator_ = "node 0", job_;
  int64_t attempt_ = 0, restarts_ = 0;
  std::vector<Order> orders_;
  std::vector<nlohmann::json> reports_;  // to send once connected
  int64_t round_ = 0;                    // round of the last order that next() returned
};

}  // namespace modular
