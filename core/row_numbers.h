// Which rows SelectedRows holds: numbers in a buffer at some place, used like a vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <vector>

#include "core/buffer.h"
#include "core/memory_watch.h"

namespace trireme {

// A copy is a deep one, at the same place. What reads or writes numbers is for the host: where they
// lie elsewhere it is an Error.
class RowNumbers {
 public:
  using value_type = int64_t;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using reference = int64_t&;
  using const_reference = const int64_t&;
  using iterator = int64_t*;
  using const_iterator = const int64_t*;

  RowNumbers() = default;
  RowNumbers(std::initializer_list<int64_t> numbers) { assign(numbers.begin(), numbers.end()); }
  RowNumbers(const std::vector<int64_t>& numbers) {  // NOLINT: they are row numbers
    assign(numbers.begin(), numbers.end());
  }
  // The first `count` of what stands in the buffer, which nobody else writes.
  RowNumbers(std::shared_ptr<Buffer> buffer, size_t count)
      : buffer_(std::move(buffer)), size_(count) {}
  RowNumbers(const RowNumbers& other) { copy_from(other); }
  RowNumbers(RowNumbers&& other) noexcept;
  RowNumbers& operator=(const RowNumbers& other);
  RowNumbers& operator=(RowNumbers&& other) noexcept;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t capacity() const { return buffer_ ? buffer_->size() / sizeof(int64_t) : 0; }
  Place place() const { return buffer_ ? buffer_->place() : cpu_place(); }
  void* address() const { return buffer_ ? buffer_->data() : nullptr; }  // at any place
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  int64_t* data() { return host_data(); }
  const int64_t* data() const { return host_data(); }
  int64_t& operator[](size_t i) { return host_data()[i]; }
  const int64_t& operator[](size_t i) const { return host_data()[i]; }
  int64_t& back() { return host_data()[size_ - 1]; }
  const int64_t& back() const { return host_data()[size_ - 1]; }
  int64_t& front() { return *host_data(); }
  const int64_t& front() const { return *host_data(); }
  iterator begin() { return host_data(); }
  iterator end() { return host_data() + size_; }
  const_iterator begin() const { return host_data(); }
  const_iterator end() const { return host_data() + size_; }

  void clear() { size_ = 0; }
  void reserve(size_t count);
  // At the place they have; numbers that are added are zero, on the host.
  void resize(size_t count);
  void resize(size_t count, const Place& place);  // what they were is lost where the place changes
  void push_back(int64_t number);
  template <std::forward_iterator It>
  void assign(It first, It last) {
    clear();
    insert(end(), first, last);
  }
  template <std::forward_iterator It>  // of other numbers than these
  iterator insert(const_iterator before, It first, It last) {
    int64_t* gap = make_gap(before - begin(), static_cast<size_t>(std::distance(first, last)));
    std::copy(first, last, gap);
    return gap;
  }
  // The place stays; where there is none yet, it is the other's.
  void copy_from(const RowNumbers& other);
  RowNumbers to(const Place& place) const;  // a copy there

  void watch(std::atomic<uint64_t>* epoch) { watch_.begin(epoch); }

  friend bool operator==(const RowNumbers& a, const RowNumbers& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  int64_t* host_data() const {
    if (!buffer_) return nullptr;
    if (!in_host_memory(buffer_->place())) not_on_host();
    return reinterpret_cast<int64_t*>(buffer_->data());
  }
  [[noreturn]] void not_on_host() const;
  int64_t* make_gap(ptrdiff_t at, size_t count);

  std::shared_ptr<Buffer> buffer_;  // nobody else's
  size_t size_ = 0;
  MemoryWatch watch_;
};

}  // namespace trireme
