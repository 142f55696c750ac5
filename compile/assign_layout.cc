// Between convolutions images keep the layout that the convolution library works in.
//
// A convolution's results stand with their channels in blocks (ir/decided.h), on devices that want
// channels last in one block; pooling,
// batch_norm and elementwise nodes go on with them so. A value is put back in its plain place just
// before the first node that needs it there. Without this pass every convolution would lay its
// operands out by itself, forwards and backwards.
#include <algorithm>

#include "compile/passes.h"

namespace trireme {
namespace {

bool is_image(const ValueInfo& info) {
  return info.type == VarType::lod_tensor && info.shape.rank() == 4 && info.shape[1].known();
}

std::string text_attr(const Node& node, std::string_view name) {
  const auto it = node.attrs->find(std::string(name));
  return it == node.attrs->end() ? "" : attr_as<std::string>(it->second, name);
}

class Assigner {
 public:
  Assigner(Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        lanes_(target.lanes),
        blocked_(graph.values.size(), -1),
        plain_(graph.values.size(), true) {}

  bool run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    bool changed = false;
    for (Node& node : old) {
      // Behind the sums of replicas the first works for all: each lays its own results out before.
      if (node.schema->trait().exchange != Exchange::none) plain_results();
      if (rewrite(node)) {
        changed = true;
      } else {
        need_plain(node);
      }
      graph_.nodes.push_back(std::move(node));
    }
    plain_results();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int value : graph_.nodes[n].outs) {
        if (value >= 0) graph_.values[value].node = static_cast<int>(n);
      }
    }
    return changed;
  }

 private:
  const ValueInfo& info(int value) const { return graph_.values[value].info; }

  // Of images whose layout is decided here.
  bool takes(DType dtype) const {
    const bool half = dtype == DType::float16 || dtype == DType::bfloat16;
    if (!target_.channel_last) return dtype == DType::float32;
    return half || (dtype == DType::float32 && target_.rounds_float);
  }

  // Products of rounded operands go eight channels at a time; images of few channels are widened.
  static bool fits_products(int64_t image, int64_t map) {
    return map % 8 == 0 && (image % 8 == 0 || image <= 4);
  }

  // One vector's worth of channels; all of them where that leaves a rest. Fewer stay plain.
  int64_t block_for(int64_t channels) const {
    if (target_.channel_last) return channels;
    return channels < lanes_ ? 0 : channels % lanes_ == 0 ? lanes_ : channels;
  }

  bool rewrite(Node& node) {
    if (!node.regions.empty() || !node.shared.empty()) return false;
    const OpTraits& trait = node.schema->trait();
    if (trait.tile) return rewrite_elementwise(node);
    switch (trait.images) {
      case BlockedImages::no:
        return false;
      case BlockedImages::any:
        return rewrite_elementwise(node);
      case BlockedImages::makes:
        return text_attr(node, trait.layout_attr) != "NHWC" && rewrite_conv(node);
      case BlockedImages::follows:
        return text_attr(node, trait.layout_attr) != "NHWC" && rewrite_follower(node, "X");
    }
    return false;
  }

