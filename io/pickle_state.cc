// State dicts, name -> array, as pickles; large arrays in slices where the protocol needs them.
#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "io/pickle.h"

namespace trireme {
namespace {

constexpr const char* kSlicedKey = "UnpackBigParamInfor@@";
constexpr const char* kStructuredNames = "StructuredToParameterName@@";  // a table, not a tensor

std::string_view numpy_letters(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "b1";
    case DType::int8:
      return "i1";
    case DType::uint8:
      return "u1";
    case DType::int16:
      return "i2";
    case DType::int32:
      return "i4";
    case DType::int64:
      return "i8";
    case DType::float16:
      return "f2";
    case DType::bfloat16:
      return "u2";
    case DType::float32:
      return "f4";
    case DType::float64:
      return "f8";
  }
  throw InternalError("an element type that numpy has no letters for");
}

class Writer {
 public:
  Writer(ByteSink& to, int protocol) : to_(to), protocol_(protocol) {
    code(0x80);
    to_.write_number(static_cast<uint8_t>(protocol));
  }

  void code(int value) { to_.write_number(static_cast<uint8_t>(value)); }
  void text(std::string_view value) {
    code('X');
    to_.write_number(static_cast<uint32_t>(value.size()));
    to_.write(value);
  }
  void integer(int64_t value) {
    if (value >= 0 && value < 256) {
      code('K');
      to_.write_number(static_cast<uint8_t>(value));
    } else if (value == static_cast<int32_t>(value)) {
      code('J');
      to_.write_number(static_cast<int32_t>(value));
    } else {
      code(0x8a);
      code(8);
      to_.write_number(value);
    }
  }
  void tuple(const std::vector<int64_t>& values) {
    code('(');
    for (const int64_t value : values) integer(value);
    code('t');
  }
  void array(const Tensor& tensor, const std::vector<int64_t>& shape) {
    global("numpy.core.multiarray", "_reconstruct");
    global("numpy", "ndarray");
    tuple({0});
    bytes({reinterpret_cast<const std::byte*>("b"), 1});
    code(0x87);
    code('R');
    code('(');
    integer(1);
    tuple(shape);
    type(tensor.dtype());
    code(0x89);
    const Tensor readable = tensor.on_host();
    bytes(readable.bytes());
    code('t');
    code('b');
  }
  void end() { code('.'); }

 private:
  void global(std::string_view module, std::string_view name) {
    if (protocol_ < 4) {
      code('c');
      to_.write(cat(module, "\n", name, "\n"));
    } else {
      text(module);
      text(name);
      code(0x93);
    }
  }

  void type(DType dtype) {
    global("numpy", "dtype");
    text(numpy_letters(dtype));
    code(0x89);
    code(0x88);
    code(0x87);
    code('R');
    code('(');
    integer(3);
    text(size_of(dtype) == 1 ? "|" : "<");
    for (int i = 0; i < 3; ++i) code('N');
    integer(-1);
    integer(-1);
    integer(0);
    code('t');
    code('b');
  }

  void bytes(std::span<const std::byte> data) {
    if (protocol_ == 2) return bytes_as_text(data);
    if (data.size() < 256) {
      code('C');
      to_.write_number(static_cast<uint8_t>(data.size()));
    } else if (data.size() <= UINT32_MAX) {
      code('B');
      to_.write_number(static_cast<uint32_t>(data.size()));
    } else {  // protocol 4: smaller ones cut their arrays
      code(0x8e);
      to_.write_number(static_cast<uint64_t>(data.size()));
    }
    to_.write(data.data(), data.size());
  }

  // Protocol 2 has no bytes: they are latin1 text that the reader encodes.
  void bytes_as_text(std::span<const std::byte> data) {
    uint64_t size = data.size();
    for (const std::byte byte : data) size += byte >= std::byte{0x80};
    global("_codecs", "encode");
    code('X');
    to_.write_number(static_cast<uint32_t>(size));
    std::string chunk;
    for (const std::byte byte : data) {
      const auto value = static_cast<uint8_t>(byte);
      if (value < 0x80) {
        chunk.push_back(static_cast<char>(value));
      } else {
        chunk.push_back(static_cast<char>(0xc0 | value >> 6));
        chunk.push_back(static_cast<char>(0x80 | (value & 0x3f)));
      }
      if (chunk.size() >= (size_t{64} << 10)) {
        to_.write(chunk);
        chunk.clear();
      }
    }
    to_.write(chunk);
    text("latin1");
    code(0x86);
    code('R');
  }

