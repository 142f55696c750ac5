// Short messages over one TCP connection: a length, a kind, the bytes. Every size is bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/tls_session.h"

namespace trireme {

struct FrameMessage {
  uint8_t kind = 0;
  std::string bytes;
};

// One end of a connection, encrypted where the processes have credentials. Closed when destroyed.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  Connection() = default;
  // `host`: whom it has called; empty: it was called.
  explicit Connection(int socket, const std::string& host = "");
  ~Connection() { close(); }
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;

  bool open() const { return socket_ >= 0; }
  // Why the other end is none of ours, where that has shown.
  std::string problem() const { return session_ ? session_->problem() : ""; }
  int socket() const { return socket_; }
  void close();
  // False: the other end is gone, or has taken nothing for seconds.
  bool send(uint8_t kind, std::string_view bytes);
  // Takes in what is there without waiting; false: the other end is gone.
  bool fill();
  // Of what was taken in. What is longer than a message may be closes the connection.
  std::optional<FrameMessage> next();
  // The next one, waited for until `end`; none: gone, or too late.
  std::optional<FrameMessage> receive(Clock::time_point end);

  // For whoever sends more than messages from here on; it closes the socket.
  struct Stream {
    int socket = -1;
    std::unique_ptr<TlsSession> session;
    std::string in;  // came and was not taken
  };
  Stream release();

 private:
  bool send_bytes(std::string_view bytes);

  int socket_ = -1;
  std::unique_ptr<TlsSession> session_;  // null: plain text
  std::string in_;
};

// An ear at "ip:port", at that address alone. IoError where it cannot be had.
class Ear {
 public:
  explicit Ear(const std::string& endpoint);
  ~Ear();
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;
  std::string endpoint() const;                       // with the port that it was given for port 0
  Connection accept(std::chrono::milliseconds wait);  // not open: nobody has come

 private:
  const std::string host_;
  int socket_ = -1;
};

// Begins to connect and does not wait; `try_number` goes through the addresses of a name in turn.
Connection begin_connect(const std::string& endpoint, size_t try_number);
bool is_connected(
    int socket);  // when it can be written to: whether that is because it is connected
// So many connections more than usual: the process's limit is raised where the system lets it.
void allow_descriptors(size_t count);
// Not open: nobody listens there, or the name is nobody's.
Connection connect_to(const std::string& endpoint, std::chrono::milliseconds wait);

// Texts as one text, and back; none: it is not such a text.
std::string pack_texts(const std::vector<std::string>& texts);
std::optional<std::vector<std::string>> unpack_texts(std::string_view bytes);

}  // namespace trireme
