// Buffers, tensors, selected rows, and conversions between element types.
#include "core/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <type_traits>

#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kLargestBuffer = size_t{1} << 46;  // more than one machine's address space serves

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> allocations{0};

std::string readable_size(size_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
  return unit == 0 ? cat(bytes, " bytes")
                   : cat(bytes, " bytes (", std::round(amount * 10) / 10, " ", kUnits[unit], ")");
}

Error out_of_memory(std::string message) {
  Error error(ErrorKind::resource_exhausted, std::move(message));
  error.fix("use a smaller batch or smaller layers, or a machine with more memory");
  return error;
}

// Bytes a tensor needs. Sizes are checked here once, so that byte_size() cannot overflow later.
size_t bytes_for(DType dtype, const Shape& shape) {
  if (!shape.known()) {
    throw Error(cat("a tensor of shape ", shape, " cannot be made: an extent is not known yet"))
        .fix("feed data, or give every dimension a size of 0 or more");
  }
  const auto count = static_cast<size_t>(shape.count());
  if (count > kLargestBuffer / size_of(dtype)) {
    throw out_of_memory(cat("a tensor of ", name_of(dtype), " ", shape, " needs more than ",
                            readable_size(kLargestBuffer), ", the largest size possible"));
  }
  return count * size_of(dtype);
}

// Calls f.operator()<T>() with the C++ type of `dtype`.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
      return f.template operator()<bool>();
    case DType::int16:
      return f.template operator()<int16_t>();
    case DType::int32:
      return f.template operator()<int32_t>();
    case DType::int64:
      return f.template operator()<int64_t>();
    case DType::float16:
      return f.template operator()<float16>();
    case DType::float32:
      return f.template operator()<float>();
    case DType::float64:
      return f.template operator()<double>();
    case DType::uint8:
      return f.template operator()<uint8_t>();
    case DType::int8:
      return f.template operator()<int8_t>();
    case DType::bfloat16:
      return f.template operator()<bfloat16>();
  }
  throw InternalError(cat("no element type has the number ", static_cast<int>(dtype)));
}

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// A double as a float rounded to odd: cut towards zero, with the last bit set when something was
// cut. Rounding that float again to half precision gives what rounding the double would.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  const float cut = std::abs(nearest) > std::abs(value) ? std::nextafter(nearest, 0.0f) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(cut) | 1u);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIsHalf<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return To(value);
    } else {
      return To(round_to_odd(static_cast<double>(value)));
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The largest value may not exist in From, but one past it is a power of two, which does.
    constexpr int kDigits = std::numeric_limits<To>::digits;
    if (std::isnan(value)) return 0;
    if (value >= std::ldexp(From{1}, kDigits)) return std::numeric_limits<To>::max();
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) {
      return std::numeric_limits<To>::min();
    }
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// What rows are added up in: halves in float, so that many small rows are not lost.
template <class T>
using Sum = std::conditional_t<kIsHalf<T>, float, T>;

template <class T>
void add_rows(const Tensor& source, std::span<const size_t> order,
              std::span<const size_t> group_ends, int64_t width, Tensor& out) {
  std::vector<Sum<T>> sum(static_cast<size_t>(width));
  const T* in = source.data<T>();
  T* next = out.data<T>();
  size_t at = 0;
  for (size_t end : group_ends) {
    const T* first = in + static_cast<int64_t>(order[at++]) * width;
    for (int64_t j = 0; j < width; ++j) sum[j] = static_cast<Sum<T>>(first[j]);
    for (; at < end; ++at) {
      const T* row = in + static_cast<int64_t>(order[at]) * width;
      for (int64_t j = 0; j < width; ++j) {
        sum[j] = static_cast<Sum<T>>(sum[j] + static_cast<Sum<T>>(row[j]));
      }
    }
    for (int64_t j = 0; j < width; ++j) *next++ = static_cast<T>(sum[j]);
  }
}

// Scattered reads of a large table, as an embedding's, miss the table of pages at every row where
// pages are small.
void ask_for_large_pages(std::byte* data, size_t bytes) {
  constexpr size_t kWorthIt = size_t{4} << 20;
  if (bytes < kWorthIt) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t skipped = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  // Where the system has none, pages stay as they are.
  (void)madvise(data + skipped, (bytes - skipped) / page * page, MADV_HUGEPAGE);
}

}  // namespace

