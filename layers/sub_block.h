// Building sub-blocks: entering and leaving them, and what crosses their border.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/arguments.h"

namespace trireme {

// Ops appended between begin() and the end of the block belong to a sub-block of the block that was
// current. Classes that append the op which runs it derive from this.
class SubBlock {
 public:
  SubBlock() = default;
  SubBlock(SubBlock&&) = default;
  virtual ~SubBlock() = default;

  virtual void begin();         // makes the sub-block; it becomes current
  virtual void complete() = 0;  // back to the parent, and appends the op there
  void abandon();               // back without an op: what an exception in between calls for
  void run(const std::function<void()>& build);  // begin, build, complete

 protected:
  bool open() const { return block_ >= 0; }
  Block& inside() const { return program_->block(block_); }
  Block& parent() const { return *inside().parent(); }

 private:
  std::shared_ptr<Program> program_;
  int block_ = -1;
};

// What a sub-block takes from outside and what it leaves there, in order of first mention.
struct Crossing {
  std::vector<std::string> read, written;
};
// `made`: names that count as made inside before its first op.
Crossing crossing_of(const Block& block, const Block& outside,
                     const std::vector<std::string>& made = {});

}  // namespace trireme
