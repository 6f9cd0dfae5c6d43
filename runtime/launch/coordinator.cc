#include "runtime/launch/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <stdexcept>
#include <utility>

#include "runtime/mesh/agreement.h"
#include "runtime/mesh/print.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kHello = seconds(10);      // a connection must identify itself within this time
constexpr auto kLongCheck = seconds(10);  // then machines still checking the run are reported
constexpr auto kStop = seconds(20);       // members must stop their ranks within this time
constexpr const char* kNoReport = "it sent something that is not a report of modrun's launcher";
constexpr size_t kStrangers = 64;  // connections that are not yet members

std::string get_names(const std::vector<int64_t>& nodes) {
  return fmt::format("node{} {}", nodes.size() == 1 ? "" : "s", fmt::join(nodes, ", "));
}

}  // namespace

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

Coordinator::Coordinator(const LaunchOptions& options, uint16_t store_port)
    : options_(options), store_port_(store_port) {
  try {
    listener_ = listen_on(options.master_port);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        fmt::format("node 0 cannot listen on port {} (--master-port): {}; is another job, or another launcher with "
                    "--node-rank 0, running on this machine?",
                    options.master_port, error.what()));
  }
}

Coordinator::~Coordinator() { ::close(listener_); }

void Coordinator::add_descriptors(std::vector<pollfd>& events) const {
  events.push_back({listener_, POLLIN, 0});
  for (const Peer& peer : peers_) events.push_back({peer.connection.descriptor(), peer.connection.events(), 0});
}

void Coordinator::step() {
  accept_peers();
  for (Peer& peer : peers_) read(peer);
  drop_closed();
  watch_silence();
  decide();
}

void Coordinator::accept_peers() {
  for (;;) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) return;
    const auto strangers = std::ranges::count_if(peers_, [](const Peer& peer) { return !peer.node; });
    if (static_cast<size_t>(strangers) >= kStrangers + static_cast<size_t>(options_.nodes))
      ::close(socket);
    else
      peers_.push_back({.connection = Connection(socket, options_.node_timeout)});
  }
}

void Coordinator::read(Peer& peer) {
  for (const Json& message : peer.connection.receive()) {
    if (peer.leaving) continue;
    try {
      const auto report = message.at("report").get<std::string>();
      if (report == "hello") {
        on_hello(peer, message);
      } else if (!peer.node) {
        peer.connection.close(kNoReport);
      } else if (const bool is_late = message.at("round").get<int64_t>() != round_; is_late && report != "rejected") {
        continue;
      } else if (report == "ready") {
        peer.ready = true;
      } else if (report == "failed") {
        if (phase_ == Phase::running) stop(message.at("text").get<std::string>());
      } else if (report == "ended") {
        peer.ended = true;
        peer.stopped_well = message.at("well").get<bool>();
      } else if (report == "rejected") {
        const auto why = message.at("text").get<std::string>();
        // A machine that rejoins but cannot take part may try again.
        const bool is_fatal = phase_ == Phase::running || attempt_ == 0 || peer.node == 0;
        is_fatal ? reject_all(fmt::format("{}: {}", name_for(peer), why)) : reject(peer, why);
      }
    } catch (const Json::exception&) {
      peer.connection.close(kNoReport);
    }
  }
}

