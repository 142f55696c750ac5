// What every pass made of a graph: nodes by number, and the order after each step. A node that a
// pass leaves as it is keeps its number, so that a step is as small as what it changed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/graph.h"
#include "core/json.h"
#include "ir/program_json.h"

namespace trireme {

class GraphSteps {
 public:
  explicit GraphSteps(LineTable& lines) : lines_(lines) {}

  // The graph as it stands when `name` has run.
  void take(const std::string& name, const Graph& graph);
  void write(JsonWriter& out) const;

  // As of the last step: the number of a node; the graph of a node's sub-block.
  int id(int graph, size_t node) const { return graphs_[static_cast<size_t>(graph)].order[node]; }
  int inner(int graph, size_t node, size_t region) const;
  size_t size(int graph) const { return graphs_[static_cast<size_t>(graph)].order.size(); }

 private:
  struct Level {                                         // one graph, or a sub-block of a node
    int around = -1;                                     // the graph it stands in
    std::vector<int> order;                              // ids, as of the last step
    std::map<std::pair<size_t, size_t>, int> inner;      // by node and region: their graphs
    std::multimap<std::string, int, std::less<>> known;  // content -> id
    std::map<int, std::pair<std::string, std::string>> values;  // number -> name, and facts as JSON
  };
  struct Changed {
    int graph;
    std::vector<int> order;
  };
  struct Step {
    std::string name;
    size_t nodes = 0;
    double ms = 0;
    std::vector<Changed> graphs;
  };

  int level(const std::string& key, int around);
  void take_graph(const Graph& graph, int number, Step& step);
  std::string content(const Graph& graph, const Node& node, int number);

  LineTable& lines_;
  std::vector<Level> graphs_;
  std::map<std::string, int, std::less<>> by_key_;
  std::vector<std::string> nodes_;  // JSON by id
  std::vector<Step> steps_;
  double last_ = -1;  // when the last step was taken, in ms
};

}  // namespace trireme
