// Parameter files: any bytes are streams of tensors or rows, or an Error.
#include "core/tensor_stream.h"
#include "core/text.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::testing {
namespace {

// What was accepted is written again and must read the same.
void check_tensor(const Tensor& tensor) {
  StringSink sink;
  write_tensor(sink, tensor);
  ByteSource again = ByteSource::memory(sink.text, "again");
  const Tensor back = read_tensor(again);
  promise(again.at_end() && back.dtype() == tensor.dtype() && back.shape() == tensor.shape() &&
              back.lod() == tensor.lod(),
          "what was read is written and read back");
}

void read_all(std::string_view bytes, Holds holds) {
  ByteSource source = ByteSource::memory(bytes, "fuzz");
  while (!source.at_end()) {
    Variable variable;
    read_variable(source, variable, holds);
    if (holds == Holds::tensor) check_tensor(variable.tensor());
    ++accepted_inputs;
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const DType dtype : {DType::float32, DType::int64, DType::boolean}) {
    Tensor tensor = filled(dtype, {3, 2}, 1);
    StringSink plain, with_lod, rows;
    write_tensor(plain, tensor);
    write_rows(rows, {{4, 0, 4}, 5, tensor});
    tensor.set_lod({{0, 2}, {0, 1, 3}});
    write_tensor(with_lod, tensor);
    seeds.insert(seeds.end(), {plain.text, with_lod.text, rows.text, plain.text + with_lod.text});
  }
  return seeds;
}

}  // namespace trireme::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto holds : {trireme::Holds::tensor, trireme::Holds::rows}) {
    try {
      trireme::testing::read_all(bytes, holds);
    } catch (const trireme::InternalError&) {
      throw;
    } catch (const trireme::Error&) {
    }
  }
  return 0;
}
