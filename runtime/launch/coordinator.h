// Coordinates the launchers of a multi-node job. Node 0's launcher runs the coordinator. Each launcher, including node
// 0's, is a member: it connects to the coordinator, follows its orders, and reports the state of its machine's ranks.
//
//   member to coordinator   hello, ready, failed, ended, rejected
//   coordinator to member   welcome, prepare, start, stop, end, reject, notice
//
// The ranks of an attempt start once all members are ready. An attempt ends when all ranks have ended. After a failure,
// which includes a lost machine, all members stop their ranks and then either start another attempt or end.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/launch/connection.h"
#include "runtime/launch/launcher.h"

namespace modular {

/// Returns 128 random bits as hex digits: unique to a job.
std::string random_name();

/// Runs on node 0. All work happens in step(), which does not block.
class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  /// Listens on options.master_port. `store_port` is the port of the ranks' rendezvous store. Throws std::runtime_error
  /// if the port cannot be opened.
  Coordinator(const LaunchOptions& options, uint16_t store_port);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void add_descriptors(std::vector<pollfd>& events) const;
  /// Accepts members, reads their reports and sends orders.
  void step();
  /// Whether the job has ended and every current or expected member has been notified.
  bool finished() const;
  /// Machines that have not joined yet and so do not know that the job is rejected, e.g. "nodes 1, 2"; empty if none.
  std::string get_unnotified() const;

 private:
  enum class Phase { gathering, preparing, running, stopping, ending };

  /// A connection. It belongs to a member once hello has arrived.
  struct Peer {
    Connection connection;
    Clock::time_point since = Clock::now();
    std::optional<int64_t> node;
    std::string host;
    int64_t process = 0;
    bool ready = false, ended = false, stopped_well = true, silent = false, leaving = false;
  };

  void accept_peers();
  void read(Peer& peer);
  void on_hello(Peer& peer, const nlohmann::json& hello);
  void drop_closed();
  void watch_silence();
  void decide();

  void broadcast(const nlohmann::json& order);
  void stop(const std::string& summary);
  void handle_loss(const std::string& loss);
  void gather();
  void finish(bool well);
  void reject_all(const std::string& why);
  void reject(Peer& peer, const std::string& why);

  Peer* member(int64_t node);
  bool all_members(bool Peer::* flag) const;
  std::string missing() const;
  std::string unready() const;
  std::string name_for(const Peer& peer) const;

  const LaunchOptions& options_;
  const uint16_t store_port_;
  const std::string prefix_ = random_name();
  int listener_ = -1;
  std::vector<Peer> peers_;
  Phase phase_ = Phase::gathering;
  std::string job_;       // random name, the same for all attempts
  int64_t attempt_ = 0;   // index of the attempt to start all ranks
  int64_t round_ = 0;     // round of orders: reports from earlier rounds are ignored
  int64_t restarts_ = 0;  // restarts after failures; exceeds attempt_ if a machine was lost before the start
  Clock::time_point phase_began_ = Clock::now();
  bool has_reported_waiting_ = false;
  std::string loss_;            // the machine that was lost last, and why
  std::string rejection_;       // reason why the job is rejected
  std::set<int64_t> notified_;  // nodes that know of the rejection
};

}  // namespace modular
