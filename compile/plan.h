// L2: the flat list of instructions a step runs, with the slot of every value decided.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/graph.h"
#include "compile/target.h"

namespace trireme {

enum class SlotKind {
  own,    // memory of the frame
  feed,   // the user's memory: read only
  state,  // a variable of the scope
  outer,  // in a region: a slot of the plan around it
};

struct Slot {
  SlotKind kind = SlotKind::own;
  int index = 0;           // feed or state number; for outer: the outer plan's slot
  bool on_device = false;  // its memory is the device's
};

// Who runs an instruction: the host when it comes to it, or one of the device's queues, later.
enum class Runner : uint8_t { host, compute, upload, download };

struct Instruction {
  int node = 0;
  Runner runner = Runner::host;
  std::vector<int> waits;  // instructions of other queues that must have ended
  bool signals = false;    // some instruction waits for it
  // The facts of its results are known only when it has run (host ops, regions): what follows is
  // bound after it.
  bool late = false;
  // It follows from states that stay: its results are kept until those change.
  bool once = false;
  bool exchange = false;          // replicas meet here
  bool goes_on = false;           // an exchange that the instructions behind it do not wait for
  std::vector<int> finishes;      // of these, what must have ended before this one runs
  std::vector<int> region_plans;  // indices into Plan::regions
  std::vector<int> cleared;       // results that hold nothing unless its sub-block runs: positions
};

// Instructions bound together. A segment begins where shapes depend on values computed before it.
struct Segment {
  int begin = 0, end = 0;
  std::vector<int> reads_values;  // values whose contents decide shapes in this segment
  std::vector<int> entries;       // values from outside it, whose facts it is bound to
  std::vector<int> inferred;      // values whose facts follow from those
  // Operands that may hold nothing: a block that did not run writes them.
  struct Check {
    int instruction, value;
  };
  std::vector<Check> checks;
  bool by_first = false;  // the first replica runs it for all
};

// When a slot of the frame holds something that is still needed. Segments -1: it has memory of its
// own (a fetch, what a host op makes, what iterations of a region begin with).
struct Lifetime {
  int first_segment = -1, last_segment = -1;
  int first = 0, last = 0;  // instructions, both included; the last may be the end
  // It may stand in the memory of segments [begin, end).
  bool within(int begin, int end) const { return first_segment >= begin && last_segment < end; }
};

class Plan {
 public:
  Graph graph;
  Target target;            // what it was compiled for
  bool has_queues = false;  // some instruction is not the host's
  std::vector<Slot> slots;
  std::vector<int> slot_of;  // by value
  std::vector<Instruction> instructions;
  std::vector<Segment> segments;
  std::vector<Lifetime> lifetimes;  // by slot
  // Of a region that runs again and again, by slot: all iterations of one loop find in it what
  // the first finds. Of a graph whose states stay: most runs find in it what the one before found.
  // Empty elsewhere.
  std::vector<bool> stays_in_loop;

  // After the last instruction: these states take over the value of another slot.
  struct WriteBack {
    int state;
    int value;
    int slot;  // the state's
    bool by_first;
  };
  std::vector<WriteBack> write_backs;
  std::vector<bool> state_must_exist;  // by state: some instruction reads its entry
  bool writes_states = false;
  bool draws_random = false;

  // Region plans. Entry and result slots are tied to slots of this plan by number.
  struct RegionPlan {
    std::unique_ptr<Plan> plan;
    struct Carry {  // after one iteration of the region: outer slot takes the inner value
      int inner_value;
      int outer_slot;
    };
    std::vector<Carry> carries;
    // Values of the region's plan that iterations begin and end with, and slots of this plan.
    struct Port {
      RegionLink::How how;
      int entry = -1, last = -1;
      int from = -1, to = -1, like = -1;
    };
    std::vector<Port> ports;
    struct Load {
      int entry, saved;
    };
    std::vector<Load> loads;
  };
  std::vector<RegionPlan> regions;

  // Values of one type that stand one behind the other, each in a slot of its own.
  struct Bucket {
    DType dtype = DType::float32;
    struct Entry {
      int value;
      int64_t first;  // element
    };
    std::vector<Entry> entries;
    int64_t elements = 0;
  };
  std::vector<Bucket> buckets;
};

// Decides slots and segments, then checks the result (check_plan).
std::unique_ptr<Plan> make_plan(Graph graph, const Target& target);

// Replays the plan and proves, sharing no code with make_plan: every read is written before; no
// instruction writes a slot whose present value is still to be read; feeds are never written; every
// state ends with its last version. An InternalError names the first that fails.
void check_plan(const Plan& plan);

}  // namespace trireme
