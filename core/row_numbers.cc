// Numbers of rows in a buffer of their own.
#include "core/row_numbers.h"

#include <utility>

#include "core/device.h"
#include "core/text.h"

namespace trireme {

RowNumbers::RowNumbers(RowNumbers&& other) noexcept
    : buffer_(std::move(other.buffer_)), size_(std::exchange(other.size_, 0)) {
  other.watch_.count();
}

RowNumbers& RowNumbers::operator=(RowNumbers&& other) noexcept {
  if (this == &other) return *this;
  buffer_ = std::move(other.buffer_);
  size_ = std::exchange(other.size_, 0);
  watch_ = std::move(other.watch_);
  return *this;
}

RowNumbers& RowNumbers::operator=(const RowNumbers& other) {
  if (this == &other) return *this;
  if (place() != other.place()) *this = RowNumbers();
  copy_from(other);
  return *this;
}

void RowNumbers::copy_from(const RowNumbers& other) {
  if (this == &other) return;
  clear();
  resize(other.size_, buffer_ ? place() : other.place());
  copy_memory(place(), address(), other.place(), other.address(), size_ * sizeof(int64_t));
}

RowNumbers RowNumbers::to(const Place& place) const {
  RowNumbers result;
  result.resize(size_, place);
  copy_memory(place, result.address(), this->place(), address(), size_ * sizeof(int64_t));
  return result;
}

void RowNumbers::reserve(size_t count) {
  if (count <= capacity()) return;
  const std::shared_ptr<Buffer> larger = Buffer::allocate(count * sizeof(int64_t), place());
  copy_memory(place(), larger->data(), place(), address(), size_ * sizeof(int64_t));
  buffer_ = larger;
  watch_.count();
}

void RowNumbers::resize(size_t count) {
  if (count > capacity()) reserve(std::max(count, size_ == 0 ? 0 : 2 * capacity()));
  if (count > size_ && in_host_memory(place())) {
    std::fill(host_data() + size_, host_data() + count, 0);
  }
  size_ = count;
}

void RowNumbers::resize(size_t count, const Place& place) {
  if (buffer_ ? buffer_->place() == place : place == cpu_place()) return resize(count);
  buffer_ = Buffer::allocate(count * sizeof(int64_t), place);
  size_ = 0;
  watch_.count();
  resize(count);
}

void RowNumbers::push_back(int64_t number) { *make_gap(static_cast<ptrdiff_t>(size_), 1) = number; }

int64_t* RowNumbers::make_gap(ptrdiff_t at, size_t count) {
  const size_t before = size_;
  resize(size_ + count);
  int64_t* gap = host_data() + at;
  std::copy_backward(gap, host_data() + before, host_data() + size_);
  return gap;
}

void RowNumbers::not_on_host() const {
  throw Error(ErrorKind::precondition, cat("the row numbers of SelectedRows lie on ",
                                           to_string(place()), ", where the host cannot read them"))
      .fix("copy the SelectedRows to the host first");
}

}  // namespace trireme
