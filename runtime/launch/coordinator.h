// How the launchers of a job on several machines act as one. Node 0's launcher coordinates: each launcher, its own
// included, is a member that connects to it, does what it orders, and reports what becomes of the ranks on its machine.
//
//   member to coordinator   hello, ready, failed, ended, rejected
//   coordinator to member   welcome, prepare, start, stop, end, reject, notice
//
// The ranks of an attempt start once all members are ready for it. An attempt ends when all ranks have ended; after a
// failure, a lost machine included, all members stop their ranks, and either begin another attempt or end.
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

/// Random text of 128 bits, as no other job has.
std::string random_name();

/// Node 0's part. Everything happens in step(), which does not wait.
class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  /// Listens on options.master_port. `store_port` is that of the store that ranks meet through. Throws
  /// std::runtime_error if the port cannot be opened.
  Coordinator(const LaunchOptions& options, uint16_t store_port);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void add_descriptors(std::vector<pollfd>& events) const;
  /// Accepts members, reads their reports, and gives orders.
  void step();
  /// Whether the job has ended, and all who took part, or were to, have heard it.
  bool finished() const;
  /// The machines that are yet to hear that the job is rejected, as they have not joined: "nodes 1, 2", or nothing.
  std::string unheard() const;

 private:
  enum class Phase { gathering, preparing, running, stopping, ending };

  /// A connection, a member's once it has said hello.
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

  void give(const nlohmann::json& order);
  void stop(const std::string& summary);
  void lose(const std::string& what);
  void gather();
  void finish(bool well);
  void reject_all(const std::string& why);
  void reject(Peer& peer, const std::string& why);

  Peer* member(int64_t node);
  bool all_members(bool Peer::* holds) const;
  std::string missing() const;
  std::string unready() const;
  std::string name_for(const Peer& peer) const;

  const LaunchOptions& options_;
  const uint16_t store_port_;
  const std::string prefix_ = random_name();
  int listener_ = -1;
  std::vector<Peer> peers_;
  Phase phase_ = Phase::gathering;
  std::string job_;       // random, for all attempts
  int64_t attempt_ = 0;   // of starting all ranks
  int64_t round_ = 0;     // of orders: reports that answer an earlier one do not count
  int64_t restarts_ = 0;  // after failures; more than attempts where a machine was lost before the start
  Clock::time_point phase_began_ = Clock::now();
  bool has_reported_waiting_ = false;
  std::string loss_;         // the machine that was lost last, and why
  std::string rejection_;    // of the whole job
  std::set<int64_t> heard_;  // the nodes that know of it
};

}  // namespace modular
