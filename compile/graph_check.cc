// Checks one graph, and those of its sub-blocks, against the rows of its nodes.
#include "compile/graph_check.h"

#include <set>
#include <utility>

#include "compile/value_operands.h"
#include "core/text.h"

namespace trireme {
namespace {

class GraphChecker {
 public:
  GraphChecker(const Graph& graph, const char* when) : graph_(graph), when_(when) {
    for (const Value& value : graph.values) facts_.push_back(value.info);
    for (ValueInfo& info : facts_) pointers_.push_back(&info);
  }

  void run(const std::set<int>& outer) {
    std::set<int> written = outer;
    for (const auto& feed : graph_.feeds) written.insert(feed.value);
    for (const auto& state : graph_.states) {
      if (state.entry >= 0) written.insert(state.entry);
    }
    written.insert(graph_.given.begin(), graph_.given.end());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      node_ = &graph_.nodes[n];
      check_counts();
      for (int value : node_->ins) {
        if (value >= 0 && !written.contains(value)) complain(cat("reads %", value, " too early"));
      }
      for (const Region& region : node_->regions) check_region(region, written);
      for (int value : node_->outs) {
        if (value < 0) continue;
        if (graph_.values[value].node != static_cast<int>(n)) {
          complain(cat("writes %", value, ", which names node ", graph_.values[value].node));
        }
        if (!written.insert(value).second) complain(cat("writes %", value, " a second time"));
      }
      check_shapes();
    }
    node_ = nullptr;
    for (const auto& fetch : graph_.fetches) needed(written, fetch.value, "fetch " + fetch.name);
    for (int value : graph_.kept) needed(written, value, "a kept value");
    for (int value : graph_.saved) needed(written, value, "a saved value");
    for (const auto& state : graph_.states) {
      if (state.exit >= 0) needed(written, state.exit, "state " + state.name);
    }
  }

 private:
  void check_region(const Region& region, const std::set<int>& written) {
    std::set<int> inner;
    for (const Region::Link& link : region.reads) {
      if (!written.contains(link.outer)) complain(cat("its block reads %", link.outer, " early"));
      inner.insert(link.inner);
    }
    GraphChecker(*region.graph, when_).run(inner);
  }

  // Operands beyond the row's slots only carry order and shared slots.
  void check_counts() const {
    size_t ins = 0, outs = 0;
    for (size_t s = 0; s < node_->in_counts.size(); ++s) {
      const bool list = node_->schema->inputs()[s].duplicable;
      ins += list ? static_cast<size_t>(node_->in_counts[s]) : 1;
    }
    for (size_t s = 0; s < node_->out_counts.size(); ++s) {
      const bool list = node_->schema->outputs()[s].duplicable;
      outs += list ? static_cast<size_t>(node_->out_counts[s]) : 1;
    }
    if (ins > node_->ins.size() || outs > node_->outs.size()) {
      complain("has fewer operands than its slots count");
    }
    for (const auto& [in, out] : node_->shared) {
      if (in >= static_cast<int>(node_->ins.size()) || out >= static_cast<int>(node_->outs.size()))
        complain("shares a slot with an operand it does not have");
    }
  }

  // The row's rule over what is known now must not contradict what the values say.
  void check_shapes() {
    const OpTraits& trait = node_->schema->trait();
    if (!node_->schema->shape_rule() || trait.no_inference || trait.host ||
        !value_operands(*node_).empty() || !node_->regions.empty()) {
      return;
    }
    OpView view = view_of(*node_, pointers_);
    node_->schema->shape_rule()(view);
    for (int value : node_->outs) {
      if (value < 0) continue;
      const ValueInfo& said = graph_.values[value].info;
      const ValueInfo now = std::exchange(facts_[value], said);
      if (now.dtype != said.dtype) complain(cat("gives %", value, " another type"));
      if (!said.known || now.shape.rank() != said.shape.rank()) continue;
      for (int d = 0; d < said.shape.rank(); ++d) {
        if (!now.shape[d].may_equal(said.shape[d])) {
          complain(cat("gives %", value, " the shape ", now.shape, ", not ", said.shape));
        }
      }
    }
  }

  void needed(const std::set<int>& written, int value, const std::string& who) const {
    if (!written.contains(value)) complain(cat(who, " is %", value, ", which nobody writes"));
  }

  [[noreturn]] void complain(const std::string& what) const {
    throw InternalError(
        cat(when_, ": ", node_ ? node_->schema->type() : std::string("the graph"), " ", what));
  }

  const Graph& graph_;
  const char* when_;
  const Node* node_ = nullptr;
  std::vector<ValueInfo> facts_;  // by value
  std::vector<ValueInfo*> pointers_;
};

}  // namespace

void check_graph(const Graph& graph, const char* when) { GraphChecker(graph, when).run({}); }

}  // namespace trireme
