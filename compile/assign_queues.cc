// One sweep over the instructions, with the last one of each queue that every queue is behind.
#include "compile/assign_queues.h"

#include <algorithm>
#include <array>
#include <map>

namespace trireme {
namespace {

constexpr size_t kQueues = 4;
// By queue: its last instruction that is known to have run; -1: none.
using Clock = std::array<int, kQueues>;

constexpr size_t number(Runner runner) { return static_cast<size_t>(runner); }

Runner runner_of(const Node& node, const Target& target) {
  const Transfer transfer = node.schema->trait().transfer;
  if (transfer == Transfer::none) return node.on_device ? Runner::compute : Runner::host;
  if (!target.copy_queues) return Runner::compute;
  return transfer == Transfer::upload ? Runner::upload : Runner::download;
}

// Else it writes the host's memory.
bool writes_device(const Plan& plan, int i) {
  const Instruction& one = plan.instructions[static_cast<size_t>(i)];
  const OpTraits& trait = plan.graph.nodes[one.node].schema->trait();
  return one.runner != Runner::host && trait.transfer != Transfer::download;
}

void merge(Clock& into, const Clock& other) {
  for (size_t q = 0; q < kQueues; ++q) into[q] = std::max(into[q], other[q]);
}

class Sweep {
 public:
  explicit Sweep(Plan& plan) : plan_(plan), accesses_(plan.slots.size()) {
    for (Clock& clock : clocks_) clock.fill(-1);
  }

  void run() {
    before_.resize(plan_.instructions.size());
    after_.resize(plan_.instructions.size());
    for (size_t i = 0; i < plan_.instructions.size(); ++i) order(static_cast<int>(i));
    for (size_t s = 0; s < plan_.slots.size(); ++s) extend(s);
  }

 private:
  struct Access {
    int instruction;
    bool writes;
  };

  void order(int i) {
    Instruction& instruction = plan_.instructions[i];
    const Node& node = plan_.graph.nodes[instruction.node];
    instruction.runner = runner_of(node, plan_.target);
    Clock& mine = clocks_[number(instruction.runner)];
    // What the host has done, it did before it put this into a queue.
    if (instruction.runner != Runner::host) merge(mine, clocks_[number(Runner::host)]);
    std::vector<int> needed;
    const auto need = [&](int value, bool writes) {
      const int slot = value < 0 ? -1 : plan_.slot_of[value];
      if (slot < 0) return;
      for (const Access& access : accesses_[slot]) {
        if (writes || access.writes) needed.push_back(access.instruction);
      }
    };
    for (int value : node.ins) need(value, false);
    for (int value : node.outs) need(value, true);
    // The latest first: waiting for it may say enough of the others.
    std::sort(needed.rbegin(), needed.rend());
    for (int earlier : needed) {
      Instruction& other = plan_.instructions[earlier];
      if (earlier == i || other.runner == instruction.runner) continue;
      if (mine[number(other.runner)] >= earlier) continue;
      other.signals = true;
      instruction.waits.push_back(earlier);
      merge(mine, after_[earlier]);
    }
    before_[i] = mine;
    mine[number(instruction.runner)] = i;
    after_[i] = mine;
    const auto note = [&](int value, bool writes) {
      const int slot = value < 0 ? -1 : plan_.slot_of[value];
      if (slot < 0) return;
      if (writes) accesses_[slot].clear();  // this one is behind all of them
      accesses_[slot].push_back({i, writes});
      last_by_queue_.try_emplace({slot, number(instruction.runner)}, i).first->second = i;
    };
    for (int value : node.ins) note(value, false);
    for (int value : node.outs) note(value, true);
  }

  // Whoever may write into memory of this kind and is not yet known to be behind the slot's users
  // must not find it free.
  void extend(size_t slot) {
    Lifetime& life = plan_.lifetimes[slot];
    if (life.first_segment < 0) return;
    const bool device = plan_.slots[slot].on_device;
    for (size_t q = 0; q < kQueues; ++q) {
      const auto found = last_by_queue_.find({static_cast<int>(slot), q});
      if (found == last_by_queue_.end()) continue;
      const int used = found->second;
      for (int i = static_cast<int>(plan_.instructions.size()) - 1; i > life.last; --i) {
        const Runner runner = plan_.instructions[i].runner;
        if (writes_device(plan_, i) != device) continue;
        if (number(runner) == q || before_[i][q] >= used) continue;
        life.last = i;
        break;
      }
    }
    for (size_t s = 0; s < plan_.segments.size(); ++s) {
      if (life.last >= plan_.segments[s].begin) {
        life.last_segment = std::max(life.last_segment, static_cast<int>(s));
      }
    }
  }

  Plan& plan_;
  std::array<Clock, kQueues> clocks_;
  std::vector<Clock> before_, after_;          // by instruction: what its queue is behind
  std::vector<std::vector<Access>> accesses_;  // by slot: the last write and the reads since
  std::map<std::pair<int, size_t>, int> last_by_queue_;
};

}  // namespace

void assign_queues(Plan& plan) {
  const auto on_device = [](const Node& node) {
    return node.on_device || node.schema->trait().transfer != Transfer::none;
  };
  if (!std::any_of(plan.graph.nodes.begin(), plan.graph.nodes.end(), on_device)) return;
  plan.has_queues = true;
  Sweep(plan).run();
}

}  // namespace trireme
