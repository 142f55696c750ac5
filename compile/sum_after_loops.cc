// Gradients of weights that a loop multiplies by: one product over the rows of all iterations,
// behind the loop, instead of one per iteration and its sum.
#include <algorithm>
#include <map>
#include <set>

#include "compile/passes.h"

namespace trireme {
namespace {

using How = RegionLink::How;

// Of an iteration where they are not known.
constexpr int64_t kUsualRows = 64;

// The row of the product whose gradient this is; null: it is none.
const OpSchema* product_behind(const Node& gradient) {
  const OpSchema* forward = gradient.schema->forward();
  return forward && forward->trait().product ? forward : nullptr;
}

bool is_matrix(const ValueInfo& info) {
  return info.type == VarType::lod_tensor && is_floating(info.dtype) && info.shape.rank() == 2 &&
         info.shape[1].known();
}

class AfterLoop {
 public:
  AfterLoop(Graph& graph, int loop)
      : graph_(graph), loop_(loop), region_(graph.nodes[loop].regions[0]), inner_(*region_.graph) {}

  // The products, in order.
  std::vector<Node> take() {
    for (size_t p = 0; p < region_.ports.size(); ++p) {
      if (const int product = product_of(region_.ports[p]); product >= 0) move_out(p, product);
    }
    std::erase_if(region_.ports, [](const Region::Port& port) {
      return port.how == How::sum && port.last < 0 && port.to < 0;
    });
    region_.ports.insert(region_.ports.begin(), gathered_.begin(), gathered_.end());
    std::vector<bool> keep;
    for (const Node& node : inner_.nodes) {
      const auto has_result = [](const std::vector<int>& outs) {
        return std::any_of(outs.begin(), outs.end(), [](int value) { return value >= 0; });
      };
      keep.push_back(!moved_from_.contains(&node) || has_result(node.outs));
    }
    inner_.keep_nodes(keep);
    return std::move(products_);
  }

 private:
  // The node inside whose second gradient is all that the port adds up; -1: there is none, or it
  // stays.
  int product_of(const Region::Port& port) const {
    if (port.how != How::sum || port.last < 0 || port.to < 0 || port.like < 0) return -1;
    const int value = inner_.kept[port.last];
    const int index = inner_.values[value].node;
    if (index < 0 || times_used(value) != 1) return -1;
    const Node& node = inner_.nodes[index];
    const OpSchema* product = product_behind(node);
    if (!product || !is_second_gradient(node, value)) return -1;
    const std::string& turns_x = product->trait().turns_x;
    if (!turns_x.empty() && attr_as<bool>(node.attrs->at(turns_x), turns_x)) return -1;
    const int x = operand(node, "X"), y = operand(node, "Y"), arriving = operand(node, "Out@GRAD");
    if (x < 0 || y < 0 || arriving < 0) return -1;
    const bool only_these = std::all_of(node.ins.begin(), node.ins.end(), [&](int in) {
      return in < 0 || in == x || in == y || in == arriving;
    });
    if (!only_these || x == y || x == arriving || y == arriving) return -1;
    if (!is_read(y, port.like) || is_read(x, -1)) return -1;
    return pays(inner_.info(x), inner_.info(y), inner_.info(arriving)) ? index : -1;
  }

  static int operand(const Node& node, const char* slot) {
    const int at = operand_position(node, slot);
    return at < 0 ? -1 : node.ins[at];
  }

  static bool is_second_gradient(const Node& node, int value) {
    const int at = result_position(node, "Y@GRAD");
    return at >= 0 && node.outs[at] == value;
  }

  // Every iteration sees this outer value under the number; any outer value: -1.
  bool is_read(int value, int outer) const {
    return std::any_of(region_.reads.begin(), region_.reads.end(), [&](const Region::Link& link) {
      return link.inner == value && (outer < 0 || link.outer == outer);
    });
  }

  int64_t times_used(int value) const {
    const auto count = [value](const std::vector<int>& values) {
      return std::count(values.begin(), values.end(), value);
    };
    int64_t uses = count(inner_.kept) + count(inner_.saved);
    for (const Node& node : inner_.nodes) uses += count(node.ins);
    return uses;
  }

  // Gathering an iteration's rows moves less memory than adding its gradient to the sum.
  static bool pays(const ValueInfo& x, const ValueInfo& y, const ValueInfo& arriving) {
    if (!is_matrix(x) || !is_matrix(y) || !is_matrix(arriving) || !y.shape.known()) return false;
    const int64_t rows = x.shape[0].known() ? x.shape.at(0) : kUsualRows;
    return y.shape.count() > rows * (x.shape.at(1) + arriving.shape.at(1));
  }

  void move_out(size_t p, int index) {
    Node& node = inner_.nodes[index];
    const Region::Port port = region_.ports[p];
    const int x = operand(node, "X"), y = operand(node, "Y"), arriving = operand(node, "Out@GRAD");
    node.outs[result_position(node, "Y@GRAD")] = -1;
    moved_from_.insert(&node);
    // Its position among what iterations leave stays taken: others are counted by theirs.
    inner_.kept[port.last] = x;
    region_.ports[p].last = region_.ports[p].to = -1;

    Node product = node;
    product.may_share.clear();
    product.may_overwrite.clear();
    product.outs.assign(product.outs.size(), -1);
    product.outs[result_position(node, "Y@GRAD")] = port.to;
    for (int& in : product.ins) {
      if (in >= 0) in = in == y ? port.like : rows_of_all(in == x ? x : arriving);
    }
    products_.push_back(std::move(product));
    std::vector<int>& outs = graph_.nodes[loop_].outs;
    *std::find(outs.begin(), outs.end(), port.to) = -1;
  }

  // The outer value that the iterations' rows of an inner one are gathered in.
  int rows_of_all(int value) {
    const auto found = all_.find(value);
    if (found != all_.end()) return found->second;
    ValueInfo info = inner_.info(value);
    info.shape[0] = Dim();
    info.lod_level = 0;
    info.name.clear();
    const int outer = graph_.add_value(std::move(info), loop_);
    graph_.nodes[loop_].outs.push_back(outer);
    gathered_.push_back({.how = How::append, .last = static_cast<int>(inner_.kept.size())});
    gathered_.back().to = outer;
    inner_.kept.push_back(value);
    all_[value] = outer;
    return outer;
  }

  Graph& graph_;
  int loop_;
  Region& region_;
  Graph& inner_;
  std::set<const Node*> moved_from_;
  std::map<int, int> all_;  // inner -> outer
  std::vector<Region::Port>
      gathered_;  // read before other ports change what an iteration began with
  std::vector<Node> products_;
};

}  // namespace

bool sum_after_loops(Graph& graph, const Target&) {
  std::vector<Node> nodes;
  bool changed = false;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    std::vector<Node> products;
    const Node& loop = graph.nodes[n];
    if (loop.regions.size() == 1 && !loop.schema->trait().once) {
      products = AfterLoop(graph, static_cast<int>(n)).take();
    }
    changed |= !products.empty();
    nodes.push_back(std::move(graph.nodes[n]));
    for (Node& product : products) nodes.push_back(std::move(product));
  }
  graph.nodes = std::move(nodes);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (int value : graph.nodes[n].outs) {
      if (value >= 0) graph.values[value].node = static_cast<int>(n);
    }
  }
  return changed;
}

}  // namespace trireme
