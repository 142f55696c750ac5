// One block's way from names to versions; sub-blocks are lowered inside the block that runs them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compile/lower.h"
#include "ir/var_facts.h"

namespace trireme {

// What is left of a sub-block's lowering for the gradient block that belongs to it.
struct LoweredForward {
  std::shared_ptr<Graph> graph;
  std::map<std::string, int> entry;  // versions of outer names when an iteration begins
  std::map<std::string, int> last;   // versions when it ends
  std::set<std::string> written;     // outer names it writes
  // Copies of outer values as they were before the op, which the gradient block brings back.
  std::map<std::string, int> before = {};
  const Graph* outer = nullptr;  // whose values those are
};

// What all blocks of one lowering share.
struct Lowering {
  const LowerRequest& request;
  std::map<int, const Block*> gradients = {};           // by forward block
  std::map<int, LoweredForward> forwards = {};          // by block
  std::map<std::string, const Var*> inner_states = {};  // persistable variables of sub-blocks
};

// An op's operands and results while it is lowered, and how its row sees them.
struct OpOperands {
  OpView view;
  std::vector<int> ins = {};          // values, by position; -1: there is none
  std::vector<ValueInfo> facts = {};  // of these; copies, for the graph's table moves
  std::vector<std::unique_ptr<ValueInfo>> results = {};
  std::vector<std::string> result_names = {};  // by position; empty: nobody wants it
};

class BlockLowering {
 public:
  BlockLowering(const Block& block, Graph& graph, Lowering& shared, BlockLowering* outer);

  void feed(const std::string& name, const FeedFacts& facts);
  void run();
  int fetch(const std::string& name);

 private:
  // Versions and names (lower.cc).
  const int* find(const std::string& name) const;
  const Var* find_var(const std::string& name) const;
  bool is_outer(const std::string& name) const;
  bool of_forward(const std::string& name) const;
  int read(const std::string& name);
  int read(const Var& var, const std::string& name);
  int load(const std::string& name);
  void write(const std::string& name, int value);
  void write(const std::string& name, int value, const std::string& own);
  bool unreadable(const std::string& name) const;
  bool is_written(const std::string& name) const;

  // One op (lower_op.cc).
  void lower_op(const Op& op);
  void read_operands(const Op& op, const OpSchema& schema, OpOperands& operands);
  int zeros_in_place(const Op& op, const OpSchema& schema, const std::string& slot, size_t i);
  void add_results(const Op& op, const OpSchema& schema, OpOperands& operands);
  std::vector<int> emit_op(const Op& op, const OpSchema& schema, std::shared_ptr<const Attrs> attrs,
                           const OpOperands& operands);
  void check_fed(const Op& op) const;
  void check_read(const Op& op) const;
  bool end_lives(const Op& op);
  std::vector<int> held_versions(const Op& op, const OpSchema& schema);
  void update_in_place(const Op& op, const OpSchema& schema, const std::vector<int>& held);

  // Regions (lower_region.cc).
  void lower_region(const Op& op, const OpSchema& schema, std::shared_ptr<const Attrs> attrs,
                    const OpView& view, const std::vector<int>& ins,
                    const std::vector<std::string>& result_names);
  void enter_iterations(const std::vector<RegionLink>& links, Region& region, BlockLowering& inner);
  void leave_iterations(const std::vector<RegionLink>& links, Region& region, BlockLowering& inner,
                        int node);
  void write_outer(const std::string& name, Region& region, BlockLowering& inner, int node,
                   int old);
  int old_version(const std::string& name);
  std::map<std::string, int> copies_before(const Block& forward,
                                           const std::set<std::string>& written);
  int own_copy(int value);

  const Block& block_;
  Graph& graph_;
  Lowering& shared_;
  BlockLowering* outer_;
  const LoweredForward* forward_ = nullptr;  // a gradient block's
  std::set<std::string> linked_;             // names that iterations hand on: this block's own
  std::map<std::string, int> current_;       // the version a name stands for now
  std::map<std::string, int> own_;           // the last version that is the variable's own
  std::set<std::string> deleted_;
  std::map<std::string, size_t> states_;  // index in graph_.states
  std::set<std::string> written_outer_;
  std::map<std::string, int> entry_;  // versions of outer names when an iteration begins
  std::vector<Region::Link> reads_;
  std::vector<Region::Load> loads_;
};

// Extents that two shapes agree on; the others are unknown.
Shape common_extents(const Shape& a, const Shape& b);

}  // namespace trireme
