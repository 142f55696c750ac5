// Numbers nodes by what they are, and writes the steps.
#include "compile/graph_steps.h"

#include <chrono>

#include "core/text.h"

namespace trireme {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Runs of numbers that follow one another: [[first, count], ...].
void write_runs(JsonWriter& out, const std::vector<int>& numbers) {
  out.array();
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    out.array().value(numbers[i]).value(end - i).end_array();
    i = end;
  }
  out.end_array();
}

std::string facts_json(const ValueInfo& info) {
  JsonWriter out;
  out.array().value(name_of(info.dtype));
  write_shape(out, info.shape);
  out.end_array();
  return out.text();
}

}  // namespace

int GraphSteps::level(const std::string& key, int around) {
  const auto [found, is_new] = by_key_.try_emplace(key, static_cast<int>(graphs_.size()));
  if (is_new) {
    graphs_.emplace_back();
    graphs_.back().around = around;
  }
  return found->second;
}

int GraphSteps::inner(int graph, size_t node, size_t region) const {
  return graphs_[static_cast<size_t>(graph)].inner.at({node, region});
}

std::string GraphSteps::content(const Graph& graph, const Node& node, int number) {
  JsonWriter out;
  const auto types = [&](const char* name, const std::vector<Node>& nodes) {
    if (nodes.empty()) return;
    out.key(name).array();
    for (const Node& each : nodes) {
      out.array().value(each.schema->type());
      for (int value : each.outs) out.value(value);
      out.end_array();
    }
    out.end_array();
  };
  out.object().field("graph", number).field("type", node.schema->type());
  out.list("ins", node.ins).list("outs", node.outs);
  if (node.origin) {
    out.field("of", node.origin->op_type).field("role", node.origin->role);
    if (node.origin->op >= 0) {
      out.key("op").array().value(node.origin->block).value(node.origin->op).end_array();
    }
    if (const int line = lines_.number(node.origin->line); line >= 0) out.field("line", line);
  }
  types("parts", node.parts);
  types("members", node.members);
  if (node.on_device) out.field("device", true);
  if (node.by_first) out.field("by_first", true);
  if (node.decided.relu) out.field("relu", true);
  if (node.decided.blocks != ChannelBlocks{}) out.field("blocked", true);
  out.end_object();
  auto& values = graphs_[static_cast<size_t>(number)].values;
  const auto note = [&](int value) {
    if (value < 0) return;
    const ValueInfo& info = graph.values[static_cast<size_t>(value)].info;
    values.try_emplace(value, info.name, facts_json(info));
  };
  for (int value : node.ins) note(value);
  for (int value : node.outs) note(value);
  for (const Node& part : node.parts) {
    for (int value : part.outs) note(value);
  }
  return out.text();
}

void GraphSteps::take_graph(const Graph& graph, int number, Step& step) {
  std::vector<int> order;
  std::multimap<std::string, int, std::less<>> known;
  std::map<std::pair<size_t, size_t>, int> inner;
  // Taken out: sub-blocks add levels, and levels move.
  auto before = std::move(graphs_[static_cast<size_t>(number)].known);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::string text = content(graph, node, number);
    int id = static_cast<int>(nodes_.size());
    if (const auto same = before.find(text); same != before.end()) {
      id = same->second;
      before.erase(same);
    } else {
      nodes_.push_back(text);
    }
    order.push_back(id);
    known.emplace(std::move(text), id);
    ++step.nodes;
    for (size_t r = 0; r < node.regions.size(); ++r) {
      // A sub-block is the same one as long as its op writes the same values.
      std::string key = cat(number, "/", node.schema->type(), "/", r, "/", join(node.outs));
      if (node.outs.empty()) key += cat("#", n);
      const int within = level(key, number);
      inner.emplace(std::pair(n, r), within);
      take_graph(*node.regions[r].graph, within, step);
    }
  }
  Level& mine = graphs_[static_cast<size_t>(number)];
  mine.known = std::move(known);
  mine.inner = std::move(inner);
  if (steps_.empty() || order != mine.order) step.graphs.push_back({number, order});
  mine.order = std::move(order);
}

void GraphSteps::take(const std::string& name, const Graph& graph) {
  Step step;
  step.name = name;
  step.ms = last_ < 0 ? 0 : now_ms() - last_;
  take_graph(graph, level("", -1), step);
  steps_.push_back(std::move(step));
  last_ = now_ms();
}

void GraphSteps::write(JsonWriter& out) const {
  out.object().key("graphs").array();
  for (const Level& level : graphs_) {
    out.object().field("around", level.around).key("nodes").array();
    for (const auto& [at, number] : level.inner) {
      out.array().value(level.order[at.first]).value(number).end_array();
    }
    out.end_array().key("values").object();
    for (const auto& [number, value] : level.values) {
      out.key(std::to_string(number)).array().value(value.first).raw(value.second).end_array();
    }
    out.end_object().end_object();
  }
  out.end_array().key("nodes").array();
  for (const std::string& node : nodes_) out.raw(node);
  out.end_array().key("steps").array();
  for (const Step& step : steps_) {
    out.object().field("name", step.name).field("nodes", step.nodes).field("ms", step.ms);
    out.key("graphs").array();
    for (const Changed& changed : step.graphs) {
      out.object().field("graph", changed.graph).key("order");
      write_runs(out, changed.order);
      out.end_object();
    }
    out.end_array().end_object();
  }
  out.end_array().end_object();
}

}  // namespace trireme
