// Sockets that are read without waiting and written within seconds.
#include "comm/frames.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr size_t kHeadBytes = 5;
constexpr uint32_t kMostFrameBytes = 16u << 20;
constexpr int kSendMs = 3000;

using Millis = std::chrono::milliseconds;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string host_of(const std::string& endpoint) {
  std::string host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

Addresses addresses_of(const std::string& endpoint, int flags) {
  const size_t colon = endpoint.rfind(':');
  const std::string host = host_of(endpoint);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), endpoint.substr(colon + 1).c_str(), &hints, &found) != 0) {
    found = nullptr;
  }
  return {found, freeaddrinfo};
}

bool ready(int socket, short events, Millis wait) {
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  return poll(&waiting, 1, static_cast<int>(std::max<int64_t>(wait.count(), 0))) == 1;
}

int open_socket(const addrinfo& address) {
  const int made = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                            address.ai_protocol);
  return made;
}

uint32_t number_at(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::string as_bytes(uint32_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

Connection::Connection(int socket, const std::string& host)
    : socket_(socket), session_(make_tls_session(host)) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection& Connection::operator=(Connection&& other) noexcept {
  if (this == &other) return *this;
  close();
  socket_ = std::exchange(other.socket_, -1);
  session_ = std::move(other.session_);
  in_ = std::move(other.in_);
  return *this;
}

void Connection::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool Connection::send(uint8_t kind, std::string_view bytes) {
  if (!open()) return false;
  std::string out = as_bytes(static_cast<uint32_t>(bytes.size()));
  out += static_cast<char>(kind);
  out += bytes;
  if (!session_) return send_bytes(out);
  session_->write(out);
  return send_bytes(session_->outgoing());
}

bool Connection::send_bytes(std::string_view out) {
  const Clock::time_point end = Clock::now() + Millis(kSendMs);
  for (size_t sent = 0; sent < out.size();) {
    const ssize_t count = ::send(socket_, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    const auto left = std::chrono::duration_cast<Millis>(end - Clock::now());
    if (left.count() <= 0 || !ready(socket_, POLLOUT, left)) return false;
  }
  return true;
}

bool Connection::fill() {
  char chunk[16384];
  while (open()) {
    const ssize_t count = recv(socket_, chunk, sizeof chunk, 0);
    if (count > 0) {
      const std::string_view came(chunk, static_cast<size_t>(count));
      if (!session_) {
        in_ += came;
      } else {
        const bool ours = session_->take(came, in_);
        if (!send_bytes(session_->outgoing()) || !ours) return false;
      }
      if (in_.size() > kMostFrameBytes + kHeadBytes) return true;  // next() takes some first
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return false;
}

std::optional<FrameMessage> Connection::next() {
  if (in_.size() < kHeadBytes) return std::nullopt;
  const uint32_t length = number_at(in_, 0);
  if (length > kMostFrameBytes) {
    close();
    in_.clear();
    return std::nullopt;
  }
  if (in_.size() < kHeadBytes + length) return std::nullopt;
  FrameMessage message{.kind = static_cast<uint8_t>(in_[4]),
                       .bytes = in_.substr(kHeadBytes, length)};
  in_.erase(0, kHeadBytes + length);
  return message;
}

std::optional<FrameMessage> Connection::receive(Clock::time_point end) {
  while (true) {
    if (auto message = next()) return message;
    const auto left = std::chrono::duration_cast<Millis>(end - Clock::now());
    if (!open() || left.count() <= 0 || !ready(socket_, POLLIN, left)) return std::nullopt;
    if (!fill()) {
      auto last = next();  // it may have come with the end
      if (!last) close();
      return last;
    }
  }
}

Connection::Stream Connection::release() {
  return {
      .socket = std::exchange(socket_, -1), .session = std::move(session_), .in = std::move(in_)};
}

Ear::Ear(const std::string& endpoint) : host_(endpoint.substr(0, endpoint.rfind(':'))) {
  std::string why = "no such address";
  const Addresses addresses = addresses_of(endpoint, AI_PASSIVE);
  for (const addrinfo* one = addresses.get(); one && socket_ < 0; one = one->ai_next) {
    socket_ = open_socket(*one);
    if (socket_ < 0) continue;
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(socket_, one->ai_addr, one->ai_addrlen) == 0 && listen(socket_, 16) == 0) break;
    why = std::strerror(errno);
    ::close(socket_);
    socket_ = -1;
  }
  if (socket_ >= 0) return;
  throw IoError(cat("cannot listen on ", endpoint, ": ", why))
      .fix("choose an address of this machine and a port that no other process has");
}

Ear::~Ear() {
  if (socket_ >= 0) ::close(socket_);
}

std::string Ear::endpoint() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char port[NI_MAXSERV] = "";
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&own), size, nullptr, 0, port, sizeof port,
                NI_NUMERICSERV);
  }
  return cat(host_, ":", port);
}

Connection Ear::accept(std::chrono::milliseconds wait) {
  if (!ready(socket_, POLLIN, wait)) return {};
  const int made = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  return made < 0 ? Connection() : Connection(made);
}

Connection connect_to(const std::string& endpoint, std::chrono::milliseconds wait) {
  const Addresses addresses = addresses_of(endpoint, 0);
  for (const addrinfo* one = addresses.get(); one; one = one->ai_next) {
    const int made = open_socket(*one);
    if (made < 0) continue;
    Connection connection(made, host_of(endpoint));
    if (connect(made, one->ai_addr, one->ai_addrlen) == 0) return connection;
    if (errno != EINPROGRESS || !ready(made, POLLOUT, wait)) continue;
    if (is_connected(made)) return connection;
  }
  return {};
}

Connection begin_connect(const std::string& endpoint, size_t try_number) {
  const Addresses addresses = addresses_of(endpoint, 0);
  size_t count = 0;
  for (const addrinfo* one = addresses.get(); one; one = one->ai_next) ++count;
  if (count == 0) return {};
  const addrinfo* chosen = addresses.get();
  for (size_t i = 0; i < try_number % count; ++i) chosen = chosen->ai_next;
  const int made = open_socket(*chosen);
  if (made < 0) return {};
  Connection connection(made, host_of(endpoint));
  if (connect(made, chosen->ai_addr, chosen->ai_addrlen) != 0 && errno != EINPROGRESS) return {};
  return connection;
}

bool is_connected(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

void allow_descriptors(size_t count) {
  constexpr size_t kUsual = 256;  // files, libraries, other sockets
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + kUsual) return;
  limit.rlim_cur = std::min<rlim_t>(count + kUsual, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count + kUsual) return;
  throw Error(
      ErrorKind::precondition,
      cat(count, " connections are needed, but this process may open ", limit.rlim_max, " files"))
      .fix(cat("raise the limit: ulimit -n ", count + kUsual));
}

std::string pack_texts(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts)
    bytes += as_bytes(static_cast<uint32_t>(text.size())) + text;
  return bytes;
}

std::optional<std::vector<std::string>> unpack_texts(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(uint32_t)) return std::nullopt;
    const size_t length = number_at(bytes, 0);
    bytes.remove_prefix(sizeof(uint32_t));
    if (length > bytes.size()) return std::nullopt;
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return texts;
}

}  // namespace trireme
