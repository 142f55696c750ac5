// What trainers and parameter servers send each other (ps/chunks.h): any bytes are a stream of
// chunks, and these are messages or refused.
#include "core/error.h"
#include "core/text.h"
#include "tests/fuzz/fuzz.h"

#ifdef TRIREME_HAVE_GRPC

#include "ps/chunks.h"

namespace trireme::testing {
namespace {

// As gRPC's: chunks one after another, each behind its length.
struct Chunks {
  std::string bytes;
  size_t at = 0;

  bool Write(const ps::Chunk& chunk) {
    const std::string text = chunk.SerializeAsString();
    const auto length = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += text;
    return true;
  }
  bool Read(ps::Chunk* chunk) {
    uint32_t length = 0;
    if (bytes.size() - at < sizeof length) return false;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    length = std::min<uint32_t>(length, static_cast<uint32_t>(bytes.size() - at));
    at += length;
    return chunk->ParseFromArray(bytes.data() + at - length, static_cast<int>(length));
  }
};

std::string written(const PsMessage& message) {
  Chunks chunks;
  ps::Chunk room;
  write_message(chunks, message, room);
  return chunks.bytes;
}

// One message after another into the same room, as a server takes them.
void read_all(std::string_view bytes) {
  Chunks chunks{.bytes = std::string(bytes)};
  ps::Chunk room;
  PsMessage message;
  while (read_message(chunks, message, room)) {
    ++accepted_inputs;
    Chunks again{.bytes = written(message)};
    PsMessage back;
    ps::Chunk other_room;
    promise(read_message(again, back, other_room) && back.name == message.name &&
                back.value.kind() == message.value.kind(),
            "what was read is written and read back");
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  PsMessage dense{.kind = PsMessage::Kind::push, .trainer = 1, .name = "w"};
  dense.value.tensor() = filled(DType::float32, {3, 2}, 1);
  dense.value.tensor().set_lod({{0, 2}, {0, 1, 3}});
  PsMessage rows{.kind = PsMessage::Kind::push, .sequence = 7, .name = "table"};
  rows.value.rows() = {RowNumbers(std::vector<int64_t>{4, 0}), 5,
                       filled(DType::float32, {2, 2}, 1)};
  PsMessage barrier{.kind = PsMessage::Kind::send_barrier, .trainer = 1, .incarnation = 9};
  return {written(dense), written(rows), written(barrier), written(dense) + written(barrier)};
}

}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    trireme::testing::read_all({reinterpret_cast<const char*>(data), size});
  } catch (const trireme::InternalError&) {
    throw;
  } catch (const trireme::Error&) {
  }
  return 0;
}

#else

namespace trireme::testing {
std::vector<std::string> fuzz_seeds() { return {""}; }
}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }

#endif
