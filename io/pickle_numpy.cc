// The globals a pickle may name: numpy's arrays and types, and what Python wraps plain data in.
#include <array>
#include <cstring>

#include "core/text.h"
#include "io/pickle_reader.h"

namespace trireme {
namespace {

// numpy's letters. It has no bfloat16: parameters of that type travel as uint16.
struct NumpyType {
  std::string_view letters;
  DType dtype;
};
constexpr std::array kNumpyTypes = {
    NumpyType{"b1", DType::boolean}, NumpyType{"i1", DType::int8},
    NumpyType{"u1", DType::uint8},   NumpyType{"i2", DType::int16},
    NumpyType{"i4", DType::int32},   NumpyType{"i8", DType::int64},
    NumpyType{"f2", DType::float16}, NumpyType{"f4", DType::float32},
    NumpyType{"f8", DType::float64}, NumpyType{"u2", DType::bfloat16},
};

// The bytes of an array in Fortran's order, written in C's.
void transpose_bytes(const std::byte* from, std::byte* to, const Shape& shape, size_t width) {
  const int rank = shape.rank();
  std::array<int64_t, kMaxRank> at{};
  std::array<int64_t, kMaxRank> stride{};
  int64_t step = 1;
  for (int d = 0; d < rank; ++d) {
    stride[d] = step;
    step *= shape.at(d);
  }
  for (int64_t i = 0; i < shape.count(); ++i) {
    int64_t source = 0;
    for (int d = 0; d < rank; ++d) source += at[d] * stride[d];
    std::memcpy(to + i * static_cast<int64_t>(width), from + source * static_cast<int64_t>(width),
                width);
    for (int d = rank - 1; d >= 0 && ++at[d] == shape.at(d); --d) at[d] = 0;
  }
}

}  // namespace

PickleReader::Value& PickleReader::find_global(const std::string& module, const std::string& name) {
  const bool multiarray = module == "numpy.core.multiarray" || module == "numpy._core.multiarray";
  const bool builtins = module == "builtins" || module == "__builtin__";
  Value& made = make(PickleValue::Kind::none);
  if (multiarray && name == "_reconstruct") {
    made.global = Global::reconstruct;
  } else if (module == "numpy" && name == "ndarray") {
    made.global = Global::ndarray;
  } else if (module == "numpy" && name == "dtype") {
    made.global = Global::dtype;
  } else if (module == "collections" && name == "OrderedDict") {
    made.global = Global::ordered_dict;
  } else if (module == "_codecs" && name == "encode") {
    made.global = Global::encode;
  } else if (builtins && name == "bytes") {
    made.global = Global::bytes;
  } else if (builtins && name == "tuple") {
    made.global = Global::tuple;
  } else {
    throw source_.error(cat("the pickle wants ", module, ".", name, ", which is not plain data"))
        .fix("save dicts, lists, texts, numbers and numpy arrays only");
  }
  return made;
}

std::string PickleReader::text_of(const Value& value) {
  if (value.kind == PickleValue::Kind::text) return value.text;
  if (!value.raw_text) {
    throw source_.error(cat("a text is expected and a ", value.name_of_kind(), " is there"));
  }
  // latin1 to UTF-8
  spend(2 * value.memory_size);
  std::string text;
  for (size_t i = 0; i < value.memory_size; ++i) {
    const auto byte = static_cast<uint8_t>(value.memory->data()[i]);
    if (byte < 0x80) {
      text.push_back(static_cast<char>(byte));
    } else {
      text.push_back(static_cast<char>(0xc0 | byte >> 6));
      text.push_back(static_cast<char>(0x80 | (byte & 0x3f)));
    }
  }
  return text;
}

// Python 3 writes bytes so under protocol 2.
PickleReader::Value& PickleReader::encode_latin1(const Value& text) {
  spend(text.text.size());
  Value& made = make(PickleValue::Kind::bytes);
  made.memory = Buffer::allocate(text.text.size());
  std::byte* out = made.memory->data();
  const std::string& from = text.text;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto byte = static_cast<uint8_t>(from[i]);
    if (byte < 0x80) {
      *out++ = std::byte{byte};
      continue;
    }
    const bool two = (byte == 0xc2 || byte == 0xc3) && i + 1 < from.size() &&
                     (static_cast<uint8_t>(from[i + 1]) & 0xc0) == 0x80;
    if (!two) throw source_.error("bytes written as text hold a character that is no byte");
    *out++ = static_cast<std::byte>((byte & 0x03) << 6 | (static_cast<uint8_t>(from[++i]) & 0x3f));
  }
  made.memory_size = static_cast<size_t>(out - made.memory->data());
  return made;
}

