// Tries connections until every peer accepts one or the deadline has passed.
#include "comm/wait_ready.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "comm/token.h"
#include "core/endpoints.h"
#include "core/error.h"
#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kConnectMs = 2000;

class Socket {
 public:
  explicit Socket(int number) : number_(number) {}
  ~Socket() {
    if (number_ >= 0) close(number_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

bool connects(const addrinfo& address, int wait_ms) {
  const Socket socket(::socket(address.ai_family, address.ai_socktype, address.ai_protocol));
  if (socket.number() < 0) return false;
  fcntl(socket.number(), F_SETFL, fcntl(socket.number(), F_GETFL) | O_NONBLOCK);
  if (connect(socket.number(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd waiting{.fd = socket.number(), .events = POLLOUT, .revents = 0};
  if (poll(&waiting, 1, wait_ms) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool accepts(const std::string& endpoint, int wait_ms) {
  const size_t colon = endpoint.rfind(':');
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(endpoint.substr(0, colon).c_str(), endpoint.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  for (const addrinfo* one = found; one; one = one->ai_next) {
    if (connects(*one, wait_ms)) return true;
  }
  return false;
}

}  // namespace

void wait_server_ready(const std::vector<std::string>& endpoints, std::chrono::milliseconds limit,
                       const std::function<void()>& poll) {
  check_endpoints(endpoints, {"wait_server_ready", "endpoints"});
  check_plaintext(endpoints);  // before any wait
  const Clock::time_point end = Clock::now() + limit;
  bool said = false;
  std::vector<std::string> missing = endpoints;
  while (true) {
    // Who has answered is not asked again: a server that listens may not take connections yet.
    std::vector<std::string> still;
    for (const std::string& endpoint : missing) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      const auto wait = std::clamp<int64_t>(left.count(), 1, kConnectMs);
      if (!accepts(endpoint, static_cast<int>(wait))) still.push_back(endpoint);
      if (poll) poll();
    }
    missing = std::move(still);
    if (missing.empty()) return;
    if (Clock::now() >= end) {
      throw Error(ErrorKind::timeout,
                  cat("after ", static_cast<double>(limit.count()) / 1000,
                      " s these endpoints do not accept connections: ", join(missing)))
          .in("wait_server_ready")
          .fix(
              "start the processes that listen there, wait longer (FLAGS_rpc_deadline, where a "
              "program's run waits), or pass wait_port=False");
    }
    if (!said) warn(cat("waiting for ", join(missing), " to accept connections"));
    said = true;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    std::this_thread::sleep_for(
        std::clamp(left, std::chrono::milliseconds(0), std::chrono::milliseconds(200)));
  }
}

}  // namespace trireme
