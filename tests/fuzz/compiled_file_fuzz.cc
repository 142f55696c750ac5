// Compiled programs: any bytes are one, or an Error. Hashes guard the sections, so the seeds'
// sections are hashed again after they were changed.
#include "io/compiled_file.h"

#include <cstring>
#include "core/file.h"

#include "core/sha256.h"
#include "layers/layers.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::testing {
namespace {

void put(std::string& to, std::string_view text) {
  const uint64_t size = text.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to += text;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const auto main = Program::create(), startup = Program::create();
  ProgramGuard guard(main, startup);
  Var& loss = layers::mean(layers::fc(layers::data("x", {2}), {.size = 2}));
  Scope scope;
  Executor executor;
  executor.run(*startup, {}, {}, {.scope = &scope});
  CompiledProgram compiled(main);
  const Feeds feeds = {{"x", filled(DType::float32, {1, 2}, 1)}};
  compiled.run(executor, feeds, {loss.name()}, {.scope = &scope});
  const std::string path = "compiled_file_fuzz.seed";
  save_compiled(path, compiled, scope, &executor,
                {.proof_feeds = feeds, .proof_fetches = {loss.name()}});
  const std::string bytes = read_file(path, 1 << 24);
  std::remove(path.c_str());
  return {bytes};
}

// Gives every section that can still be told apart the hash of what it holds now.
std::string hashed_again(std::string_view bytes) {
  constexpr size_t kHead = 12;
  if (bytes.size() < kHead) return std::string(bytes);
  std::string out(bytes.substr(0, kHead));
  size_t at = kHead;
  const auto text = [&](std::string_view& into) {
    uint64_t size = 0;
    if (bytes.size() - at < sizeof size) return false;
    std::memcpy(&size, bytes.data() + at, sizeof size);
    at += sizeof size;
    if (size > bytes.size() - at) return false;
    into = bytes.substr(at, size);
    at += size;
    return true;
  };
  while (at < bytes.size()) {
    std::string_view name, content;
    const size_t begin = at;
    if (!text(name) || bytes.size() - at < 32) return out + std::string(bytes.substr(begin));
    at += 32;
    if (!text(content)) return out + std::string(bytes.substr(begin));
    put(out, name);
    const Sha256 digest = sha256(std::string(name) + "\n" + std::string(content));
    out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    put(out, content);
  }
  return out;
}

}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string bytes = testing::hashed_again({reinterpret_cast<const char*>(data), size});
  try {
    Scope scope;
    read_compiled(bytes, "fuzz", scope);
    ++testing::accepted_inputs;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
  return 0;
}
