// Python pickles of plain data and numpy arrays. Reading makes values, never calls code: what is
// not plain data is an Error that names it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/tensor.h"

namespace trireme {

// One value of a pickle. Values live as long as the Pickle that made them, and may be shared or
// even contain themselves, as in Python.
struct PickleValue {
  enum class Kind {
    none,
    boolean,  // integer is 0 or 1
    integer,
    real,
    text,   // UTF-8
    bytes,  // in `memory`
    array,
    list,
    tuple,
    dict,  // items: key, value, key, value, ...
  };
  Kind kind = Kind::none;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::shared_ptr<Buffer> memory;
  size_t memory_size = 0;
  Tensor array;
  std::vector<PickleValue*> items;

  virtual ~PickleValue() = default;

  // A dict's value under a text key; null when there is none.
  const PickleValue* find(std::string_view key) const;
  std::string_view name_of_kind() const;  // as Python calls it
};

class Pickle {
 public:
  // Protocols 2 to 4, from Python 2 (its str is read as latin1) or 3. Memory is bounded by a small
  // multiple of the source's size.
  static Pickle read(ByteSource& source);
  const PickleValue& top() const { return *top_; }

 private:
  friend class PickleReader;
  std::vector<std::unique_ptr<PickleValue>> values_;
  const PickleValue* top_ = nullptr;
};

// Names and tensors, in the order of the file.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct PickleOptions {
  int protocol = 4;  // 2 to 4
  // With protocols 2 and 3 larger arrays are cut into flat slices, since those protocols cannot
  // hold them; read_state joins them again.
  size_t largest_array = (size_t{1} << 30) - 1;
};

// A dict of name -> numpy array.
void write_state(ByteSink& to, const NamedTensors& state, const PickleOptions& options = {});
NamedTensors read_state(ByteSource& from);

}  // namespace trireme