void Coordinator::on_hello(Peer& peer, const Json& hello) {
  if (hello.at("protocol").get<int>() != kLauncherProtocol)
    return reject(peer, "its modrun version differs from node 0's: start the same program on each machine");
  peer.host = hello.at("host").get<std::string>();
  peer.process = hello.at("process").get<int64_t>();
  const auto node = hello.at("node").get<int64_t>();
  if (node < 0 || node >= options_.nodes)
    return reject(peer, fmt::format("--node-rank {} is not below --nnodes {}", node, options_.nodes));
  if (phase_ == Phase::ending) {
    notified_.insert(node);
    return reject(peer, rejection_.empty() ? "the job has ended" : rejection_);
  }
  const bool is_waiting = phase_ == Phase::gathering && attempt_ == 0;
  const auto reject_flag = [&](const char* flag, int64_t theirs, int64_t ours) {
    const std::string why = fmt::format(
        "node {} ({}) was started with {} {}, and node 0 ({}) with {}: start modrun with the same flags on "
        "each machine, except --node-rank",
        node, peer.host, flag, theirs, host_name(), ours);
    // The job would wait for this machine forever.
    if (is_waiting) {
      notified_.insert(node);
      reject_all(why);
    }
    reject(peer, why);
  };
  for (const auto& [flag, key, ours] : {std::tuple("--nnodes", "nodes", options_.nodes),
                                        std::tuple("--nproc-per-node", "ranks", options_.ranks_per_node),
                                        std::tuple("--max-restarts", "restarts_allowed", options_.max_restarts)})
    if (const auto theirs = hello.at(key).get<int64_t>(); theirs != ours) return reject_flag(flag, theirs, ours);
  if (Peer* other = member(node)) {
    const bool is_itself = other->host == peer.host && other->process == peer.process;
    if (other->connection.open() && other->connection.silence() < kSilence && !is_itself)
      return reject(peer, fmt::format("--node-rank {} is taken by the launcher on {} (process {}): give each machine a "
                                      "different number",
                                      node, other->host, other->process));
    // The launcher has restarted without closing its connection.
    handle_loss(fmt::format("{} is gone: its machine does not answer", name_for(*other)));
    other->node.reset();
    other->leaving = true;
  }
  const auto job = hello.at("job").get<std::string>();
  if (!job.empty() && !job_.empty() && job != job_) return reject(peer, "it belongs to another job");
  if (!job.empty() && phase_ == Phase::gathering) {  // it survived the loss of node 0 and knows the job's progress
    attempt_ = std::max(attempt_, hello.at("attempt").get<int64_t>());
    restarts_ = std::max(restarts_, hello.at("restarts").get<int64_t>());
    job_ = job;
  }
  peer.node = node;
  peer.ended = true;  // it has not started ranks yet
  peer.connection.send({{"order", "welcome"}, {"host", host_name()}});
}

void Coordinator::drop_closed() {
  const auto is_late = [&](const Peer& peer) { return !peer.node && Clock::now() - peer.since > kHello; };
  std::vector<Peer> closed;
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (peer->connection.open() && !is_late(*peer)) {
      ++peer;
      continue;
    }
    closed.push_back(std::move(*peer));
    peer = peers_.erase(peer);
  }
  for (const Peer& peer : closed) {
    if (!peer.node || peer.leaving || phase_ == Phase::ending) continue;
    notified_.insert(*peer.node);  // do not wait for it
    const std::string loss = fmt::format("{} is gone: {}", name_for(peer), peer.connection.why_closed());
    if (phase_ == Phase::stopping || (phase_ == Phase::gathering && restarts_ > 0))
      broadcast({{"order", "notice"}, {"text", fmt::format("modrun: {}\n", loss)}});
    else
      handle_loss(loss);
  }
}

void Coordinator::watch_silence() {
  for (Peer& peer : peers_) {
    const bool silent = peer.node && peer.connection.silence() >= kSilence;
    if (silent == peer.silent) continue;
    peer.silent = silent;
    if (phase_ == Phase::ending) continue;
    broadcast({{"order", "notice"},
               {"text", silent ? fmt::format("modrun: {} has not answered for {} s; it counts as gone after {} s "
                                             "(--node-timeout)\n",
                                             name_for(peer), kSilence.count(),
                                             std::chrono::ceil<seconds>(options_.node_timeout).count())
                               : fmt::format("modrun: {} answers again\n", name_for(peer))}});
  }
}

void Coordinator::decide() {
  const auto waited = Clock::now() - phase_began_;
  switch (phase_) {
    case Phase::gathering: {
      const std::string absent = missing();
      const auto patience = restarts_ > 0 ? options_.rejoin_timeout : options_.join_timeout;
      if (absent.empty()) {
        phase_ = Phase::preparing;
        phase_began_ = Clock::now();
        has_reported_waiting_ = false;
        if (job_.empty()) job_ = random_name();
        broadcast({{"order", "prepare"}, {"attempt", attempt_}, {"restarts", restarts_}, {"round", round_}});
      } else if (waited > patience) {
        reject_all(fmt::format("{} did not {} within {} s ({})", absent, restarts_ > 0 ? "come back" : "join",
                               std::chrono::ceil<seconds>(patience).count(),
                               restarts_ > 0 ? "--rejoin-timeout" : "--join-timeout"));
      } else if (waited > kLongWait && !std::exchange(has_reported_waiting_, true)) {
        broadcast(
            {{"order", "notice"}, {"text", fmt::format("modrun: waiting for {} of {}\n", absent, options_.nodes)}});
      }
      return;
    }
    case Phase::preparing:
      if (!missing().empty()) {  // a machine that came back was rejected
        phase_ = Phase::gathering;
        return;
      }
      if (!all_members(&Peer::ready)) {
        if (waited > kLongCheck && !std::exchange(has_reported_waiting_, true))
          broadcast(
              {{"order", "notice"}, {"text", fmt::format("modrun: waiting for {} to check the run\n", unready())}});
        return;
      }
      phase_ = Phase::running;
      for (Peer& peer : peers_) peer.ended = false;
      broadcast({{"order", "start"},
                 {"attempt", attempt_},
                 {"restarts", restarts_},
                 {"round", round_},
                 {"store_port", store_port_},
                 {"prefix", prefix_},
                 {"job", job_}});
      return;
    case Phase::running:
      if (all_members(&Peer::ended)) finish(all_members(&Peer::stopped_well));
      return;
    case Phase::stopping:
      for (Peer& peer : peers_)
        if (peer.node && !peer.ended && waited > kStop) {
          broadcast({{"order", "notice"},
                     {"text", fmt::format("modrun: {} has not stopped its ranks within {} s and counts as gone\n",
                                          name_for(peer), kStop.count())}});
          peer.node.reset();
          peer.leaving = true;
          peer.connection.finish();
        }
      if (!std::ranges::all_of(peers_, [](const Peer& peer) { return !peer.node || peer.ended; })) return;
      if (restarts_ == options_.max_restarts) return finish(false);
      gather();
      return;
    case Phase::ending:
      return;
  }
}

