// Writes graphs in the language of Graphviz and lets `dot` draw them.
#include "compile/graphviz.h"

#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include "core/file.h"
#include "core/text.h"
#include "core/warning.h"

extern char** environ;

namespace trireme {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class DotText {
 public:
  std::string run(const Graph& graph, const std::string& title) {
    out_ << "digraph " << quoted(title) << " {\n  rankdir=TB;\n  node [shape=box];\n";
    block(graph, "");
    out_ << "}\n";
    return out_.str();
  }

 private:
  void block(const Graph& graph, const std::string& prefix) {
    for (const auto& feed : graph.feeds) entry(graph, prefix, feed.value, "feed " + feed.name);
    for (const auto& state : graph.states) {
      if (state.entry >= 0) entry(graph, prefix, state.entry, state.name);
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) node(graph, prefix, n);
    for (const auto& fetch : graph.fetches)
      leave(graph, prefix, fetch.value, "fetch " + fetch.name);
    for (const auto& state : graph.states) {
      if (state.exit >= 0 && state.exit != state.entry) {
        leave(graph, prefix, state.exit, state.name);
      }
    }
  }

  void node(const Graph& graph, const std::string& prefix, size_t n) {
    const Node& node = graph.nodes[n];
    const std::string id = cat(prefix, "n", n);
    std::string label = node.schema->type();
    if (node.origin && node.origin->op_type != label) label += cat("\nof ", node.origin->op_type);
    if (node.origin && !node.origin->line.file.empty()) {
      label += cat("\n", std::filesystem::path(node.origin->line.file).filename().string(), ":",
                   node.origin->line.line);
    }
    out_ << "  " << quoted(id) << " [label=" << quoted(label) << "];\n";
    for (int value : node.ins) {
      if (value >= 0) edge(graph, prefix, value, id);
    }
    for (size_t r = 0; r < node.regions.size(); ++r) {
      const std::string inner = cat(id, "_", r, "_");
      out_ << "  subgraph " << quoted("cluster_" + inner) << " {\n  label=" << quoted(label)
           << ";\n";
      const Graph& body = *node.regions[r].graph;
      for (const Region::Link& link : node.regions[r].reads) {
        entry(body, inner, link.inner, body.values[link.inner].info.name);
      }
      for (int value : body.given) entry(body, inner, value, body.values[value].info.name);
      block(body, inner);
      out_ << "  }\n";
      for (const Region::Link& link : node.regions[r].reads) {
        edge(graph, prefix, link.outer, cat(inner, "v", link.inner));
      }
    }
  }

  void entry(const Graph& graph, const std::string& prefix, int value, const std::string& name) {
    out_ << "  " << quoted(cat(prefix, "v", value))
         << " [shape=ellipse,label=" << quoted(cat(name, "\n", facts(graph, value))) << "];\n";
  }

  void leave(const Graph& graph, const std::string& prefix, int value, const std::string& name) {
    const std::string id = cat(prefix, "out_", value, "_", name);
    out_ << "  " << quoted(id) << " [shape=ellipse,label=" << quoted(name) << "];\n";
    edge(graph, prefix, value, id);
  }

  void edge(const Graph& graph, const std::string& prefix, int value, const std::string& to) {
    const int writer = graph.values[value].node;
    const std::string from = writer < 0 ? cat(prefix, "v", value) : cat(prefix, "n", writer);
    out_ << "  " << quoted(from) << " -> " << quoted(to)
         << " [label=" << quoted(cat(graph.values[value].info.name, "\n", facts(graph, value)))
         << "];\n";
  }

  static std::string facts(const Graph& graph, int value) {
    const ValueInfo& info = graph.values[value].info;
    return cat(name_of(info.dtype), " ", info.shape);
  }

  std::ostringstream out_;
};

constexpr std::chrono::seconds kDrawing(20);  // large graphs take dot minutes

bool ended_well(pid_t child, const std::function<void()>& poll) {
  const auto end = std::chrono::steady_clock::now() + kDrawing;
  int status = 0;
  const auto stop = [&] {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  };
  while (waitpid(child, &status, WNOHANG) == 0) {
    try {
      if (poll) poll();
    } catch (...) {
      stop();
      throw;
    }
    if (std::chrono::steady_clock::now() > end) {
      stop();
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status == 0;
}

void write_text(const std::string& path, const std::string& text) {
  try {
    write_file(path, text);
  } catch (Error& e) {
    throw e.fix("set BuildStrategy.debug_graphviz_path to a path that can be written, or to ''");
  }
}

}  // namespace

std::string to_dot(const Graph& graph, const std::string& title) {
  return DotText().run(graph, title);
}

void draw_graph(const Graph& graph, const std::string& path, const std::function<void()>& poll) {
  // A path that begins with a dash would be an option of dot.
  const std::string from = path.starts_with('-') ? "./" + path : path;
  const std::string dot = from + ".dot", svg = from + ".svg";
  write_text(dot, to_dot(graph, std::filesystem::path(path).filename().string()));
  std::vector<std::string> words = {"dot", "-Tsvg", dot, "-o", svg};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, "dot", nullptr, nullptr, arguments.data(), environ) != 0) {
    warn_once(cat("debug_graphviz_path: ", dot,
                  " is written, but no picture: the program dot is not installed (Debian: "
                  "graphviz)"));
    return;
  }
  if (!ended_well(child, poll)) {
    warn_once(cat("debug_graphviz_path: dot did not draw ", dot, " within ", kDrawing.count(),
                  " s; the text is there"));
  }
}

}  // namespace trireme
