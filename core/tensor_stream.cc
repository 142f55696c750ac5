// Tensors and SelectedRows as the bytes of parameter files; both versions of the original agree.
#include "core/tensor_stream.h"

#include <bit>

#include "core/text.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

constexpr size_t kMaxDescBytes = 1024;  // nine dimensions need at most 101

// The description of the data is a small protobuf message: field 1 is the type's number, field 2
// repeats for each dimension. Spelled out here, since this room knows no protobuf.
constexpr uint8_t kTypeTag = 1 << 3, kDimTag = 2 << 3, kPackedDimsTag = (2 << 3) | 2;

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>((value & 0x7f) | 0x80));
  to.push_back(static_cast<char>(value));
}

uint64_t take_varint(std::string_view& from, const ByteSource& source) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (from.empty()) break;
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw source.error("the tensor's description ends inside a number");
}

void write_data(ByteSink& to, const Tensor& tensor) {
  if (!tensor.initialized() && tensor.numel() != 0) {
    throw Error(ErrorKind::precondition, "a tensor that holds no value cannot be written")
        .fix("run the startup program first, or give the variable a value");
  }
  std::string desc;
  desc.push_back(static_cast<char>(kTypeTag));
  append_varint(desc, static_cast<uint64_t>(tensor.dtype()));
  for (const Dim dim : tensor.shape()) {
    desc.push_back(static_cast<char>(kDimTag));
    append_varint(desc, static_cast<uint64_t>(dim.value()));
  }
  to.write_number(uint32_t{0});
  to.write_number(static_cast<int32_t>(desc.size()));
  to.write(desc);
  const Tensor readable = tensor.on_host();
  to.write(readable.bytes().data(), readable.bytes().size());
}

void read_version(ByteSource& from, std::string_view what) {
  const uint32_t version = from.read<uint32_t>(what);
  if (version == 0) return;
  throw from.error(cat(what, " is ", version, ", and only 0 is known"))
      .fix("the file is damaged or is no parameter file");
}

struct Description {
  DType dtype = DType::float32;
  Shape shape;
};

Description read_description(ByteSource& from) {
  read_version(from, "the tensor's version");
  const int32_t size = from.read<int32_t>("the size of the tensor's description");
  if (size < 0 || static_cast<size_t>(size) > kMaxDescBytes) {
    throw from.error(cat("the tensor's description claims ", size, " bytes"));
  }
  std::string text(static_cast<size_t>(size), '\0');
  from.read(text.data(), text.size(), "the tensor's description");
  std::string_view rest = text;
  int type = -1;
  std::vector<int64_t> dims;
  const auto add_dim = [&](std::string_view& bytes) {
    const auto dim = static_cast<int64_t>(take_varint(bytes, from));
    if (dim < 0) throw from.error(cat("the tensor has a dimension of ", dim));
    if (dims.size() == kMaxRank) {
      throw from.error(cat("the tensor has more than ", kMaxRank, " dimensions"));
    }
    dims.push_back(dim);
  };
  while (!rest.empty()) {
    const uint64_t tag = take_varint(rest, from);
    if (tag == kTypeTag) {
      type = static_cast<int>(std::min<uint64_t>(take_varint(rest, from), 1 << 20));
    } else if (tag == kDimTag) {
      add_dim(rest);
    } else if (tag == kPackedDimsTag) {
      const uint64_t length = take_varint(rest, from);
      if (length > rest.size()) throw from.error("the tensor's description ends inside a list");
      std::string_view packed = rest.substr(0, static_cast<size_t>(length));
      rest.remove_prefix(static_cast<size_t>(length));
      while (!packed.empty()) add_dim(packed);
    } else {
      throw from.error(cat("the tensor's description has an unknown field with tag ", tag));
    }
  }
  const std::optional<DType> dtype = type < 0 ? std::nullopt : dtype_from_wire(type);
  if (!dtype) throw from.error(cat("the tensor's element type ", type, " is not known here"));
  const Description desc{*dtype, Shape(dims)};
  // Bytes that cannot be in the file are not asked for. numel() saturates.
  const auto count = static_cast<uint64_t>(desc.shape.count());
  if (count > from.left() / size_of(desc.dtype) && count > 0) {
    throw from
        .error(cat("a tensor of ", name_of(desc.dtype), " ", desc.shape, " needs more than the ",
                   from.left(), " bytes that are left"))
        .fix("the file is damaged or cut off: save or copy it again");
  }
  return desc;
}

Tensor read_data(ByteSource& from) {
  const Description desc = read_description(from);
  Tensor tensor(desc.dtype, desc.shape);
  from.read(tensor.bytes().data(), tensor.byte_size(), "the tensor's data");
  return tensor;
}

