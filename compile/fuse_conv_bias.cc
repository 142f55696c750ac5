// conv2d takes over the bias and the relu behind it: each image gets them while it is in the cache.
// Where parameters stay it also takes over what is added between the two (fold_for_inference).
#include <algorithm>

#include "compile/equal_shapes.h"
#include "compile/passes.h"

namespace trireme {
namespace {

class BiasFuser {
 public:
  BiasFuser(Graph& graph, const Target& target)
      : graph_(graph),
        lanes_(target.blocked_images ? target.lanes : 0),
        shapes_(graph),
        uses_(graph.values.size(), 0),
        keep_(graph.nodes.size(), true) {
    for (const Node& node : graph.nodes) {
      for (int value : node.ins) use(value);
      for (const Region& region : node.regions) {
        for (const auto& link : region.reads) use(link.outer);
        for (const auto& port : region.ports) {
          use(port.from);
          use(port.like);
        }
      }
    }
    for (const auto& fetch : graph.fetches) use(fetch.value);
    for (const auto& state : graph.states) use(state.exit);
    for (int value : graph.kept) use(value);
    for (int value : graph.saved) use(value);
  }

  bool run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) take_over(n);
    return graph_.keep_nodes(keep_);
  }

 private:
  void use(int value) {
    if (value >= 0) ++uses_[value];
  }
  // The node that makes a value for one reader alone.
  int sole(int value) const { return uses_[value] == 1 ? graph_.values[value].node : -1; }
  bool is(int node, std::string_view type) const {
    return node >= 0 && graph_.nodes[node].schema->type() == type &&
           graph_.nodes[node].shared.empty();
  }

  // A convolution that takes a bias: conv2d, and depthwise where parameters stay.
  bool is_conv(int node) const {
    return is(node, "conv2d") || (is(node, "depthwise_conv2d") && graph_.nodes[node].decided.stays);
  }

  // The vector that p.align has put at the channels of an image; -1: it is something else.
  int bias_behind(int value, const Shape& image) const {
    const int node = value < 0 ? -1 : graph_.values[value].node;
    if (!is(node, "p.align")) return -1;
    const int vector = graph_.nodes[node].ins[0];
    const ValueInfo& info = graph_.values[vector].info;
    const bool fits = info.type == VarType::lod_tensor && info.dtype == DType::float32 &&
                      image.rank() == 4 && image[1].known() && info.shape == Shape{image[1]} &&
                      graph_.values[value].info.shape == Shape{1, image[1], 1, 1};
    return fits ? vector : -1;
  }

  bool is_zero(int value) const {
    const int node = value < 0 ? -1 : graph_.values[value].node;
    return is(node, "p.constant") &&
           attr_as<double>(graph_.nodes[node].attrs->at("value"), "value") == 0;
  }

  void take_over(size_t n) {
    const Node& node = graph_.nodes[n];
    const auto here = static_cast<int>(n);
    if (is(here, "p.add")) {
      if (add_residual(n)) return;
      const int conv = sole(node.ins[0]);
      if (!is_conv(conv)) return;
      const Node& made = graph_.nodes[conv];
      if (made.ins[kBias] >= 0 || made.ins[kResidual] >= 0) return;
      const int bias = bias_behind(node.ins[1], graph_.values[made.outs[0]].info.shape);
      if (bias < 0 || graph_.values[made.outs[0]].info.dtype != DType::float32) return;
      Node joined = made;
      joined.ins[kBias] = bias;
      joined.in_counts[kBias] = 1;
      replace(conv, here, std::move(joined));
    } else if (is(here, "p.max") && is_zero(node.ins[1])) {
      const int conv = sole(node.ins[0]);
      if (!is_conv(conv) || graph_.nodes[conv].decided.relu) return;
      if (graph_.nodes[conv].ins[kBias] < 0 && !graph_.nodes[conv].decided.stays) return;
      if (graph_.values[node.outs[0]].info.dtype != DType::float32) return;
      Node joined = graph_.nodes[conv];
      joined.decided.relu = true;
      replace(conv, here, std::move(joined));
    }
  }

  // The sum of two images, one of which a convolution makes for it alone: of two such the later
  // one, so that the other is there by then.
  bool add_residual(size_t n) {
    const Node& add = graph_.nodes[n];
    if (add.ins.size() != 2 || add.ins[0] == add.ins[1]) return false;
    if (!shapes_.same(add.ins[0], add.ins[1])) return false;
    int taken = -1, residual = -1;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const int conv = sole(add.ins[side]);
      if (!fits_residual(conv) || conv < taken) continue;
      taken = conv;
      residual = add.ins[1 - side];
    }
    if (taken < 0 || graph_.info(residual).type != VarType::lod_tensor ||
        graph_.info(residual).dtype != DType::float32) {
      return false;
    }
    Node joined = graph_.nodes[taken];
    joined.ins[kResidual] = residual;
    joined.in_counts[kResidual] = 1;
    if (residual != joined.ins[kInput]) joined.may_overwrite.emplace_back(kResidual, 0);
    replace(taken, static_cast<int>(n), std::move(joined));
    return true;
  }

  // Only of whole blocks of channels: others have no kernel that adds it.
  bool fits_residual(int node) const {
    if (!is(node, "conv2d") || !graph_.nodes[node].decided.stays || lanes_ != 16) return false;
    const Node& conv = graph_.nodes[node];
    if (conv.ins[kResidual] >= 0 || conv.decided.relu) return false;
    const ValueInfo &image = graph_.info(conv.ins[kInput]), &map = graph_.info(conv.outs[0]);
    return attr_as<int>(conv.attrs->at("groups"), "groups") == 1 && map.dtype == DType::float32 &&
           image.shape.rank() == 4 && map.shape.rank() == 4 && image.shape[1].known() &&
           map.shape[1].known() && image.shape.at(1) % lanes_ == 0 && map.shape.at(1) % lanes_ == 0;
  }

  // `conv` goes; `joined` stands where the node was that it takes over, and makes its result.
  void replace(int conv, int taken, Node joined) {
    Node& replaced = graph_.nodes[taken];
    if (joined.origin && replaced.origin) {
      auto origin = std::make_shared<Origin>(*joined.origin);
      origin->op_type += "+" + replaced.origin->op_type;
      joined.origin = std::move(origin);
    }
    joined.outs = replaced.outs;
    replaced = std::move(joined);
    keep_[conv] = false;
  }

  // Positions of conv2d's operands: the row has no lists.
  static constexpr size_t kInput = 0, kBias = 2, kResidual = 3;

  Graph& graph_;
  int lanes_;
  EqualShapes shapes_;
  std::vector<int> uses_;  // by value
  std::vector<bool> keep_;
};

}  // namespace

bool fuse_conv_bias(Graph& graph, const Target& target) { return BiasFuser(graph, target).run(); }

}  // namespace trireme
