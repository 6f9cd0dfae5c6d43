// A TCP connection between two launchers of a job, for JSON messages, one per line.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace modular {

inline constexpr int kLauncherProtocol = 1;                 // of the messages; each side has the same
inline constexpr auto kSilence = std::chrono::seconds(3);   // after which a machine is reported not to answer
inline constexpr auto kLongWait = std::chrono::seconds(3);  // after which machines that are waited for are reported

/// Owns a connected, non-blocking socket. The kernel of either machine answers for a launcher that is busy, so silence
/// means that the machine or the network is gone.
class Connection {
 public:
  /// Takes ownership of `socket`. The kernel closes the connection once the other machine has not answered for
  /// `timeout`.
  Connection(int socket, std::chrono::milliseconds timeout);
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  /// False once the other side has closed the connection, or broken the protocol, or has not answered in time.
  bool open() const { return socket_ >= 0; }
  /// The reason why it is not open: a phrase such as "its launcher ended without a word".
  const std::string& why_closed() const { return why_closed_; }

  /// Queues a message, and writes as much as the socket accepts. Does nothing once the connection is closed.
  void send(const nlohmann::json& message);
  /// Complete messages that have arrived, in order. The last ones are returned even if the connection has closed since.
  std::vector<nlohmann::json> receive();

  /// Time since the other machine last acknowledged anything.
  std::chrono::milliseconds silence() const;
  /// Address of the other side, e.g. "10.0.0.2".
  std::string peer() const;

  int descriptor() const { return socket_; }
  /// Events to poll the descriptor for.
  short events() const;

  /// Closes it for the reason `why`.
  void close(std::string why);
  /// Ends the sending direction once everything queued is written, so that the other side reads all of it.
  void finish();

 private:
  void write_queued();

  int socket_ = -1;
  bool finishing_ = false, finished_ = false;
  std::string incoming_, outgoing_, why_closed_;
};

/// A socket that listens on `port` of all interfaces. Throws std::runtime_error with the reason.
int listen_on(uint16_t port);

/// A socket whose connection to `host` and `port` has been initiated, or -1 where the name does not resolve or the
/// connection fails at once; poll() finds the socket writable when the attempt has ended. Of several addresses, try
/// number `attempt` takes the next.
int begin_connecting(const std::string& host, uint16_t port, int64_t attempt);

/// Whether the attempt that begin_connecting() initiated has succeeded.
bool has_connected(int socket);

}  // namespace modular
