// The opcodes of a pickle: numbers, text, containers, memo.
#include "io/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/text.h"

namespace trireme {
namespace {

constexpr size_t kMaxValues = size_t{1} << 20;
constexpr uint64_t kFewValues = uint64_t{64} << 10;  // always admitted, however short the file
constexpr uint64_t kBudgetFactor = 8;  // Python 2 and protocol 2 pass arrays through text
constexpr uint64_t kBudgetBase = uint64_t{1} << 20;
constexpr size_t kMaxLine = 256;  // modules and names of globals

}  // namespace

PickleReader::PickleReader(ByteSource& source)
    : source_(source),
      most_values_(std::min<uint64_t>(kMaxValues, kFewValues + source.left() / 2)),
      budget_(kBudgetBase + kBudgetFactor * source.left()) {}

Pickle PickleReader::run() {
  while (step(source_.read<uint8_t>("an instruction"))) {
  }
  Value& result = pop();
  if (!marks_.empty() || !stack_.empty()) throw source_.error("the pickle leaves values behind");
  if (result.global != Global::none || result.dtype || result.array_pending) {
    throw source_.error("the pickle is a class, not data");
  }
  pickle_.top_ = &result;
  return std::move(pickle_);
}

bool PickleReader::step(uint8_t code) {
  switch (code) {
    case 0x80: {  // PROTO
      const int version = source_.read<uint8_t>("the protocol");
      if (version < 2 || version > 4) {
        throw source_.error(cat("the pickle has protocol ", version, "; 2, 3 and 4 are read"))
            .fix("save it again with pickle.dump(..., protocol=4)");
      }
      return true;
    }
    case 0x95:  // FRAME: how much follows; nothing here reads ahead by it
      source_.skip(8, "a frame");
      return true;
    case '.':
      return false;
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1':
      stack_.resize(mark());
      return true;
    case '2':
      push(top());
      return true;
    case 'c': {
      const std::string module = read_line("a module's name");
      push(find_global(module, read_line("a class's name")));
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const std::string name = text_of(pop());
      push(find_global(text_of(pop()), name));
      return true;
    }
    case 'R':
      reduce();
      return true;
    case 'b':
      build();
      return true;
    default:
      break;
  }
  if (step_number(code) || step_text(code) || step_container(code) || step_memo(code)) return true;
  throw source_.error(cat("instruction ", int{code}, " is not one that plain data needs"))
      .fix("save dicts, lists, texts, numbers and numpy arrays only, with protocol 2 to 4");
}

bool PickleReader::step_number(uint8_t code) {
  const auto integer = [&](int64_t value) {
    Value& made = make(PickleValue::Kind::integer);
    made.integer = value;
    push(made);
    return true;
  };
  const auto long_integer = [&](uint64_t size) {
    if (size > 8) throw source_.error(cat("an integer of ", size, " bytes is too large"));
    uint8_t bytes[8] = {};
    source_.read(bytes, static_cast<size_t>(size), "an integer");
    const bool negative = size > 0 && (bytes[size - 1] & 0x80);
    for (uint64_t i = size; negative && i < 8; ++i) bytes[i] = 0xff;
    int64_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return integer(value);
  };
  switch (code) {
    case 'N':
      push(make(PickleValue::Kind::none));
      return true;
    case 0x88:
    case 0x89: {
      Value& made = make(PickleValue::Kind::boolean);
      made.integer = code == 0x88;
      push(made);
      return true;
    }
    case 'J':
      return integer(source_.read<int32_t>("an integer"));
    case 'K':
      return integer(source_.read<uint8_t>("an integer"));
    case 'M':
      return integer(source_.read<uint16_t>("an integer"));
    case 0x8a:
      return long_integer(source_.read<uint8_t>("an integer's size"));
    case 0x8b:
      return long_integer(source_.read<uint32_t>("an integer's size"));
    case 'G': {  // big-endian
      uint8_t bytes[8];
      source_.read(bytes, sizeof bytes, "a number");
      uint64_t bits = 0;
      for (const uint8_t byte : bytes) bits = bits << 8 | byte;
      Value& made = make(PickleValue::Kind::real);
      made.real = std::bit_cast<double>(bits);
      push(made);
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::step_text(uint8_t code) {
  const auto raw = [&](uint64_t size) {
    Value& made = read_bytes(size);
    made.raw_text = true;
    push(made);
    return true;
  };
  switch (code) {
    case 'T':
      return raw(source_.read<uint32_t>("a text's size"));
    case 'U':
      return raw(source_.read<uint8_t>("a text's size"));
    case 'B':
      push(read_bytes(source_.read<uint32_t>("the size of bytes")));
      return true;
    case 'C':
      push(read_bytes(source_.read<uint8_t>("the size of bytes")));
      return true;
    case 0x8e:
      push(read_bytes(source_.read<uint64_t>("the size of bytes")));
      return true;
    case 'X':
      push(read_text(source_.read<uint32_t>("a text's size")));
      return true;
    case 0x8c:
      push(read_text(source_.read<uint8_t>("a text's size")));
      return true;
    case 0x8d:
      push(read_text(source_.read<uint64_t>("a text's size")));
      return true;
    default:
      return false;
  }
}

bool PickleReader::step_container(uint8_t code) {
  using Kind = PickleValue::Kind;
  const auto sequence = [&](Kind kind, size_t from) {
    Value& made = make(kind);
    append_items(made, from);
    push(made);
    return true;
  };
  const auto last = [&](size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) throw source_.error("the pickle takes a value not there");
    return stack_.size() - count;
  };
  // The container that stands below its new items.
  const auto target = [&](size_t from, Kind kind) -> Value& {
    if (from == 0 || stack_[from - 1]->kind != kind) {
      throw source_.error("the pickle adds items to what is no container");
    }
    return *stack_[from - 1];
  };
  switch (code) {
    case ')':
      push(make(Kind::tuple));
      return true;
    case 't':
      return sequence(Kind::tuple, mark());
    case 0x85:
    case 0x86:
    case 0x87:
      return sequence(Kind::tuple, last(code - 0x84u));
    case ']':
      push(make(Kind::list));
      return true;
    case 'l':
      return sequence(Kind::list, mark());
    case 'a':
    case 'e': {
      const size_t from = code == 'a' ? last(1) : mark();
      append_items(target(from, Kind::list), from);
      return true;
    }
    case '}':
      push(make(Kind::dict));
      return true;
    case 'd': {
      const size_t from = mark();
      Value& made = make(Kind::dict);
      fill_dict(made, from);
      push(made);
      return true;
    }
    case 's':
    case 'u': {
      const size_t from = code == 's' ? last(2) : mark();
      fill_dict(target(from, Kind::dict), from);
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::step_memo(uint8_t code) {
  switch (code) {
    case 'q':
      remember(source_.read<uint8_t>("a memo's number"), top());
      return true;
    case 'r':
      remember(source_.read<uint32_t>("a memo's number"), top());
      return true;
    case 0x94:
      remember(memo_.size(), top());
      return true;
    case 'h':
      recall(source_.read<uint8_t>("a memo's number"));
      return true;
    case 'j':
      recall(source_.read<uint32_t>("a memo's number"));
      return true;
    default:
      return false;
  }
}

PickleReader::Value& PickleReader::make(PickleValue::Kind kind) {
  if (pickle_.values_.size() == most_values_) {
    throw source_.error(cat("the pickle has more than ", most_values_, " values"));
  }
  auto made = std::make_unique<Value>();
  made->kind = kind;
  Value& value = *made;
  pickle_.values_.push_back(std::move(made));
  return value;
}

PickleReader::Value& PickleReader::pop() {
  Value& value = top();
  stack_.pop_back();
  return value;
}

PickleReader::Value& PickleReader::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    throw source_.error("the pickle takes a value where there is none");
  }
  return *stack_.back();
}

size_t PickleReader::mark() {
  if (marks_.empty()) throw source_.error("the pickle ends a group that never began");
  const size_t from = marks_.back();
  marks_.pop_back();
  return from;
}

void PickleReader::remember(uint64_t index, Value& value) {
  if (memo_.size() == most_values_) throw source_.error("the pickle's memo is too large");
  memo_[index] = &value;
}

void PickleReader::recall(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) throw source_.error(cat("memo number ", index, " is not set"));
  push(*found->second);
}

void PickleReader::append_items(Value& target, size_t from) {
  target.items.insert(target.items.end(), stack_.begin() + static_cast<ptrdiff_t>(from),
                      stack_.end());
  stack_.resize(from);
}

void PickleReader::fill_dict(Value& dict, size_t from) {
  if ((stack_.size() - from) % 2 != 0) throw source_.error("a dict has a key without a value");
  for (size_t i = from; i < stack_.size(); i += 2) {
    Value& key = *stack_[i];
    if (key.raw_text) key.text = text_of(key);
    dict.items.push_back(&key);
    dict.items.push_back(stack_[i + 1]);
  }
  stack_.resize(from);
}

void PickleReader::spend(uint64_t bytes) {
  if (bytes > budget_) {
    throw source_.error("the pickle's values take far more memory than the file is long");
  }
  budget_ -= bytes;
}

PickleReader::Value& PickleReader::read_bytes(uint64_t size) {
  source_.need(size, "bytes");
  spend(size);
  Value& made = make(PickleValue::Kind::bytes);
  made.memory = Buffer::allocate(static_cast<size_t>(size));
  made.memory_size = static_cast<size_t>(size);
  source_.read(made.memory->data(), made.memory_size, "bytes");
  return made;
}

PickleReader::Value& PickleReader::read_text(uint64_t size) {
  source_.need(size, "a text");
  spend(size);
  Value& made = make(PickleValue::Kind::text);
  made.text.resize(static_cast<size_t>(size));
  source_.read(made.text.data(), made.text.size(), "a text");
  return made;
}

std::string PickleReader::read_line(const char* what) {
  std::string line;
  while (true) {
    const char next = source_.read<char>(what);
    if (next == '\n') return line;
    if (line.size() == kMaxLine) throw source_.error(cat(what, " is too long"));
    line.push_back(next);
  }
}

Pickle Pickle::read(ByteSource& source) { return PickleReader(source).run(); }

const PickleValue* PickleValue::find(std::string_view key) const {
  for (size_t i = 0; kind == Kind::dict && i < items.size(); i += 2) {
    if (items[i]->text == key) return items[i + 1];
  }
  return nullptr;
}

std::string_view PickleValue::name_of_kind() const {
  switch (kind) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return "str";
    case Kind::bytes:
      return "bytes";
    case Kind::array:
      return "ndarray";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
  }
  return "value";
}

}  // namespace trireme
