// Short messages over one TCP connection: a length, a kind, the bytes. Every size is bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct FrameMessage {
  uint8_t kind = 0;
  std::string bytes;
};

// One end of a connection. Closed when destroyed.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  Connection() = default;
  explicit Connection(int socket);
  ~Connection() { close(); }
  Connection(Connection&& other) noexcept { *this = std::move(other); }
  Connection& operator=(Connection&& other) noexcept;

  bool open() const { return socket_ >= 0; }
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

 private:
  int socket_ = -1;
  std::string in_;
};

// An ear at "ip:port", at that address alone. IoError where it cannot be had.
class Ear {
 public:
  explicit Ear(const std::string& endpoint);
  ~Ear();
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;
  Connection accept(std::chrono::milliseconds wait);  // not open: nobody has come

 private:
  int socket_ = -1;
};

// Not open: nobody listens there, or the name is nobody's.
Connection connect_to(const std::string& endpoint, std::chrono::milliseconds wait);

// Texts as one text, and back; none: it is not such a text.
std::string pack_texts(const std::vector<std::string>& texts);
std::optional<std::vector<std::string>> unpack_texts(std::string_view bytes);

}  // namespace trireme
