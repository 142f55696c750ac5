// A port of this machine on which someone listens, or will.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "core/text.h"

namespace trireme::testing {

class Listener {
 public:
  enum class Start { now, later };
  explicit Listener(Start start = Start::now) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(number_, reinterpret_cast<sockaddr*>(&address), size);
    getsockname(number_, reinterpret_cast<sockaddr*>(&address), &size);
    endpoint_ = cat("127.0.0.1:", ntohs(address.sin_port));
    if (start == Start::now) listen();
  }
  ~Listener() { close(number_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void listen() { ::listen(number_, 16); }
  const std::string& endpoint() const { return endpoint_; }

 private:
  int number_ = socket(AF_INET, SOCK_STREAM, 0);
  std::string endpoint_;
};

}  // namespace trireme::testing
