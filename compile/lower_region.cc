// Lowering of ops that own a sub-block: its border, what its iterations hand on, what its gradient
// needs.
#include <algorithm>

#include "compile/block_lowering.h"
#include "core/text.h"

namespace trireme {

Shape common_extents(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return a;
  Shape both = a;
  for (int i = 0; i < a.rank(); ++i) {
    if (!(a[i] == b[i])) both[i] = Dim();
  }
  return both;
}

// A value of the forward block, as it was in the iteration that this one is the gradient of. Local
// names stand for their last version. Names outside that each iteration changes stand for the
// version it began with, unless this block undoes the change itself, step by step (a counter that
// is counted down), or no op of the block reads the first version.
int BlockLowering::load(const std::string& name) {
  const auto entry = forward_->entry.find(name);
  const auto last = forward_->last.find(name);
  const std::vector<Op*> ops = block_.ops();
  const bool undone = std::any_of(ops.begin(), ops.end(), [&](const Op* op) {
    const auto names = op->output_names();
    return std::find(names.begin(), names.end(), name) != names.end();
  });
  const bool first = entry != forward_->entry.end() && !undone;
  if (!first && last == forward_->last.end()) {
    throw Error(ErrorKind::precondition,
                cat("it reads ", name, ", which the forward block ", block_.forward_index(),
                    " declares and no op of it writes"));
  }
  const int value = first ? entry->second : last->second;
  Graph& from = *forward_->graph;
  auto saved = std::find(from.saved.begin(), from.saved.end(), value);
  if (saved == from.saved.end()) saved = from.saved.insert(saved, value);

  ValueInfo info = from.values[value].info;
  info.name = name;
  const int inner = graph_.add_value(std::move(info));
  loads_.push_back(
      {static_cast<int>(graph_.given.size()), static_cast<int>(saved - from.saved.begin())});
  graph_.given.push_back(inner);
  current_[name] = inner;
  return inner;
}

// What iterations find in place when they begin.
void BlockLowering::enter_iterations(const std::vector<RegionLink>& links, Region& region,
                                     BlockLowering& inner) {
  for (const RegionLink& link : links) {
    if (!link.entry.empty()) inner.linked_.insert(link.entry);
    if (!link.last.empty()) inner.linked_.insert(link.last);
  }
  for (const RegionLink& link : links) {
    Region::Port port;
    port.how = link.how;
    // Where `like` says how it begins, an array that nobody wrote is none that arrives.
    const bool arrives = link.like.empty() || is_written(link.from);
    if (!link.from.empty() && arrives && !unreadable(link.from)) port.from = read(link.from);
    const bool modelled = port.from < 0 && !link.like.empty() && !unreadable(link.like);
    if (modelled) port.like = read(link.like);
    // Rows of a gradient that is named and that nobody computed: inside there is none either.
    const bool rows_of_nothing = link.how == RegionLink::How::slice && port.from < 0;
    if (!link.entry.empty() && !rows_of_nothing) {
      const int model = port.from >= 0 ? port.from : port.like;
      const Var* var = inner.find_var(link.entry);
      ValueInfo info;
      if (model >= 0) {
        info = graph_.values[model].info;
      } else if (var) {
        info.type = var->type();
        info.dtype = var->dtype();
        info.shape = var->shape();
      }
      if (link.how == RegionLink::How::slice) {
        Shape row;
        for (int i = 1; i < info.shape.rank(); ++i) row.push_back(info.shape[i]);
        info.shape = row;
        info.lod_level = 0;
      } else if (var && link.last != link.entry) {
        info.shape = common_extents(info.shape, var->shape());
      }
      info.name = link.entry;
      const int value = inner.graph_.add_value(std::move(info));
      port.entry = static_cast<int>(inner.graph_.given.size());
      inner.graph_.given.push_back(value);
      inner.current_[link.entry] = value;
    }
    region.ports.push_back(port);
  }
}

// What iterations leave: versions inside at the end of one, and the op's results outside.
void BlockLowering::leave_iterations(const std::vector<RegionLink>& links, Region& region,
                                     BlockLowering& inner, int index) {
  for (size_t i = 0; i < links.size(); ++i) {
    const RegionLink& link = links[i];
    Region::Port& port = region.ports[i];
    const int* found = link.last.empty() ? nullptr : inner.find(link.last);
    int last = found ? *found : -1;
    if (last >= 0) {
      const int entry = port.entry < 0 ? -1 : inner.graph_.given[port.entry];
      if (last != entry) last = inner.own_copy(last);
      port.last = static_cast<int>(inner.graph_.kept.size());
      inner.graph_.kept.push_back(last);
    }
    for (int operand : {port.from, port.like}) {
      if (operand >= 0) graph_.nodes[index].ins.push_back(operand);
    }
    const int model = port.from >= 0 ? port.from : port.like;
    if (link.to.empty() || (last < 0 && model < 0)) continue;
    ValueInfo info = last >= 0 ? inner.graph_.values[last].info : graph_.values[model].info;
    if (link.how == RegionLink::How::stack) {
      Shape rows;
      rows.push_back(Dim());
      for (int d = 0; d < info.shape.rank(); ++d) rows.push_back(info.shape[d]);
      info.shape = rows;
    }
    info.name = link.to;
    port.to = graph_.add_value(std::move(info), index);
    graph_.nodes[index].outs.push_back(port.to);
    write(link.to, port.to);
  }
}

// The version of a name that will be overwritten in its slot, or -1. A feed is not ours to write,
// and a value that has a second name keeps it: both are copied first.
int BlockLowering::old_version(const std::string& name) {
  if (unreadable(name)) return -1;
  const int value = read(name);
  if (graph_.values[value].info.type != VarType::lod_tensor) return value;
  const bool fed = std::any_of(graph_.feeds.begin(), graph_.feeds.end(),
                               [&](const Graph::Named& feed) { return feed.value == value; });
  const auto names = std::count_if(current_.begin(), current_.end(),
                                   [&](const auto& entry) { return entry.second == value; });
  if (!fed && names <= 1) return value;
  const int copy = graph_.emit("p.identity", {value}, {}).front();
  graph_.values[copy].info.name = name;
  current_[name] = copy;
  return copy;
}

// Results of an iteration are handed out one by one. One that is what it began with under another
// name would be overwritten meanwhile, so it is copied.
int BlockLowering::own_copy(int value) {
  const bool begun_with = graph_.values[value].node < 0;
  if (!begun_with || graph_.values[value].info.type != VarType::lod_tensor) return value;
  return graph_.emit("p.identity", {value}, {}).front();
}

// A variable outside that iterations write: a new version, in the slot of the old one if there is
// one.
void BlockLowering::write_outer(const std::string& name, Region& region, BlockLowering& inner,
                                int index, int old) {
  const auto entry = inner.entry_.find(name);
  int result = inner.current_.at(name);
  if (entry == inner.entry_.end() || entry->second != result) result = inner.own_copy(result);
  ValueInfo info = inner.graph_.values[result].info;
  info.name = name;
  if (old >= 0) info.shape = common_extents(info.shape, graph_.values[old].info.shape);
  const int value = graph_.add_value(std::move(info), index);
  Node& node = graph_.nodes[index];
  // Operands and results beyond the row's slots: they only carry the order and the shared slot.
  node.outs.push_back(value);
  if (old >= 0) {
    node.ins.push_back(old);
    node.shared.emplace_back(static_cast<int>(node.ins.size()) - 1,
                             static_cast<int>(node.outs.size()) - 1);
  }
  region.writes.push_back(value);
  inner.graph_.kept.push_back(result);
  write(name, value);
}

// A gradient block of the original counts a loop's counter back, step by step: who reads it behind
// the gradient finds what it was before the loop. That version's slot goes to the loop's own.
std::map<std::string, int> BlockLowering::copies_before(const Block& forward,
                                                        const std::set<std::string>& written) {
  const auto gradient = shared_.gradients.find(forward.index());
  if (gradient == shared_.gradients.end()) return {};
  std::map<std::string, int> copies;
  for (const Op* op : gradient->second->ops()) {
    for (const std::string& name : op->output_names()) {
      if (!written.contains(name) || copies.contains(name) || unreadable(name)) continue;
      const int value = read(name);
      if (graph_.values[value].info.type != VarType::lod_tensor) continue;
      copies[name] = graph_.emit("p.identity", {value}, {}).front();
      graph_.values[copies[name]].info.name = name;
    }
  }
  return copies;
}

// An op that owns a sub-block. What the sub-block reads from outside joins the op's operands; what
// it writes outside becomes new versions that share the old ones' slots.
void BlockLowering::lower_region(const Op& op, const OpSchema& schema,
                                 std::shared_ptr<const Attrs> attrs, const OpView& view,
                                 const std::vector<int>& ins,
                                 const std::vector<std::string>& result_names) {
  const Block& sub_block = *op.sub_block();
  const auto inner_graph = std::make_shared<Graph>();
  BlockLowering inner(sub_block, *inner_graph, shared_, this);
  if (sub_block.forward_index() >= 0) {
    const auto forward = shared_.forwards.find(sub_block.forward_index());
    if (forward == shared_.forwards.end()) {
      throw Error(ErrorKind::precondition,
                  cat("it is the gradient of block ", sub_block.forward_index(),
                      ", which no op before it runs"))
          .fix("keep the forward op and its gradient in one program");
    }
    forward->second.graph->saves_iterations = true;
  }
  Region region;
  region.graph = inner_graph;
  const std::vector<RegionLink> links =
      schema.region_rule() ? schema.region_rule()(op) : std::vector<RegionLink>{};
  enter_iterations(links, region, inner);
  inner.run();

  const std::map<std::string, int> before = copies_before(sub_block, inner.written_outer_);

  // Old versions first: copies of them stand before the op.
  std::map<std::string, int> old;
  std::vector<int> operands = ins;
  for (const std::string& name : inner.written_outer_) {
    const int* before = find(name);
    const int replaced = before ? *before : -1;
    old[name] = old_version(name);
    if (replaced < 0 || replaced == old[name]) continue;
    std::replace(operands.begin(), operands.end(), replaced, old[name]);
    const auto entry = inner.entry_.find(name);
    for (Region::Link& link : inner.reads_) {
      if (entry != inner.entry_.end() && link.inner == entry->second) link.outer = old[name];
    }
  }

  std::vector<int> outs = graph_.add_node(schema, std::move(attrs), view, operands).outs;
  const int index = static_cast<int>(graph_.nodes.size()) - 1;
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i] >= 0 && !result_names[i].empty()) write(result_names[i], outs[i]);
  }
  for (const std::string& name : inner.written_outer_) {
    write_outer(name, region, inner, index, old[name]);
  }
  leave_iterations(links, region, inner, index);
  region.reads = inner.reads_;
  region.loads = inner.loads_;
  Node& node = graph_.nodes[index];
  for (const Region::Link& link : region.reads) node.ins.push_back(link.outer);
  node.regions.push_back(std::move(region));

  if (const auto forward = shared_.forwards.find(sub_block.forward_index());
      forward != shared_.forwards.end() && forward->second.outer == &graph_) {
    for (const auto& [name, value] : forward->second.before) write(name, value);
  }
  LoweredForward& lowered = shared_.forwards[sub_block.index()];
  lowered = {inner_graph, inner.entry_, inner.current_, inner.written_outer_, before, &graph_};
}

}  // namespace trireme
