// What processes of a job say to each other (comm/frames.h): any bytes are messages, or the end of
// the connection; what was taken in is bounded.
#include "comm/frames.h"

#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::testing {
namespace {

std::string frame(uint8_t kind, const std::string& bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) +
         static_cast<char>(kind) + bytes;
}

// Messages come as the network brings them: in pieces, of which one may hold several.
void receive_all(std::string_view bytes, size_t piece) {
  int ends[2];
  promise(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "a pair of sockets");
  Connection here(ends[0]);
  std::string texts_of_all;
  for (size_t at = 0; at < bytes.size() && here.open(); at += piece) {
    const std::string_view now = bytes.substr(at, piece);
    promise(send(ends[1], now.data(), now.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(now.size()),
            "a piece fits a socket");
    promise(here.fill(), "the other end is there");
    while (const auto message = here.next()) {
      promise(message->bytes.size() <= bytes.size(), "a message holds what was sent");
      if (const auto texts = unpack_texts(message->bytes)) {
        promise(pack_texts(*texts) == message->bytes, "what was unpacked is packed again");
        ++accepted_inputs;
      }
    }
  }
  close(ends[1]);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string hello =
      pack_texts({"trireme assembly 2", "12-34", "1", pack_texts({"a", "b"})});
  return {frame(0, hello), frame(6, pack_texts({"12", "11", "fc_0.w_0@GRAD (16 bytes)"})),
          frame(10, "") + frame(12, "") + frame(7, pack_texts({"7", "0"})),
          frame(9, pack_texts({"1", "1", "", "a", "2", "2", "left", ""}))};
}

}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  trireme::testing::receive_all(bytes, bytes.size() + 1);
  trireme::testing::receive_all(bytes, 1 + bytes.size() / 3);
  return 0;
}
