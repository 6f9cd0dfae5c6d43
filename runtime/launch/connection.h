// A TCP connection between two launchers of a job. It carries JSON messages, one per line.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace modular {

inline constexpr int kLauncherProtocol = 1;                 // message version; both sides must match
inline constexpr auto kSilence = std::chrono::seconds(3);   // then a machine is reported as unresponsive
inline constexpr auto kLongWait = std::chrono::seconds(3);  // then missing machines are reported

/// Owns a connected, non-blocking socket. The kernel acknowledges probes even if the launcher is busy, so silence means
/// that the machine or the network is down.
class Connection {
 public:
  /// Takes ownership of `socket`. The kernel closes the connection after the other machine has not answered for
  /// `timeout`.
  Connection(int socket, std::chrono::milliseconds timeout);
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  /// False once the other side has closed the connection, violated the protocol or timed out.
  bool open() const { return socket_ >= 0; }
  /// Reason why the connection is closed: a phrase such as "its launcher ended without reporting why".
  const std::string& why_closed() const { return why_closed_; }

  /// Queues a message and writes as much as the socket accepts. Does nothing if the connection is closed.
  void send(const nlohmann::json& message);
  /// Returns the complete messages that have arrived, in order, including those that arrived before the connection was
  /// closed.
  std::vector<nlohmann::json> receive();

  /// Time since the other machine last acknowledged anything.
  std::chrono::milliseconds silence() const;
  /// Address of the peer, e.g. "10.0.0.2".
  std::string peer() const;

  int descriptor() const { return socket_; }
  /// Events to poll the descriptor for.
  short events() const;

  /// Closes the connection and stores the reason `why`.
  void close(std::string why);
  /// Shuts down the sending direction once the queue is written, so that the peer reads all of it.
  void finish();

 private:
  void write_queued();

  int socket_ = -1;
  bool finishing_ = false, finished_ = false;
  std::string incoming_, outgoing_, why_closed_;
};

/// Returns a socket that listens on `port` of all interfaces. Throws std::runtime_error with the reason.
int listen_on(uint16_t port);

/// Returns a socket that is connecting to `host` and `port`, or -1 if the name does not resolve or the connection fails
/// immediately. poll() reports the socket as writable when the attempt has ended. If the host has several addresses,
/// successive values of `attempt` cycle through them.
int begin_connecting(const std::string& host, uint16_t port, int64_t attempt);

/// Whether the attempt started by begin_connecting() has succeeded.
bool has_connected(int socket);

}  // namespace modular