bool Coordinator::finished() const {
  const bool has_peers = std::ranges::any_of(peers_, [](const Peer& peer) { return peer.node || peer.leaving; });
  return phase_ == Phase::ending && !has_peers && get_unnotified().empty();
}

std::string Coordinator::get_unnotified() const {
  // After the start every machine has joined: missing machines are lost.
  if (rejection_.empty() || attempt_ > 0) return {};
  std::vector<int64_t> nodes;
  for (int64_t node = 0; node < options_.nodes; ++node)
    if (!notified_.contains(node)) nodes.push_back(node);
  return nodes.empty() ? "" : get_names(nodes);
}

void Coordinator::broadcast(const Json& order) {
  for (Peer& peer : peers_)
    if (peer.node) peer.connection.send(order);
}

void Coordinator::stop(const std::string& summary) {
  broadcast({{"order", "stop"}, {"text", summary}, {"round", ++round_}});
  if (phase_ == Phase::running) ++attempt_;
  phase_ = Phase::stopping;
  phase_began_ = Clock::now();
}

void Coordinator::handle_loss(const std::string& loss) {
  loss_ = loss;
  stop(fmt::format("modrun: {}; the job was stopped\n", loss));
}

void Coordinator::gather() {
  ++restarts_;
  ++round_;
  for (Peer& peer : peers_) peer.ready = false;
  has_reported_waiting_ = false;
  phase_ = Phase::gathering;
  phase_began_ = Clock::now();
}

void Coordinator::finish(bool well) {
  if (attempt_ == 0 && !well) {  // tell machines that join later why the job has ended
    rejection_ = loss_;
    for (const Peer& peer : peers_)
      if (peer.node) notified_.insert(*peer.node);
  }
  broadcast({{"order", "end"}, {"well", well}});
  phase_ = Phase::ending;
  for (Peer& peer : peers_) peer.connection.finish();
}

void Coordinator::reject_all(const std::string& why) {
  for (Peer& peer : peers_) {
    if (!peer.node) continue;  // notified when it says hello
    notified_.insert(*peer.node);
    reject(peer, why);
  }
  rejection_ = why;
  phase_ = Phase::ending;
}

void Coordinator::reject(Peer& peer, const std::string& why) {
  peer.connection.send({{"order", "reject"}, {"text", why}});
  peer.connection.finish();
  peer.leaving = true;
}

Coordinator::Peer* Coordinator::member(int64_t node) {
  const auto found = std::ranges::find_if(peers_, [&](const Peer& peer) { return peer.node == node && !peer.leaving; });
  return found == peers_.end() ? nullptr : &*found;
}

bool Coordinator::all_members(bool Peer::* flag) const {
  return std::ranges::all_of(peers_, [&](const Peer& peer) { return !peer.node || peer.*flag; });
}

std::string Coordinator::missing() const {
  std::vector<int64_t> nodes;
  for (int64_t node = 0; node < options_.nodes; ++node)
    if (std::ranges::none_of(peers_, [&](const Peer& peer) { return peer.node == node && !peer.leaving; }))
      nodes.push_back(node);
  return nodes.empty() ? "" : get_names(nodes);
}

std::string Coordinator::unready() const {
  std::vector<int64_t> nodes;
  for (const Peer& peer : peers_)
    if (peer.node && !peer.ready) nodes.push_back(*peer.node);
  return get_names(nodes);
}

std::string Coordinator::name_for(const Peer& peer) const { return fmt::format("node {} ({})", *peer.node, peer.host); }

}  // namespace modular
