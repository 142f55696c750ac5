// Tensors: typed, shaped views of shared buffers, with optional LoD; SelectedRows; tensor arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/dtype.h"
#include "core/lod.h"
#include "core/memory_watch.h"
#include "core/place.h"
#include "core/row_numbers.h"
#include "core/shape.h"

namespace trireme {

class Tensor {
 public:
  Tensor() = default;
  // Allocates; contents undefined.
  Tensor(DType dtype, const Shape& shape, const Place& place = cpu_place());
  Tensor(DType dtype, const Shape& shape, std::shared_ptr<Buffer> buffer, size_t offset = 0);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t numel() const { return shape_.count(); }
  size_t byte_size() const { return static_cast<size_t>(numel()) * size_of(dtype_); }
  bool initialized() const { return buffer_ != nullptr; }
  Place place() const { return buffer_ ? buffer_->place() : cpu_place(); }

  const Lod& lod() const { return lod_; }
  void set_lod(Lod lod) { lod_ = std::move(lod); }
  Lod& mutable_lod() { return lod_; }

  // A dtype and a shape, and no buffer: not initialized.
  static Tensor without_memory(DType dtype, const Shape& shape);

  void* address() const { return buffer_ ? buffer_->data() + offset_ : nullptr; }  // at any place
  void* raw() const { return address(); }
  // For the host: memory elsewhere is an Error.
  template <class T>
  T* data() const {  // the caller knows the dtype; a wrong one is an InternalError
    if (dtype_of<T> != dtype_) wrong_dtype(dtype_of<T>);
    return static_cast<T*>(host_address());
  }
  std::span<std::byte> bytes() const {  // empty while there is no buffer
    return {static_cast<std::byte*>(host_address()), buffer_ ? byte_size() : 0};
  }

  // Makes this dtype and shape, keeping the buffer when it is large enough and nobody else's.
  // Contents are undefined afterwards; the LoD and the place stay as they were.
  void resize(DType dtype, const Shape& shape) { resize(dtype, shape, place()); }
  void resize(DType dtype, const Shape& shape, const Place& place);
  // Same memory under another shape of equal element count. The LoD is kept while the number of
  // rows is.
  Tensor reshaped(const Shape& shape) const;
  Tensor slice_rows(int64_t begin, int64_t end) const;  // shares memory; no LoD
  Tensor clone() const { return to(place()); }          // deep copy, LoD included
  Tensor to(const Place& place) const;                  // a deep copy there
  Tensor on_host() const;  // the same where the host reads it, else a deep copy
  // Resizes, copies, takes the LoD. The place stays; where there is none yet, it is the source's.
  void copy_from(const Tensor& source);
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  size_t offset() const { return offset_; }
  // "float32 [64, 784]", the LoD when there is one, and the place when it is not the CPU.
  std::string describe() const;
  // From now on `epoch` rises when its memory, its type or its shape is replaced.
  void watch(std::atomic<uint64_t>* epoch) { watch_.begin(epoch); }

 private:
  void* host_address() const {
    if (!buffer_) return nullptr;
    if (!in_host_memory(buffer_->place())) not_on_host();
    return buffer_->data() + offset_;
  }
  [[noreturn]] void wrong_dtype(DType wanted) const;
  [[noreturn]] void not_on_host() const;
  DType dtype_ = DType::float32;
  Shape shape_;
  Lod lod_;
  std::shared_ptr<Buffer> buffer_;
  size_t offset_ = 0;
  MemoryWatch watch_;
};

// Copies the elements from place to place; both hold as many bytes.
void copy_contents(const Tensor& from, const Tensor& to);

// Some rows of a tall tensor; a row may appear more than once and then counts as a sum.
struct SelectedRows {
  RowNumbers rows;
  int64_t height = 0;
  Tensor value;  // [rows.size(), ...]
};

// Rows with equal numbers added up, in ascending row order.
SelectedRows merge_rows(const SelectedRows& source);

// Tensors by number, some of them perhaps not written yet. The memory of elements that are dropped
// stays, each at its place, for what is written there next: a loop fills its arrays at every step.
class TensorArray {
 public:
  TensorArray() = default;
  TensorArray(std::initializer_list<Tensor> elements) : elements_(elements) {}
  TensorArray(TensorArray&&) = default;
  TensorArray& operator=(TensorArray&&) = default;
  // Elements share memory with those of `other`.
  TensorArray(const TensorArray& other) : elements_(other.elements_) {}
  TensorArray& operator=(const TensorArray& other);

  size_t size() const { return elements_.size(); }
  bool empty() const { return elements_.empty(); }
  Tensor& operator[](size_t i) { return elements_[i]; }
  const Tensor& operator[](size_t i) const { return elements_[i]; }
  Tensor& at(size_t i) { return elements_.at(i); }
  const Tensor& at(size_t i) const { return elements_.at(i); }
  Tensor& back() { return elements_.back(); }
  const Tensor& back() const { return elements_.back(); }
  auto begin() { return elements_.begin(); }
  auto end() { return elements_.end(); }
  auto begin() const { return elements_.begin(); }
  auto end() const { return elements_.end(); }

  void push_back(Tensor tensor) { elements_.push_back(std::move(tensor)); }
  template <class... Args>
  Tensor& emplace_back(Args&&... args) {
    return elements_.emplace_back(std::forward<Args>(args)...);
  }
  void pop_back() { resize(size() - 1); }
  void resize(size_t count);  // elements that are added hold nothing
  void clear() { resize(0); }
  void drop(size_t i);  // it holds nothing any more
  // An element to be resized or copied to, with the memory it has or had. The array grows to it.
  Tensor& renew(size_t i);
  template <class Use>
  void each_held(Use use) const {  // with those that are dropped
    for (const Tensor& element : elements_) use(element);
    for (const Tensor& element : dropped_) use(element);
  }

 private:
  std::vector<Tensor> elements_;
  std::vector<Tensor> dropped_;  // by number: what holds the memory of an element that was dropped
};

template <class T>
Tensor make_tensor(const Shape& shape, std::span<const T> values);
template <class T>
Tensor make_tensor(const Shape& shape, std::initializer_list<T> values) {
  return make_tensor<T>(shape, std::span<const T>(values.begin(), values.size()));
}
Tensor filled(DType dtype, const Shape& shape, double value);
// Elements [begin, end) of a tensor that has memory already.
void fill(const Tensor& target, double value, int64_t begin, int64_t end);
void cast_elements(const Tensor& source, const Tensor& target, int64_t begin, int64_t end);
// To integers truncates and saturates, and NaN becomes 0, so every place gives the same numbers.
Tensor cast(const Tensor& source, DType dtype);  // LoD kept
double element_as_double(const Tensor& tensor, int64_t index);

}  // namespace trireme
