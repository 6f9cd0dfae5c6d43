#include "runtime/launch/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace modular {
namespace {

constexpr size_t kLongestMessage = size_t{1} << 20;

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

std::string to_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof(text));
  if (address.ss_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof(text));
  const std::string result = text;
  return result.starts_with("::ffff:") ? result.substr(7) : result;  // IPv4 on a dual-stack socket
}

}  // namespace

Connection::Connection(int socket, std::chrono::milliseconds timeout) : socket_(socket) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // One probe per second, so that silence() is accurate to a second.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, static_cast<int>(std::clamp<int64_t>(timeout.count() / 1000, 1, 127)));
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout.count()));
}

Connection::~Connection() {
  if (socket_ >= 0) ::close(socket_);
}

Connection::Connection(Connection&& other) noexcept { *this = std::move(other); }

Connection& Connection::operator=(Connection&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(finishing_, other.finishing_);
  std::swap(finished_, other.finished_);
  incoming_.swap(other.incoming_);
  outgoing_.swap(other.outgoing_);
  why_closed_.swap(other.why_closed_);
  return *this;
}

void Connection::close(std::string why) {
  if (socket_ < 0) return;
  ::close(socket_);
  socket_ = -1;
  why_closed_ = std::move(why);
}

void Connection::send(const nlohmann::json& message) {
  if (!open()) return;
  outgoing_ += message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_queued();
}

void Connection::write_queued() {
  while (open() && !outgoing_.empty()) {
    const ssize_t count = ::send(socket_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // would block, or failed: receive() finds the reason
    outgoing_.erase(0, static_cast<size_t>(count));
  }
  if (open() && finishing_ && !std::exchange(finished_, true)) shutdown(socket_, SHUT_WR);
}

void Connection::finish() {
  finishing_ = true;
  write_queued();
}

std::vector<nlohmann::json> Connection::receive() {
  write_queued();
  char buffer[1 << 14];
  while (open()) {
    const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
    if (count > 0) {
      incoming_.append(buffer, static_cast<size_t>(count));
      if (incoming_.size() <= kLongestMessage) continue;
      if (incoming_.find('\n') != std::string::npos) break;
      close("it sent something that is not a message of modrun's launcher");
    } else if (count == 0) {
      close("its launcher ended without reporting why");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH) {
      close("its machine does not answer");
    } else if (errno != EINTR) {
      close(errno == ECONNRESET ? "its launcher ended without reporting why" : std::strerror(errno));
    }
  }
  std::vector<nlohmann::json> messages;
  size_t start = 0;
  for (size_t end; (end = incoming_.find('\n', start)) != std::string::npos; start = end + 1) {
    auto message = nlohmann::json::parse(incoming_.begin() + static_cast<std::ptrdiff_t>(start),
                                         incoming_.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                                         /*allow_exceptions=*/false);
    if (!message.is_object()) {
      close("it sent something that is not a message of modrun's launcher");
      break;
    }
    messages.push_back(std::move(message));
  }
  incoming_.erase(0, start);
  return messages;
}

std::chrono::milliseconds Connection::silence() const {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (!open() || getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return std::chrono::milliseconds(info.tcpi_last_ack_recv);
}

std::string Connection::peer() const {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (!open() || getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return to_text(address);
}

short Connection::events() const { return static_cast<short>(outgoing_.empty() ? POLLIN : POLLIN | POLLOUT); }

int listen_on(uint16_t port) {
  // A dual-stack IPv6 socket, or IPv4 only if the kernel lacks IPv6.
  std::string why;
  for (const int family : {AF_INET6, AF_INET}) {
    const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) {
      why = std::strerror(errno);
      continue;
    }
    sockaddr_storage address = {};
    socklen_t length = sizeof(sockaddr_in);
    if (family == AF_INET6) {
      auto& six = reinterpret_cast<sockaddr_in6&>(address);
      six.sin6_family = AF_INET6, six.sin6_port = htons(port), six.sin6_addr = in6addr_any;
      length = sizeof(sockaddr_in6);
      set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    } else {
      auto& four = reinterpret_cast<sockaddr_in&>(address);
      four.sin_family = AF_INET, four.sin_port = htons(port), four.sin_addr.s_addr = htonl(INADDR_ANY);
    }
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(socket, SOMAXCONN) == 0)
      return socket;
    const int error = errno;
    ::close(socket);
    why = std::strerror(error);
    if (error == EADDRINUSE || error == EACCES) break;
  }
  throw std::runtime_error(why);
}

int begin_connecting(const std::string& host, uint16_t port, int64_t attempt) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  std::vector<const addrinfo*> addresses;
  for (const addrinfo* address = found; address; address = address->ai_next) addresses.push_back(address);
  const addrinfo& chosen = *addresses[static_cast<size_t>(attempt) % addresses.size()];
  int socket = ::socket(chosen.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket >= 0 && ::connect(socket, chosen.ai_addr, chosen.ai_addrlen) != 0 && errno != EINPROGRESS) {
    ::close(socket);
    socket = -1;
  }
  freeaddrinfo(found);
  return socket;
}

bool has_connected(int socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  sockaddr_storage address = {};
  socklen_t address_length = sizeof(address);
  sockaddr_storage own = {};
  socklen_t own_length = sizeof(own);
  // The last condition rejects a connection to itself: the ephemeral port may equal the target port.
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&address), &address_length) == 0 &&
         !(getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 && own_length == address_length &&
           std::memcmp(&own, &address, own_length) == 0);
}

}  // namespace modular
