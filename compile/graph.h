// L1: one compilation's graph. Every value is written once; names have become numbers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// Where a node came from: enough to explain an error after the program has been edited or is gone.
struct Origin {
  std::string op_type;
  const OpSchema* row = nullptr;  // of the program's op that it was lowered from
  SourceLine line;
  int role = 0;
  int block = -1, op = -1;  // where the op stands in that program
  std::string recompute;    // set on ops that compute a forward value again to save memory
};

struct Value {
  ValueInfo info;          // what is known while compiling; extents may be unknown
  int node = -1;           // who writes it; -1: a feed, a state's entry or a region's outer value
  bool on_device = false;  // its memory is the target device's; else the host's (place_values)
};

class Graph;

// A sub-block. Values of the outer graph that it reads or writes stand on both sides by number.
struct Region {
  std::shared_ptr<Graph> graph;
  struct Link {
    int inner;
    int outer;
  };
  std::vector<Link> reads;  // outer value -> the inner value that stands for it
  std::vector<int> writes;  // outer values; the inner ones lead the graph's `kept`, in this order

  // What iterations hand on (RegionLink). `entry` and `last` count in the inner graph's `given` and
  // `kept`; the others are outer values. -1: there is none.
  struct Port {
    RegionLink::How how;
    int entry = -1, last = -1;
    int from = -1, to = -1, like = -1;
  };
  std::vector<Port> ports;
  // A gradient's: given[entry] is saved[saved] of the forward iteration.
  struct Load {
    int entry, saved;
  };
  std::vector<Load> loads;
};

struct Node {
  const OpSchema* schema = nullptr;
  std::shared_ptr<const Attrs> attrs;
  Decided decided;                         // by passes, for the kernel
  bool on_device = false;                  // runs on the target device; else on the host
  bool by_first = false;                   // the first replica runs it for all of them
  std::vector<int> ins, outs;              // by position; -1 where an optional operand is absent
  std::vector<int> in_counts, out_counts;  // operands per slot of the row; 0 where absent
  std::shared_ptr<const Origin> origin;
  std::vector<Region> regions;
  // Results that must share an operand's slot: (operand position, result position).
  std::vector<std::pair<int, int>> shared;
  // Beside the row's pairs: results that may take an operand's memory, by position. The first are
  // versions of one variable; the others are for when shapes are known, and if they are equal.
  std::vector<std::pair<int, int>> may_share, may_overwrite;
  // What a fused node stands for, in order: facts are inferred part by part.
  std::vector<Node> parts;
  // Of a p.group: nodes of this graph's values that run as one instruction. Each is inferred and
  // bound by itself; no two of them touch what one of them writes.
  std::vector<Node> members;
};

class Graph : public Emitter {
 public:
  struct Named {
    std::string name;
    int value;
  };
  // A variable that outlives the run. entry -1: only written; exit -1 or equal to entry: only read.
  struct State {
    std::string name;
    int entry = -1;
    int exit = -1;
  };

  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Named> feeds;
  std::vector<State> states;
  std::vector<Named> fetches;
  // No run writes states, and they seldom change: what follows from them alone is kept from run to
  // run.
  bool states_stay = false;
  std::vector<int> kept;  // values that outlive the graph in other ways: a region's results
  // A replica's graph only (make_replica). Gradients of a bucket stand one behind the other.
  bool replicated = false;
  bool across_processes = false;  // some of the replicas are in other processes
  std::vector<std::vector<int>> buckets;
  // Regions only.
  std::vector<int> given;  // values put in place before each iteration
  std::vector<int> saved;  // values kept from each iteration for the gradient
  // A gradient counts the iterations, even where it reads no value of them.
  bool saves_iterations = false;

  // By value: whether somebody sees it when all nodes have run.
  std::vector<bool> outliving() const;
  // Drops the nodes whose bit is not set; true when there were any. Values keep their numbers.
  bool keep_nodes(const std::vector<bool>& keep);
  int add_value(ValueInfo info, int node = -1);
  // Appends a node; its results are new values with the facts of `outs`.
  Node& add_node(const OpSchema& schema, std::shared_ptr<const Attrs> attrs, const OpView& view,
                 const std::vector<int>& ins);

  std::vector<int> emit(std::string_view primitive, const std::vector<int>& inputs,
                        Attrs attrs) override;
  Operands emit_op(std::string_view type, const Operands& operands, Attrs attrs,
                   const Wanted& wanted) override;
  const ValueInfo& info(int value) const override { return values[value].info; }

  std::shared_ptr<const Origin> origin;  // given to the nodes being added

  std::string to_text() const;  // one line per node, for tests and dumps
};

// Where the one operand or result of a slot stands; -1 when there is none, or more than one.
int operand_position(const Node& node, const std::string& slot);
int result_position(const Node& node, const std::string& slot);

// Operands whose memory a result may take, if nobody reads them afterwards: (operand position,
// result position).
std::vector<std::pair<int, int>> in_place_pairs(const Node& node);

// It runs on the caller, has sub-blocks or must stay where it is: no pass moves a node past it.
bool is_barrier(const Node& node);

// The values that it reads become others, also where its sub-blocks, parts and members read them.
void map_operands(Node& node, const std::function<int(int)>& map);

// A view of a node over any table of facts (the graph's own, or a binding's).
OpView view_of(const Node& node, const std::vector<ValueInfo*>& facts);

// Adds op name, operands with their facts, and the user's line to an error met at this node.
Error& add_node_context(Error& error, const Node& node, const std::vector<ValueInfo*>& facts);

}  // namespace trireme