std::shared_ptr<Buffer> Buffer::allocate(size_t bytes) {
  if (bytes > kLargestBuffer) {
    throw out_of_memory(cat("a buffer of ", readable_size(bytes), " is larger than ",
                            readable_size(kLargestBuffer), ", the largest size possible"));
  }
  // Whole cache lines, at least one: kernels may read to the end of the last line.
  const size_t padded = std::max<size_t>((bytes + 63) / 64 * 64, 64);
  void* data = ::operator new(padded, kAlignment, std::nothrow);
  if (!data) {
    throw out_of_memory(cat("no memory left for a tensor of ", readable_size(bytes), "; ",
                            readable_size(allocated_bytes()), " are in use by tensors"));
  }
  ask_for_large_pages(static_cast<std::byte*>(data), padded);
  // Bytes of ones are NaN in every floating type: reading them before writing shows at once.
  if (std::get<bool>(get_flag("init_allocated_mem"))) std::memset(data, 0xff, padded);
  live_bytes += bytes;
  ++allocations;
  return std::shared_ptr<Buffer>(new Buffer(static_cast<std::byte*>(data), bytes, nullptr));
}

std::shared_ptr<Buffer> Buffer::adopt(void* data, size_t bytes, std::function<void()> release) {
  if (!release) release = [] {};  // a Buffer without one frees its memory itself
  return std::shared_ptr<Buffer>(
      new Buffer(static_cast<std::byte*>(data), bytes, std::move(release)));
}

Buffer::~Buffer() {
  if (release_) {
    release_();
  } else {
    ::operator delete(data_, kAlignment);
    live_bytes -= size_;
  }
}

size_t allocated_bytes() { return live_bytes; }

size_t allocation_count() { return allocations; }

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype), shape_(shape), buffer_(Buffer::allocate(bytes_for(dtype, shape))) {}

Tensor::Tensor(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer, size_t offset)
    : dtype_(dtype), shape_(shape), buffer_(std::move(buffer)), offset_(offset) {
  const size_t needed = bytes_for(dtype, shape);
  promise(buffer_ && offset_ <= buffer_->size() && needed <= buffer_->size() - offset_,
          "a tensor lies inside its buffer");
}

Tensor Tensor::without_memory(DType dtype, const Shape& shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  return tensor;
}

void Tensor::resize(DType dtype, const Shape& shape) {
  const size_t needed = bytes_for(dtype, shape);
  if (!buffer_ || buffer_.use_count() != 1 || buffer_->size() < needed) {
    buffer_.reset();  // before allocating: both need not fit at once
    buffer_ = Buffer::allocate(needed);
  }
  offset_ = 0;
  dtype_ = dtype;
  shape_ = shape;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (!shape.known() || shape.count() != numel()) {
    throw Error(cat("a tensor of shape ", shape_, " holds ", numel(),
                    " elements and cannot be seen as ", shape));
  }
  Tensor result = *this;
  result.shape_ = shape;
  const bool same_rows = shape.rank() > 0 && shape_.rank() > 0 && shape[0] == shape_[0];
  if (!same_rows) result.lod_.clear();
  return result;
}

Tensor Tensor::slice_rows(int64_t begin, int64_t end) const {
  if (shape_.rank() == 0) {
    throw Error(ErrorKind::out_of_range, "a tensor without dimensions has no rows to slice");
  }
  if (begin < 0 || begin > end || end > shape_.at(0)) {
    throw Error(ErrorKind::out_of_range, cat("rows ", begin, " to ", end, " are not inside the ",
                                             shape_.at(0), " rows of a tensor ", shape_));
  }
  const auto row = static_cast<size_t>(shape_.product(1, shape_.rank()).value()) * size_of(dtype_);
  Tensor result;
  result.dtype_ = dtype_;
  result.shape_ = shape_;
  result.shape_[0] = end - begin;
  result.buffer_ = buffer_;
  result.offset_ = offset_ + static_cast<size_t>(begin) * row;
  return result;
}

Tensor Tensor::clone() const {
  Tensor result;
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& source) {
  if (this == &source) return;
  if (!source.initialized()) {
    *this = source;
    return;
  }
  resize(source.dtype_, source.shape_);
  // An empty adopted buffer may be null, which memcpy forbids.
  if (byte_size() > 0) std::memcpy(raw(), source.raw(), byte_size());
  lod_ = source.lod_;
}

std::string Tensor::describe() const {
  std::string text = cat(name_of(dtype_), " ", shape_);
  if (!lod_.empty()) text += cat(" lod ", to_string(lod_));
  return text;
}

void Tensor::wrong_dtype(DType wanted) const {
  throw InternalError(cat("a tensor of ", name_of(dtype_), " is read as ", name_of(wanted)));
}

TensorArray& TensorArray::operator=(const TensorArray& other) {
  elements_ = other.elements_;
  return *this;
}