  ByteSink& to_;
  int protocol_;
};

Tensor array_of(const PickleValue& value, std::string_view name, const ByteSource& from) {
  if (value.kind == PickleValue::Kind::array) return value.array;
  // 2.x saves some tensors as (name, array).
  if (value.kind == PickleValue::Kind::tuple && value.items.size() == 2 &&
      value.items[1]->kind == PickleValue::Kind::array) {
    return value.items[1]->array;
  }
  throw from.error(cat("the value of ", name, " is a ", value.name_of_kind(), ", not an array"));
}

Tensor joined(const PickleValue& info, const std::string& name,
              std::map<std::string, Tensor>& slices, const ByteSource& from) {
  const PickleValue* shape_value = info.find("OriginShape");
  const PickleValue* parts = info.find("slices");
  if (!shape_value || !parts || shape_value->kind != PickleValue::Kind::tuple ||
      parts->kind != PickleValue::Kind::list || parts->items.empty()) {
    throw from.error(cat("the slices of ", name, " are not described"));
  }
  std::vector<int64_t> dims;
  for (const PickleValue* dim : shape_value->items) dims.push_back(dim->integer);
  if (dims.size() > kMaxRank) throw from.error(cat(name, " has too many dimensions"));
  std::vector<Tensor> found;
  uint64_t bytes = 0;
  for (const PickleValue* part : parts->items) {
    const auto slice = slices.extract(part->text);  // a slice is part of one array
    if (!slice) throw from.error(cat("a slice of ", name, " is missing"));
    found.push_back(slice.mapped());
    bytes += found.back().byte_size();
    if (found.back().dtype() != found[0].dtype()) {
      throw from.error(cat("the slices of ", name, " have different types"));
    }
  }
  const Shape shape{std::span<const int64_t>(dims)};
  const size_t width = size_of(found[0].dtype());
  if (!shape.known() || static_cast<uint64_t>(shape.count()) != bytes / width) {
    throw from.error(cat("the slices of ", name, " do not make up ", shape));
  }
  Tensor whole(found[0].dtype(), shape);
  auto* to = whole.bytes().data();
  for (const Tensor& slice : found) {
    const std::span<const std::byte> part = slice.bytes();
    to = std::copy(part.begin(), part.end(), to);
  }
  return whole;
}

}  // namespace

void write_state(ByteSink& to, const NamedTensors& state, const PickleOptions& options) {
  if (options.protocol < 2 || options.protocol > 4) {
    throw Error(cat("the pickle protocol is ", options.protocol, " but must be 2, 3 or 4"));
  }
  struct Sliced {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<std::string> slices;
  };
  std::vector<Sliced> sliced;
  Writer writer(to, options.protocol);
  writer.code('}');
  const auto entry = [&](const std::string& name, const Tensor& tensor,
                         const std::vector<int64_t>& shape) {
    writer.text(name);
    writer.array(tensor, shape);
    writer.code('s');
  };
  for (const auto& [name, tensor] : state) {
    const int64_t most =
        std::max<int64_t>(1, static_cast<int64_t>(options.largest_array / size_of(tensor.dtype())));
    if (options.protocol == 4 || tensor.numel() <= most) {
      entry(name, tensor, tensor.shape().to_vector());
      continue;
    }
    sliced.push_back({name, tensor.shape().to_vector(), {}});
    const Tensor flat = tensor.reshaped({tensor.numel()});
    for (int64_t from = 0; from < tensor.numel(); from += most) {
      const Tensor part = flat.slice_rows(from, std::min(from + most, tensor.numel()));
      sliced.back().slices.push_back(cat(name, "@@.", from / most));
      entry(sliced.back().slices.back(), part, {part.numel()});
    }
  }
  if (!sliced.empty()) {
    writer.text(kSlicedKey);
    writer.code('}');
    for (const Sliced& one : sliced) {
      writer.text(one.name);
      writer.code('}');
      writer.text("OriginShape");
      writer.tuple(one.shape);
      writer.code('s');
      writer.text("slices");
      writer.code(']');
      for (const std::string& slice : one.slices) {
        writer.text(slice);
        writer.code('a');
      }
      writer.code('s');
      writer.code('s');
    }
    writer.code('s');
  }
  writer.end();
}

NamedTensors read_state(ByteSource& from) {
  const Pickle pickle = Pickle::read(from);
  const PickleValue& dict = pickle.top();
  if (dict.kind != PickleValue::Kind::dict) {
    throw from.error(cat("the pickle is a ", dict.name_of_kind(), ", not a dict of arrays"));
  }
  const PickleValue* info = dict.find(kSlicedKey);
  std::set<std::string> parts;
  for (size_t i = 0; info && i + 1 < info->items.size(); i += 2) {
    const PickleValue* slices = info->items[i + 1]->find("slices");
    for (size_t s = 0; slices && s < slices->items.size(); ++s) {
      parts.insert(slices->items[s]->text);
    }
  }
  NamedTensors state;
  std::map<std::string, Tensor> slices;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const std::string& name = dict.items[i]->text;
    if (name == kSlicedKey || name == kStructuredNames) continue;
    if (name.empty()) throw from.error("a key of the dict is no text");
    Tensor tensor = array_of(*dict.items[i + 1], name, from);
    if (parts.count(name)) {
      slices[name] = std::move(tensor);
    } else {
      state.emplace_back(name, std::move(tensor));
    }
  }
  for (size_t i = 0; info && i + 1 < info->items.size(); i += 2) {
    const std::string& name = info->items[i]->text;
    state.emplace_back(name, joined(*info->items[i + 1], name, slices, from));
  }
  return state;
}

}  // namespace trireme
