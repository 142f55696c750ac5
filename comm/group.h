// Collectives among the members of a group: prepared once, started at every step, never blocking.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/dtype.h"

namespace trireme {

class Queue;  // core/device.h

// What the members of a group do together. All of them prepare the same ones.
struct Collective {
  enum class Kind { all_reduce, reduce, broadcast, all_gather, gather, reduce_scatter, barrier };
  enum class Op { sum, product, max, min };

  Kind kind = Kind::all_reduce;
  DType dtype = DType::float32;
  Op op = Op::sum;
  int root = 0;  // of broadcast, reduce and gather
  // Names it: equal on every member and no other collective's of the group. Errors show it.
  std::string tag;
  // From the moment a member starts it until it has ended for that member; then an IoError names
  // the tag, the bytes and the members that did arrive. 0: the group's own limit.
  std::chrono::milliseconds limit{0};
};

// One member's share of one run: `count` elements given and, in place or elsewhere, the result.
// all_gather and gather: `out` takes what all members give, in their order; shares may be unequal.
// reduce_scatter: `in` holds a part for every member, `out`, which is elsewhere, takes this
// member's. Of these three a run has one piece. Who takes no result has no `out`.
struct Piece {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t count = 0;
};

struct Exchanged {
  std::span<const Piece> pieces;  // several buffers of one collective: a bucket that is not one
  // all_gather and gather of unequal shares: elements by member. Empty: all give as many.
  std::span<const int64_t> counts = {};
  Queue* queue = nullptr;  // pieces lie on a device: after what this queue holds, and before more
};

// A member's hold on one collective, used again at every step. Destroying one that is under way
// aborts it.
class Ticket {
 public:
  virtual ~Ticket() = default;
  // Takes part. The pieces' memory is the group's until done() is true.
  virtual void start(const Exchanged& what) = 0;
  // Moves on as far as it goes without waiting; true: ended, results are in place. What went wrong,
  // at this member or another, is thrown here.
  virtual bool done() = 0;
};

// Its members are replicas of this process, or processes. A member's calls come from one thread at
// a time.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::unique_ptr<Ticket> prepare(const Collective& what) = 0;
  // This member leaves with an error: every ticket of every member ends with it.
  virtual void abort(const std::string& why) noexcept = 0;
};

}  // namespace trireme
