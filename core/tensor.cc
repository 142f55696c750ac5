// Tensors, selected rows, and conversions between element types.
#include "core/tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "core/device.h"
#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

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

}  // namespace

Tensor::Tensor(DType dtype, const Shape& shape, const Place& place)
    : dtype_(dtype), shape_(shape), buffer_(Buffer::allocate(bytes_for(dtype, shape), place)) {}

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

void Tensor::resize(DType dtype, const Shape& shape, const Place& place) {
  const size_t needed = bytes_for(dtype, shape);
  const bool keeps =
      buffer_ && buffer_.use_count() == 1 && buffer_->size() >= needed && buffer_->place() == place;
  if (keeps && offset_ == 0 && dtype_ == dtype && shape_ == shape) return;
  if (!keeps) {
    buffer_.reset();  // before allocating: both need not fit at once
    buffer_ = Buffer::allocate(needed, place);
  }
  offset_ = 0;
  dtype_ = dtype;
  shape_ = shape;
  watch_.count();
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

Tensor Tensor::to(const Place& place) const {
  if (!initialized()) return *this;
  Tensor result(dtype_, shape_, place);
  copy_contents(*this, result);
  result.lod_ = lod_;
  return result;
}

Tensor Tensor::on_host() const { return in_host_memory(place()) ? *this : to(cpu_place()); }

void Tensor::copy_from(const Tensor& source) {
  if (this == &source) return;
  if (!source.initialized()) {
    *this = source;
    return;
  }
  resize(source.dtype_, source.shape_, initialized() ? place() : source.place());
  copy_contents(source, *this);
  lod_ = source.lod_;
}

void copy_contents(const Tensor& from, const Tensor& to) {
  promise(from.byte_size() == to.byte_size(), "tensors that are copied are equally large");
  copy_memory(to.place(), to.address(), from.place(), from.address(), from.byte_size());
}

std::string Tensor::describe() const {
  std::string text = cat(name_of(dtype_), " ", shape_);
  if (!lod_.empty()) text += cat(" lod ", to_string(lod_));
  if (place() != cpu_place()) text += cat(" on ", to_string(place()));
  return text;
}

void Tensor::wrong_dtype(DType wanted) const {
  throw InternalError(cat("a tensor of ", name_of(dtype_), " is read as ", name_of(wanted)));
}

void Tensor::not_on_host() const {
  throw Error(ErrorKind::precondition,
              cat("a tensor of ", name_of(dtype_), " ", shape_, " lies on ", to_string(place()),
                  ", where the host cannot read or write it"))
      .fix("copy it to the host first, with to(cpu_place()), or numpy.array(tensor) in Python");
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