Lod read_lod(ByteSource& from) {
  read_version(from, "the LoDTensor's version");
  const uint64_t levels = from.read<uint64_t>("the number of LoD levels");
  if (levels > from.left() / sizeof(uint64_t)) {
    throw from.error(cat("the tensor claims ", levels, " LoD levels"))
        .fix("the file is damaged or is no parameter file");
  }
  Lod lod;
  for (uint64_t level = 0; level < levels; ++level) {
    const uint64_t bytes = from.read<uint64_t>("the size of a LoD level");
    if (bytes % sizeof(int64_t) != 0) {
      throw from.error(cat("a LoD level claims ", bytes, " bytes, not a multiple of 8"));
    }
    from.need(bytes, "a LoD level");
    std::vector<int64_t> offsets(static_cast<size_t>(bytes / sizeof(int64_t)));
    from.read(offsets.data(), static_cast<size_t>(bytes), "a LoD level");
    lod.push_back(std::move(offsets));
  }
  return lod;
}

}  // namespace

void write_tensor(ByteSink& to, const Tensor& tensor) {
  to.write_number(uint32_t{0});
  to.write_number(static_cast<uint64_t>(tensor.lod().size()));
  for (const std::vector<int64_t>& level : tensor.lod()) {
    to.write_number(static_cast<uint64_t>(level.size() * sizeof(int64_t)));
    to.write(level.data(), level.size() * sizeof(int64_t));
  }
  write_data(to, tensor);
}

Tensor read_tensor(ByteSource& from) {
  Lod lod = read_lod(from);
  Tensor tensor = read_data(from);
  if (!lod.empty()) {
    const int64_t rows = tensor.shape().rank() > 0 ? tensor.shape().at(0) : 1;
    const std::string problem = lod_problem(lod, rows);
    if (!problem.empty()) throw from.error(cat("the tensor's LoD is wrong: ", problem));
    tensor.set_lod(std::move(lod));
  }
  return tensor;
}

Tensor read_tensor_part(ByteSource& from, int64_t first, const Shape& shape) {
  read_lod(from);
  const Description whole = read_description(from);
  const int64_t total = whole.shape.count(), count = shape.count();
  if (first < 0 || count < 0 || first > total || count > total - first) {
    throw from.error(cat("elements ", first, " up to ", first, " + ", count,
                         " were asked for, but ", "the tensor ", whole.shape, " has ", total));
  }
  const size_t width = size_of(whole.dtype);
  Tensor part(whole.dtype, shape);
  from.skip(static_cast<uint64_t>(first) * width, "the tensor's data");
  from.read(part.bytes().data(), part.byte_size(), "the tensor's data");
  from.skip(static_cast<uint64_t>(total - first - count) * width, "the tensor's data");
  return part;
}

void write_rows(ByteSink& to, const SelectedRows& rows) {
  to.write_number(uint32_t{0});
  to.write_number(static_cast<uint64_t>(rows.rows.size()));
  const RowNumbers numbers = rows.rows.to(cpu_place());
  to.write(numbers.data(), numbers.size() * sizeof(int64_t));
  to.write_number(rows.height);
  write_data(to, rows.value);
}

SelectedRows read_rows(ByteSource& from) {
  read_version(from, "the SelectedRows' version");
  const uint64_t count = from.read<uint64_t>("the number of rows");
  if (count > from.left() / sizeof(int64_t)) {
    throw from.error(cat("the SelectedRows claims ", count, " rows"))
        .fix("the file is damaged or holds no SelectedRows");
  }
  SelectedRows rows;
  rows.rows.resize(static_cast<size_t>(count));
  from.read(rows.rows.data(), rows.rows.size() * sizeof(int64_t), "the row numbers");
  rows.height = from.read<int64_t>("the height");
  for (const int64_t row : rows.rows) {
    if (row < 0 || row >= rows.height) {
      throw from.error(cat("row ", row, " is outside the height ", rows.height));
    }
  }
  rows.value = read_data(from);
  const int64_t height = rows.value.shape().rank() > 0 ? rows.value.shape().at(0) : 0;
  if (height != static_cast<int64_t>(count) && !(count == 0 && rows.value.numel() == 0)) {
    throw from.error(cat("there are ", count, " row numbers but ", height, " rows of values"));
  }
  return rows;
}

void write_variable(ByteSink& to, const Variable& variable, const std::string& name) {
  if (variable.initialized() && variable.kind() == Kind::dense) {
    write_tensor(to, variable.tensor());
  } else if (variable.initialized() && variable.kind() == Kind::rows) {
    write_rows(to, variable.rows());
  } else {
    throw Error(ErrorKind::precondition,
                cat("variable ", name, " cannot be saved: it is ", variable.describe()))
        .fix("run the startup program first, or give the variable a value");
  }
}

void take_value(Tensor& target, const Tensor& value) {
  const bool fits =
      target.initialized() && target.dtype() == value.dtype() && target.shape() == value.shape();
  if (!fits) {
    if (in_host_memory(target.place())) {
      target = value;
    } else {
      target.copy_from(value);
    }
    return;
  }
  copy_contents(value, target);
  target.set_lod(value.lod());
}

void read_variable(ByteSource& from, Variable& variable, Holds holds) {
  if (holds == Holds::rows) {
    SelectedRows rows = read_rows(from);
    if (variable.kind() != Kind::rows) variable.clear();
    variable.rows() = std::move(rows);
    return;
  }
  const Tensor tensor = read_tensor(from);
  if (variable.kind() != Kind::dense) variable.clear();
  take_value(variable.tensor(), tensor);
}

std::string HostBytes::describe() const { return cat(bytes.size(), " bytes"); }

}  // namespace trireme
