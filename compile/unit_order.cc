// Units and their order: paths through a third, and room for those that move.
#include "compile/unit_order.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

constexpr int64_t kRoom = int64_t{1} << 32;  // between two neighbours

}  // namespace

// Walks one edge a step, from one end towards the other.
class UnitOrder::Search {
 public:
  enum class Step { went_on, ended, met };

  Search(UnitOrder& order, const std::vector<std::vector<int>>& edges, int from, int to, int number)
      : order_(order), edges_(edges), from_(from), to_(to), number_(number), found_{from} {
    order_.seen_[from] = number;
  }

  // `other`: the number of the search that comes from the other end.
  Step step(int other) {
    while (at_ < found_.size()) {
      const int unit = found_[at_];
      const std::vector<int>& nodes = order_.nodes_[unit];
      if (node_ == nodes.size()) {
        ++at_;
        node_ = 0;
      } else if (edge_ == edges_[nodes[node_]].size()) {
        ++node_;
        edge_ = 0;
      } else {
        return go(unit, order_.unit_of_[edges_[nodes[node_]][edge_++]], other);
      }
    }
    return Step::ended;
  }

  std::vector<int> others() const { return {found_.begin() + 1, found_.end()}; }

 private:
  Step go(int unit, int next, int other) {
    if (next == to_) return unit == from_ ? Step::went_on : Step::met;
    if (order_.seen_[next] == other) return Step::met;
    const int64_t position = order_.position_[next];
    const auto [least, most] = std::minmax(order_.position_[from_], order_.position_[to_]);
    if (position > least && position < most && order_.seen_[next] != number_) {
      order_.seen_[next] = number_;
      found_.push_back(next);
    }
    return Step::went_on;
  }

  UnitOrder& order_;
  const std::vector<std::vector<int>>& edges_;
  int from_, to_, number_;
  std::vector<int> found_;
  size_t at_ = 0, node_ = 0, edge_ = 0;
};

UnitOrder::UnitOrder(std::vector<std::vector<int>> makers, std::vector<std::vector<int>> readers)
    : makers_(std::move(makers)),
      readers_(std::move(readers)),
      unit_of_(makers_.size()),
      nodes_(makers_.size()),
      position_(makers_.size()),
      seen_(makers_.size(), 0) {
  std::iota(unit_of_.begin(), unit_of_.end(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int n = static_cast<int>(i);
    nodes_[i] = {n};
    put(n, n * kRoom);
  }
}

void UnitOrder::put(int unit, int64_t position) {
  position_[unit] = position;
  at_[position] = unit;
}

void UnitOrder::spread() {
  std::map<int64_t, int> before;
  before.swap(at_);
  int64_t number = 0;
  for (const auto& [position, unit] : before) put(unit, number++ * kRoom);
}

// Moves units, which keep their own order, to stand right after a position.
void UnitOrder::place_between(int64_t after, std::vector<int> units) {
  std::sort(units.begin(), units.end(), [&](int a, int b) { return position_[a] < position_[b]; });
  for (const int unit : units) at_.erase(position_[unit]);
  const auto step = [&] {
    const auto next = at_.upper_bound(after);
    const int64_t end = next == at_.end() ? after + kRoom : next->first;
    return (end - after) / (static_cast<int64_t>(units.size()) + 1);
  };
  if (step() == 0) {
    const int unit = at_.at(after);
    spread();
    after = position_[unit];
  }
  const int64_t each = step();
  for (const int unit : units) put(unit, after += each);
}

bool UnitOrder::join(int a, int b) {
  const auto [early, late] = position_[a] < position_[b] ? std::pair(a, b) : std::pair(b, a);
  const int down = ++searches_, up = ++searches_;
  Search from_early(*this, readers_, early, late, down), from_late(*this, makers_, late, early, up);
  Search::Step step = Search::Step::went_on;
  bool early_ended = false;
  while (step == Search::Step::went_on) {
    step = from_early.step(up);
    early_ended = step == Search::Step::ended;
    if (step == Search::Step::went_on) step = from_late.step(down);
  }
  if (step == Search::Step::met) return false;

  if (early_ended) {  // what needs the early one moves behind the late one, where the unit stands
    place_between(position_[late], from_early.others());
  } else {  // what the late one needs moves in front of the early one
    const auto at = at_.find(position_[early]);
    const int64_t after = at == at_.begin() ? at->first - kRoom : std::prev(at)->first;
    place_between(after, from_late.others());
  }
  const int64_t position = position_[early_ended ? late : early];
  at_.erase(position_[early]);
  at_.erase(position_[late]);
  put(a, position);
  std::vector<int> nodes;
  std::merge(nodes_[a].begin(), nodes_[a].end(), nodes_[b].begin(), nodes_[b].end(),
             std::back_inserter(nodes));
  for (const int n : nodes_[b]) unit_of_[n] = a;
  nodes_[a] = std::move(nodes);
  nodes_[b].clear();
  return true;
}

}  // namespace trireme
