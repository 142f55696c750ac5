// Joining, choosing and averaging what devices computed.
#include "runtime/merge_fetches.h"

#include <algorithm>

#include "core/text.h"
#include "runtime/feed_split.h"

namespace trireme {

std::optional<Variable> merge_fetch(const std::string& name, Replicas::Result& result, Merge how) {
  std::vector<Variable>& pieces = result.by_device;
  if (pieces.size() == 1 || how == Merge::first) return std::move(pieces.front());
  const auto all = [&](Kind kind) {
    return std::all_of(pieces.begin(), pieces.end(), [&](const Variable& piece) {
      return piece.kind() == kind && (kind != Kind::dense || piece.initialized());
    });
  };
  Variable merged;
  if (all(Kind::dense)) {
    std::vector<Tensor> tensors;
    for (const Variable& piece : pieces) tensors.push_back(piece.tensor());
    merged.tensor() = how == Merge::mean ? mean_of_pieces(name, tensors, result.shares)
                                         : join_pieces(name, tensors);
    return merged;
  }
  if (how == Merge::mean) {
    throw Error(cat("the devices' results of ", name, " have no mean: ", pieces[0].describe()))
        .fix("fetch_one gives the first device's");
  }
  if (!all(Kind::array)) return std::nullopt;
  merged.array() = join_arrays(name, pieces);
  return merged;
}

}  // namespace trireme
