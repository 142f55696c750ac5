// Pictures of a graph for people: the text that Graphviz's `dot` reads, and what it draws.
#pragma once

#include <functional>
#include <string>

#include "compile/graph.h"

namespace trireme {

// Nodes as boxes with the user's line, values as edges with type and shape; sub-blocks as frames.
std::string to_dot(const Graph& graph, const std::string& title);

// Writes <path>.dot and, where the program `dot` is installed, <path>.svg; else says in a warning
// that there is no picture. `poll` is called now and then meanwhile, and throws to end it.
void draw_graph(const Graph& graph, const std::string& path,
                const std::function<void()>& poll = nullptr);

}  // namespace trireme
