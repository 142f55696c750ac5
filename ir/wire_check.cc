// What must hold of a file's bytes and block numbers before a program is made of them.
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "ir/wire.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error("these bytes are not a model file: " + why)
      .fix("check that the file is a saved program and that it is complete");
}

// The message types whose parts are counted, with the fields that hold further messages.
enum Kind { kProgram, kBlock, kVar, kVarType, kOp, kReader, kPairs, kLeaf };
struct Holds {
  uint32_t field;
  Kind kind;
};
std::initializer_list<Holds> parts_of(Kind kind) {
  static constexpr std::initializer_list<Holds> program = {{1, kBlock}, {3, kPairs}, {5, kPairs}};
  static constexpr std::initializer_list<Holds> block = {{3, kVar}, {4, kOp}};
  static constexpr std::initializer_list<Holds> var = {{2, kVarType}, {7, kLeaf}};
  static constexpr std::initializer_list<Holds> var_type = {{5, kReader}};
  static constexpr std::initializer_list<Holds> op = {{1, kLeaf}, {2, kLeaf}, {4, kLeaf}};
  static constexpr std::initializer_list<Holds> reader = {{1, kLeaf}};
  static constexpr std::initializer_list<Holds> pairs = {{1, kLeaf}};
  switch (kind) {
    case kProgram:
      return program;
    case kBlock:
      return block;
    case kVar:
      return var;
    case kVarType:
      return var_type;
    case kOp:
      return op;
    case kReader:
      return reader;
    case kPairs:
      return pairs;
    case kLeaf:
      break;
  }
  return {};
}

// Steps over fields without storing them.
class Scanner {
 public:
  void scan(std::string_view bytes, Kind kind) {
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      const uint64_t field = tag >> 3;
      if (field == 0 || field > kLastField) refuse("a field has number " + std::to_string(field));
      switch (tag & 7) {
        case 0:
          varint(bytes);
          break;
        case 1:
          skip(bytes, 8);
          break;
        case 2: {
          count();
          const uint64_t size = varint(bytes);
          const std::string_view inside = bytes.substr(0, size);
          skip(bytes, size);
          for (const Holds& part : parts_of(kind)) {
            if (part.field == field) scan(inside, part.kind);
          }
          break;
        }
        case 3:  // groups are not used by the format; unknown fields may be any
        case 4:
          count();
          break;
        case 5:
          skip(bytes, 4);
          break;
        default:
          refuse("a field has wire type " + std::to_string(tag & 7));
      }
    }
  }

 private:
  static constexpr uint64_t kLastField = (uint64_t{1} << 29) - 1;

  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
      if (byte < 0x80) {
        bytes.remove_prefix(i + 1);
        return value;
      }
    }
    refuse("they end in the middle of a number");
  }

  static void skip(std::string_view& bytes, uint64_t size) {
    if (size > bytes.size()) {
      refuse(cat("a field says it has ", size, " bytes and only ", bytes.size(), " follow"));
    }
    bytes.remove_prefix(size);
  }

  void count() {
    if (++parts_ > kMaxProgramParts) {
      throw Error(ErrorKind::resource_exhausted,
                  cat("a program has more than ", kMaxProgramParts, " parts"));
    }
  }

  size_t parts_ = 0;
};

void order_blocks(wire::ProgramDesc& program) {
  const int count = program.blocks_size();
  if (count == 0) refuse("there are no blocks");
  for (int i = 0; i < count; ++i) {
    // Every swap puts one block where it belongs, so this ends.
    while (program.blocks(i).idx() != i) {
      const int idx = program.blocks(i).idx();
      if (idx < 0 || idx >= count) refuse(cat("block ", idx, " of ", count, " blocks"));
      if (program.blocks(idx).idx() == idx) refuse(cat("two blocks have number ", idx));
      program.mutable_blocks()->SwapElements(i, idx);
    }
  }
}

// A graph of blocks in which an edge leads from a block to one that it is inside of, or uses.
class Nesting {
 public:
  explicit Nesting(int count) : into_(static_cast<size_t>(count)), from_(into_.size()) {}

  void add(int from, int to) {
    from_[static_cast<size_t>(from)].push_back(to);
    ++into_[static_cast<size_t>(to)];
  }

  // Takes away blocks that no remaining edge leads to, until none is left.
  void check(const char* what) {
    std::vector<int> depth(into_.size()), free;
    for (size_t i = 0; i < into_.size(); ++i) {
      if (into_[i] == 0) free.push_back(static_cast<int>(i));
    }
    size_t taken = 0;
    for (; taken < free.size(); ++taken) {
      const auto block = static_cast<size_t>(free[taken]);
      if (depth[block] > kMaxBlockNesting) {
        refuse(cat(what, " nest more than ", kMaxBlockNesting, " deep"));
      }
      for (const int next : from_[block]) {
        const auto to = static_cast<size_t>(next);
        depth[to] = std::max(depth[to], depth[block] + 1);
        if (--into_[to] == 0) free.push_back(next);
      }
    }
    if (taken < into_.size()) refuse(cat(what, " go round in a circle"));
  }

 private:
  std::vector<int> into_;
  std::vector<std::vector<int>> from_;
};

}  // namespace

void check_size(std::string_view bytes) {
  if (bytes.size() > kMaxProgramBytes) {
    throw Error(ErrorKind::resource_exhausted,
                cat("a program of ", bytes.size(), " bytes is larger than the limit of ",
                    kMaxProgramBytes));
  }
  Scanner().scan(bytes, kProgram);
}

void check_blocks(wire::ProgramDesc& program) {
  order_blocks(program);
  const int count = program.blocks_size();
  const auto in_range = [&](int index, int lowest) { return index >= lowest && index < count; };
  Nesting parents(count), uses(count);
  for (const wire::BlockDesc& block : program.blocks()) {
    if (!in_range(block.parent_idx(), -1)) {
      refuse(
          cat("block ", block.idx(), " has parent ", block.parent_idx(), " of ", count, " blocks"));
    }
    if (!in_range(block.forward_block_idx(), -1)) {
      refuse(cat("block ", block.idx(), " has forward block ", block.forward_block_idx(), " of ",
                 count, " blocks"));
    }
    if (block.parent_idx() >= 0) parents.add(block.idx(), block.parent_idx());
    for (const wire::OpDesc& op : block.ops()) {
      for (const wire::OpDesc::Attr& attr : op.attrs()) {
        const auto use = [&](int index) {
          if (!in_range(index, 0)) {
            refuse(cat("attribute ", attr.name(), " of op ", op.type(), " in block ", block.idx(),
                       " is block ", index, " of ", count, " blocks"));
          }
          uses.add(block.idx(), index);
        };
        if (!attr.has_type()) continue;
        if (attr.type() == wire::BLOCK) use(attr.block_idx());
        if (attr.type() == wire::BLOCKS) std::ranges::for_each(attr.blocks_idx(), use);
      }
    }
  }
  parents.check("parents of blocks");
  uses.check("sub-blocks");
}

}  // namespace trireme
