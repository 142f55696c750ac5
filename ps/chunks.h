// Messages as protobuf's: a head, then the bytes of a value in chunks of 1 MB, so that no tensor
// meets gRPC's limit of a message.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "ps/message.h"
#include "ps/servers.pb.h"

namespace trireme {

constexpr size_t kChunkBytes = size_t{1} << 20;

void fill_head(const PsMessage& message, ps::Head& head);
// Makes room for what the chunks after the head bring, in the memory that `message` has where it
// fits. Nothing that a head says is believed before it is looked at.
void take_head(const ps::Head& head, PsMessage& message);
// The bytes of a value: row numbers, then elements.
std::vector<std::span<std::byte>> bytes_of(const Variable& value);
[[noreturn]] void refuse_message(const std::string& what);

// Small parts share a chunk, large ones are cut. `chunk` is room that is used again.
template <class Stream>
bool write_message(Stream& stream, const PsMessage& message, ps::Chunk& chunk) {
  chunk.Clear();
  fill_head(message, *chunk.mutable_head());
  for (const std::span<std::byte> part : bytes_of(message.value)) {
    for (size_t at = 0; at < part.size();) {
      const size_t now = std::min(part.size() - at, kChunkBytes - chunk.data().size());
      chunk.mutable_data()->append(reinterpret_cast<const char*>(part.data()) + at, now);
      at += now;
      if (chunk.data().size() < kChunkBytes) continue;
      if (!stream.Write(chunk)) return false;
      chunk.Clear();
    }
  }
  return (!chunk.has_head() && chunk.data().empty()) || stream.Write(chunk);
}

// False: the stream ended before the message did.
template <class Stream>
bool read_message(Stream& stream, PsMessage& message, ps::Chunk& chunk) {
  if (!stream.Read(&chunk)) return false;
  if (!chunk.has_head()) refuse_message("it has no head");
  take_head(chunk.head(), message);
  size_t used = 0;  // of this chunk
  for (const std::span<std::byte> part : bytes_of(message.value)) {
    for (size_t at = 0; at < part.size();) {
      if (used == chunk.data().size()) {
        if (!stream.Read(&chunk)) return false;
        used = 0;
        if (chunk.data().empty()) refuse_message("an empty chunk");
      }
      const size_t now = std::min(part.size() - at, chunk.data().size() - used);
      std::memcpy(part.data() + at, chunk.data().data() + used, now);
      at += now;
      used += now;
    }
  }
  if (used != chunk.data().size()) refuse_message("more bytes than its shape has");
  return true;
}

}  // namespace trireme