// A call, of one of the globals above.
void PickleReader::reduce() {
  using Kind = PickleValue::Kind;
  const Value& args = pop();
  const Value& callee = pop();
  if (args.kind != Kind::tuple || callee.global == Global::none) {
    throw source_.error("the pickle calls what is not a known function");
  }
  const auto argument = [&](size_t i, Kind kind) {
    return i < args.items.size() && args.items[i]->kind == kind;
  };
  switch (callee.global) {
    case Global::reconstruct: {  // (ndarray, (0,), b'b'): an array to be filled by BUILD
      if (args.items.size() != 3 || item(args, 0).global != Global::ndarray) break;
      Value& made = make(Kind::none);
      made.array_pending = true;
      return push(made);
    }
    case Global::dtype: {
      if (args.items.empty()) break;
      std::string letters = text_of(item(args, 0));
      const bool ordered = !letters.empty() && std::strchr("<>|=", letters[0]);
      if (ordered) {
        if (letters[0] == '>') throw source_.error("big-endian arrays are not read");
        letters.erase(0, 1);
      }
      for (const NumpyType& type : kNumpyTypes) {
        if (type.letters != letters) continue;
        Value& made = make(Kind::none);
        made.dtype = std::make_shared<DType>(type.dtype);
        return push(made);
      }
      throw source_.error(cat("arrays of numpy type ", letters, " are not read"))
          .fix("convert them to float32 or int64");
    }
    case Global::ordered_dict: {
      Value& made = make(Kind::dict);
      if (!args.items.empty()) {  // Python 2: a list of [key, value]
        if (!argument(0, Kind::list)) break;
        spend(2 * sizeof(void*) * args.items[0]->items.size());
        for (const PickleValue* pair : args.items[0]->items) {
          if (pair->items.size() != 2 || pair->kind == Kind::dict) {
            throw source_.error("an OrderedDict is not made of pairs");
          }
          Value& key = item(*pair, 0);
          if (key.raw_text) key.text = text_of(key);
          made.items.insert(made.items.end(), pair->items.begin(), pair->items.end());
        }
      }
      return push(made);
    }
    case Global::encode:
      if (args.items.size() != 2 || !argument(0, Kind::text)) break;
      if (const std::string codec = text_of(item(args, 1)); codec != "latin1") {
        throw source_.error(cat("bytes written as ", codec, " text are not read"));
      }
      return push(encode_latin1(item(args, 0)));
    case Global::bytes: {  // bytes(): none at all, under protocol 2
      if (!args.items.empty()) break;
      Value& made = make(Kind::bytes);
      made.memory = Buffer::allocate(0);
      return push(made);
    }
    case Global::tuple: {  // tuple(sequence)
      if (args.items.size() != 1 || !(argument(0, Kind::tuple) || argument(0, Kind::list))) break;
      Value& made = make(Kind::tuple);
      spend(args.items[0]->items.size() * sizeof(void*));
      made.items = args.items[0]->items;
      return push(made);
    }
    case Global::ndarray:
    case Global::none:
      break;
  }
  throw source_.error("the pickle calls a known function with unknown arguments");
}

void PickleReader::build() {
  const Value& state = pop();
  Value& target = top();
  if (state.kind != PickleValue::Kind::tuple) {
    throw source_.error("the pickle sets the state of what has none");
  }
  if (target.dtype) {
    build_dtype(target, state);
  } else if (target.array_pending) {
    build_array(target, state);
  } else {
    throw source_.error("the pickle sets the state of what has none");
  }
}

// (3, '<', None, None, None, -1, -1, 0)
void PickleReader::build_dtype(Value& target, const Value& state) {
  if (state.items.size() < 5) throw source_.error("a numpy type has an unknown form");
  const std::string order = text_of(item(state, 1));
  if (order == ">" && size_of(*target.dtype) > 1) {
    throw source_.error("big-endian arrays are not read").fix("save them on this machine");
  }
  for (size_t i = 2; i < 5; ++i) {
    if (state.items[i]->kind != PickleValue::Kind::none) {
      throw source_.error("arrays of structures are not read");
    }
  }
}

// (1, shape, dtype, in Fortran's order, bytes)
void PickleReader::build_array(Value& target, const Value& state) {
  using Kind = PickleValue::Kind;
  if (state.items.size() != 5 || state.items[1]->kind != Kind::tuple || !item(state, 2).dtype ||
      (state.items[3]->kind != Kind::boolean && state.items[3]->kind != Kind::integer) ||
      state.items[4]->kind != Kind::bytes) {
    throw source_.error("an array has an unknown form");
  }
  std::vector<int64_t> dims;
  for (const PickleValue* dim : state.items[1]->items) {
    if (dim->kind != Kind::integer || dim->integer < 0) {
      throw source_.error("an array's shape is not made of sizes");
    }
    dims.push_back(dim->integer);
  }
  if (dims.size() > kMaxRank) {
    throw source_.error(cat("an array has ", dims.size(), " dimensions; at most ", kMaxRank));
  }
  const DType dtype = *item(state, 2).dtype;
  const Shape shape{std::span<const int64_t>(dims)};
  Value& data = item(state, 4);
  const auto count = static_cast<uint64_t>(shape.count());
  if (data.memory_size % size_of(dtype) != 0 || count != data.memory_size / size_of(dtype)) {
    throw source_.error(
        cat("an array of ", shape, " ", name_of(dtype), " has ", data.memory_size, " bytes"));
  }
  if (state.items[3]->integer != 0 && shape.rank() > 1) {
    spend(data.memory_size);
    target.array = Tensor(dtype, shape);
    transpose_bytes(data.memory->data(), target.array.bytes().data(), shape, size_of(dtype));
  } else if (!data.memory_taken) {
    target.array = Tensor(dtype, shape, data.memory);
    data.memory_taken = true;
  } else {  // two arrays from the same bytes are still two arrays
    spend(data.memory_size);
    target.array = Tensor(dtype, shape, data.memory).clone();
  }
  target.array_pending = false;
  target.kind = Kind::array;
}

}  // namespace trireme
