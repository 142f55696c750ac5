// Pickles: any bytes are plain data, or an Error; what is a state is written and read back.
#include "io/pickle.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::testing {
namespace {

template <size_t N>
std::string with_zeros(const char (&text)[N]) {
  return {text, N - 1};
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const NamedTensors state = {{"fc_0.w_0", filled(DType::float32, {2, 3}, 200)},
                              {"step", filled(DType::int64, {1}, 7)},
                              {"mask", filled(DType::boolean, {5}, 1)}};
  std::vector<std::string> seeds;
  for (const int protocol : {2, 3, 4}) {
    for (const size_t largest : {size_t{8}, size_t{1} << 20}) {
      StringSink sink;
      write_state(sink, state, {.protocol = protocol, .largest_array = largest});
      seeds.push_back(sink.text);
    }
  }
  // Memo, OrderedDict, a list that holds itself, numbers of all sizes.
  seeds.emplace_back(
      "\x80\x02"
      "ccollections\nOrderedDict\nq\0]q\1]q\2(U\1aK\1ea\x85Rq\3.",
      45);
  seeds.push_back(
      with_zeros("\x80\x02"
                 "ccollections\nOrderedDict\nq\0]q\1]q\2(U\1aK\1ea\x85Rq\3."));
  seeds.push_back(with_zeros("\x80\x02]q\0h\0a."));
  seeds.push_back(
      with_zeros("\x80\x04\x95\x1b\0\0\0\0\0\0\0}\x94(\x8c\1a\x94K\7M\0\1J\xff\xff\xff\xff"
                 "\x8a\2\0\x80G\x3f\xf8\0\0\0\0\0\0u."));
  return seeds;
}

}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    ByteSource source = ByteSource::memory(bytes, "fuzz");
    const NamedTensors state = read_state(source);
    ++testing::accepted_inputs;
    StringSink sink;
    write_state(sink, state);
    ByteSource again = ByteSource::memory(sink.text, "again");
    promise(read_state(again).size() == state.size(), "what was read is written and read back");
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
  return 0;
}
