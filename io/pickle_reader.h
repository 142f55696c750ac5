// The machine that reads a pickle: a stack, a memo, and the few globals it knows.
#pragma once

#include <map>

#include "io/pickle.h"

namespace trireme {

class PickleReader {
 public:
  explicit PickleReader(ByteSource& source);
  Pickle run();

 private:
  // What stands for a class or function of Python, and for things not finished yet.
  enum class Global { none, reconstruct, ndarray, dtype, ordered_dict, encode, bytes, tuple };
  struct Value : PickleValue {
    Global global = Global::none;
    bool raw_text = false;               // Python 2's str: bytes that may serve as text
    std::shared_ptr<const DType> dtype;  // a numpy dtype
    bool array_pending = false;          // an ndarray before its state
    bool memory_taken = false;           // an array owns `memory` now
  };

  bool step(uint8_t code);  // false at the end
  bool step_number(uint8_t code);
  bool step_text(uint8_t code);
  bool step_container(uint8_t code);
  bool step_memo(uint8_t code);

  Value& make(PickleValue::Kind kind);
  void push(Value& value) { stack_.push_back(&value); }
  Value& pop();
  Value& top();
  size_t mark();  // where the items since the last mark begin; the mark is taken away
  void remember(uint64_t index, Value& value);
  void recall(uint64_t index);
  void append_items(Value& target, size_t from);
  void fill_dict(Value& dict, size_t from);

  Value& read_bytes(uint64_t size);
  Value& read_text(uint64_t size);
  std::string read_line(const char* what);
  void spend(uint64_t bytes);  // an Error once the values take much more memory than the file

  Value& find_global(const std::string& module, const std::string& name);
  void reduce();
  void build();
  void build_dtype(Value& target, const Value& state);
  void build_array(Value& target, const Value& state);
  Value& encode_latin1(const Value& text);
  std::string text_of(const Value& value);

  static Value& item(const PickleValue& value, size_t index) {
    return static_cast<Value&>(*value.items[index]);
  }

  ByteSource& source_;
  Pickle pickle_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, Value*> memo_;
  uint64_t most_values_;
  uint64_t budget_;
};

}  // namespace trireme
