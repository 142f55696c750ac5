// Finds the op that writes a fed variable before anybody reads it, and warns.
#include "runtime/overwritten_feeds.h"

#include <algorithm>

#include "core/text.h"
#include "core/warning.h"

namespace trireme {
namespace {

bool is_read(const Graph& graph, int value) {
  const auto names_it = [&](const auto& named) { return named.value == value; };
  return std::any_of(graph.fetches.begin(), graph.fetches.end(), names_it) ||
         std::find(graph.kept.begin(), graph.kept.end(), value) != graph.kept.end() ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
           return std::find(node.ins.begin(), node.ins.end(), value) != node.ins.end() ||
                  std::any_of(node.regions.begin(), node.regions.end(), [&](const Region& region) {
                    return std::any_of(region.reads.begin(), region.reads.end(),
                                       [&](const auto& link) { return link.outer == value; });
                  });
         });
}

const Node* writer_of(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes) {
    for (int value : node.outs) {
      if (value >= 0 && graph.values[value].info.name == name) return &node;
    }
  }
  return nullptr;
}

}  // namespace

void warn_of_overwritten_feeds(const Graph& graph, bool gradient_is_fed) {
  for (const auto& feed : graph.feeds) {
    if (gradient_is_fed && feed.name.ends_with(kGradSuffix)) continue;
    if (is_read(graph, feed.value)) continue;
    const Node* writer = writer_of(graph, feed.name);
    if (!writer) continue;
    const SourceLine& line = writer->origin->line;
    warn(cat("the feed of ", feed.name, " has no effect: ", writer->origin->op_type,
             " computes that variable",
             line.known() ? cat(", asked for at ", line.file, ":", line.line) : "",
             "; run with use_prune=True to feed it instead"));
  }
}

}  // namespace trireme