  static int position(const std::vector<SlotSpec>& slots, std::string_view name) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }
  // Rows in question have no lists: positions are those of the slots.
  int* in(Node& node, std::string_view slot) const {
    const int at = position(node.schema->inputs(), slot);
    return at < 0 || node.ins[at] < 0 ? nullptr : &node.ins[at];
  }
  int* out(Node& node, std::string_view slot) const {
    const int at = position(node.schema->outputs(), slot);
    return at < 0 || node.outs[at] < 0 ? nullptr : &node.outs[at];
  }

  bool rewrite_conv(Node& node) {
    if (in(node, "ResidualData") && !node.decided.stays) return false;
    if (in(node, "Bias") && out(node, "Bias@GRAD")) return false;
    int* input = in(node, "Input");
    int* filter = in(node, "Filter");
    const Shape& window = info(*filter).shape;
    if (!is_image(info(*input)) || window.rank() != 4 || !window[0].known() ||
        !takes(info(*input).dtype) || info(*filter).dtype != info(*input).dtype) {
      return false;
    }
    const int64_t image = block_for(info(*input).shape.at(1)), map = block_for(window.at(0));
    if (image == 0 && map == 0) return false;
    const int groups = attr_as<int>(node.attrs->at("groups"), "groups");
    if (target_.channel_last && (groups != 1 || !fits_products(image, map))) return false;
    if (groups != 1) {  // depthwise, each block of channels goes by itself
      const bool depthwise = window[1] == Dim(1) && window[0] == Dim(groups);
      if (!depthwise || groups % lanes_ != 0) return false;
    }
    take(node, input, image);
    take(node, in(node, "Output@GRAD"), map);
    take(node, in(node, "ResidualData"), map);
    give(out(node, "Output"), map);
    give(out(node, "Input@GRAD"), image);
    node.decided.blocks = {image, map};
    return true;
  }

  // Ops over one image that go on with blocks where they find them.
  bool rewrite_follower(Node& node, std::string_view main) {
    const int image = *in(node, main);
    if (!is_image(info(image)) || !takes(info(image).dtype) || blocked_[image] < 0) {
      return false;
    }
    const int64_t block = block_for(info(image).shape.at(1));
    for (int& value : node.ins) {
      if (value >= 0 && is_image(info(value))) take(node, &value, block);
    }
    for (int& value : node.outs) {
      if (value >= 0 && is_image(info(value))) give(&value, block);
    }
    node.decided.blocks = {block, block};
    return true;
  }

  // Images of equal channels and single numbers only; pays where an image would have to be put
  // back otherwise.
  bool rewrite_elementwise(Node& node) {
    bool pays = false;
    int64_t channels = 1;
    const auto is_number = [&](int value) { return info(value).shape.numel() == Dim(1); };
    for (int value : node.ins) {
      if (value < 0) return false;
      if (is_number(value)) continue;
      if (!is_image(info(value))) return false;
      const int64_t own = info(value).shape.at(1);
      if (own != 1 && channels != 1 && own != channels) return false;
      channels = std::max(channels, own);
      pays |= !plain_[value];
    }
    const int64_t block = block_for(channels);
    if (!pays || block == 0 || node.outs.size() != 1 || !is_image(info(node.outs[0])) ||
        info(node.outs[0]).shape.at(1) != channels) {
      return false;
    }
    for (int& value : node.ins) {
      if (!is_number(value)) take(node, &value, info(value).shape.at(1) == 1 ? 1 : block);
    }
    give(&node.outs[0], block);
    return true;
  }

  std::shared_ptr<const Origin> origin_of(const Node& user, const char* what) const {
    auto made = user.origin ? std::make_shared<Origin>(*user.origin) : std::make_shared<Origin>();
    made->op_type = what;
    return made;
  }

  int add_blocked(int value, int64_t block) {
    ValueInfo made = info(value);
    made.shape[1] = made.shape[1] / Dim(block);
    made.shape.push_back(Dim(block));
    blocked_.resize(graph_.values.size() + 1, -1);
    plain_.resize(graph_.values.size() + 1, true);
    blocked_[value] = graph_.add_value(std::move(made));
    return blocked_[value];
  }

  Node conversion(const char* primitive, int from, int to, Attrs attrs,
                  std::shared_ptr<const Origin> origin) const {
    Node node;
    node.schema = &op_table().get(primitive);
    node.attrs = std::make_shared<const Attrs>(std::move(attrs));
    node.ins = {from};
    node.outs = {to};
    node.in_counts = node.out_counts = {1};
    node.origin = std::move(origin);
    return node;
  }

  // The operand in blocks; 0: plain.
  void take(const Node& user, int* value, int64_t block) {
    if (!value) return;
    if (block == 0) return plain(*value, &user);
    if (blocked_[*value] < 0) {
      const int from = *value;
      const int to = add_blocked(from, block);
      graph_.nodes.push_back(conversion("p.to_blocks", from, to,
                                        {{"block", static_cast<int32_t>(block)}},
                                        origin_of(user, "to_blocks")));
    }
    *value = blocked_[*value];
  }

  // The result is made in blocks; it has no plain place until somebody asks for it.
  void give(int* value, int64_t block) {
    if (!value || block == 0) return;
    const int own = *value;
    *value = add_blocked(own, block);
    plain_[own] = false;
  }

  void plain(int value, const Node* user = nullptr) {
    if (value < 0 || plain_[value]) return;
    plain_[value] = true;
    graph_.nodes.push_back(
        conversion("p.from_blocks", blocked_[value], value, {},
                   user ? origin_of(*user, "from_blocks") : std::make_shared<Origin>()));
  }

  // What others see when the graph has run, as far as it is made by now.
  void plain_results() {
    for (const auto& fetch : graph_.fetches) plain(fetch.value);
    for (const auto& state : graph_.states) plain(state.exit);
    for (int value : graph_.kept) plain(value);
    for (int value : graph_.saved) plain(value);
  }

  void need_plain(const Node& node) {
    for (int value : node.ins) plain(value, &node);
    for (const Region& region : node.regions) {
      for (const auto& link : region.reads) plain(link.outer, &node);
      for (int value : region.writes) plain(value, &node);
      for (const auto& port : region.ports) {
        plain(port.from, &node);
        plain(port.like, &node);
      }
    }
  }

  Graph& graph_;
  const Target& target_;
  int64_t lanes_;
  std::vector<int> blocked_;  // by value: the one that holds it in blocks, or -1
  std::vector<bool> plain_;   // by value: whether it is where the program has it
};

}  // namespace

bool assign_layout(Graph& graph, const Target& target) {
  return (target.blocked_images || target.channel_last) && Assigner(graph, target).run();
}

}  // namespace trireme