void TensorArray::resize(size_t count) {
  for (size_t i = count; i < size(); ++i) drop(i);
  elements_.resize(count);
}

void TensorArray::drop(size_t i) {
  if (!elements_[i].initialized()) return;
  if (dropped_.size() <= i) dropped_.resize(i + 1);
  dropped_[i] = std::exchange(elements_[i], Tensor());
}

Tensor& TensorArray::renew(size_t i) {
  if (i >= size()) elements_.resize(i + 1);
  if (!elements_[i].initialized() && i < dropped_.size()) std::swap(elements_[i], dropped_[i]);
  return elements_[i];
}

SelectedRows merge_rows(const SelectedRows& source) {
  const size_t count = source.rows.size();
  const Shape& shape = source.value.shape();
  if (count == 0) return source;
  if (!source.value.initialized() || shape.rank() == 0 ||
      shape.at(0) != static_cast<int64_t>(count)) {
    throw Error(cat("selected rows name ", count, " rows but their value is ",
                    source.value.initialized() ? source.value.describe() : "empty"));
  }
  // Equal rows become neighbours in the order they came, so the sum does not depend on luck.
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return source.rows[i]; });

  SelectedRows merged;
  merged.height = source.height;
  std::vector<size_t> group_ends;
  for (size_t i = 0; i < count; ++i) {
    const int64_t row = source.rows[order[i]];
    if (merged.rows.empty() || merged.rows.back() != row) {
      if (i > 0) group_ends.push_back(i);
      merged.rows.push_back(row);
    }
  }
  group_ends.push_back(count);

  Shape merged_shape = shape;
  merged_shape[0] = static_cast<int64_t>(merged.rows.size());
  merged.value = Tensor(source.value.dtype(), merged_shape);
  const int64_t width = shape.product(1, shape.rank()).value();
  with_type(source.value.dtype(),
            [&]<class T>() { add_rows<T>(source.value, order, group_ends, width, merged.value); });
  return merged;
}

template <class T>
Tensor make_tensor(const Shape& shape, std::span<const T> values) {
  if (!shape.known() || shape.count() != static_cast<int64_t>(values.size())) {
    throw Error(cat(values.size(), " values do not fill a tensor of shape ", shape));
  }
  Tensor result(dtype_of<T>, shape);
  std::ranges::copy(values, result.data<T>());
  return result;
}

template Tensor make_tensor<bool>(const Shape&, std::span<const bool>);
template Tensor make_tensor<int8_t>(const Shape&, std::span<const int8_t>);
template Tensor make_tensor<int16_t>(const Shape&, std::span<const int16_t>);
template Tensor make_tensor<int32_t>(const Shape&, std::span<const int32_t>);
template Tensor make_tensor<int64_t>(const Shape&, std::span<const int64_t>);
template Tensor make_tensor<uint8_t>(const Shape&, std::span<const uint8_t>);
template Tensor make_tensor<float16>(const Shape&, std::span<const float16>);
template Tensor make_tensor<bfloat16>(const Shape&, std::span<const bfloat16>);
template Tensor make_tensor<float>(const Shape&, std::span<const float>);
template Tensor make_tensor<double>(const Shape&, std::span<const double>);

void fill(const Tensor& target, double value, int64_t begin, int64_t end) {
  with_type(target.dtype(), [&]<class T>() {
    T* out = target.data<T>();
    std::fill(out + begin, out + end, convert<T>(value));
  });
}

Tensor filled(DType dtype, const Shape& shape, double value) {
  Tensor result(dtype, shape);
  fill(result, value, 0, result.numel());
  return result;
}

void cast_elements(const Tensor& source, const Tensor& target, int64_t begin, int64_t end) {
  with_type(source.dtype(), [&]<class From>() {
    with_type(target.dtype(), [&]<class To>() {
      const From* in = source.data<From>();
      std::transform(in + begin, in + end, target.data<To>() + begin, convert<To, From>);
    });
  });
}

Tensor cast(const Tensor& source, DType dtype) {
  promise(source.initialized(), "a tensor that is cast holds data");
  Tensor result(dtype, source.shape());
  result.set_lod(source.lod());
  cast_elements(source, result, 0, source.numel());
  return result;
}

double element_as_double(const Tensor& tensor, int64_t index) {
  promise(tensor.initialized() && index >= 0 && index < tensor.numel(),
          "an element that is read lies inside its tensor");
  return with_type(tensor.dtype(),
                   [&]<class T>() { return convert<double>(tensor.data<T>()[index]); });
}

}  // namespace trireme
