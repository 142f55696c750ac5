// Proves that waits order whatever must be ordered.
//
// A queue runs its instructions in order, so what has ended when an instruction begins is a prefix
// of every queue: four numbers. They are found by following the waits, and every use of a slot is
// held against the uses before it.
#include <algorithm>
#include <array>
#include <vector>

#include "compile/assign_queues.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr std::array kRunners = {Runner::host, Runner::compute, Runner::upload, Runner::download};

struct Ended {
  std::array<int, kRunners.size()> last{-1, -1, -1, -1};  // by runner
  int& operator[](Runner runner) { return last[static_cast<size_t>(runner)]; }
  int operator[](Runner runner) const { return last[static_cast<size_t>(runner)]; }
};

class OrderCheck {
 public:
  explicit OrderCheck(const Plan& plan) : plan_(plan), begin_(plan.instructions.size()) {}

  void run() {
    find_ended();
    check_uses();
    check_memory();
  }

 private:
  Runner runner(int i) const { return plan_.instructions[static_cast<size_t>(i)].runner; }
  bool has_ended(int earlier, int later) const {
    return begin_[static_cast<size_t>(later)][runner(earlier)] >= earlier;
  }

  // What had ended when `i` began, and `i` itself, have ended.
  void follow(Ended& ended, int i) const {
    for (Runner each : kRunners) {
      ended[each] = std::max(ended[each], begin_[static_cast<size_t>(i)][each]);
    }
    ended[runner(i)] = std::max(ended[runner(i)], i);
  }

  void find_ended() {
    std::array<int, kRunners.size()> latest{-1, -1, -1, -1};  // by runner: put into it last
    for (int i = 0; i < static_cast<int>(begin_.size()); ++i) {
      Ended& ended = begin_[static_cast<size_t>(i)];
      const int before = latest[static_cast<size_t>(runner(i))];
      const int by_host = latest[static_cast<size_t>(Runner::host)];
      if (before >= 0) follow(ended, before);
      if (by_host >= 0) follow(ended, by_host);
      for (int waited : plan_.instructions[static_cast<size_t>(i)].waits) {
        const bool comes =
            waited >= 0 && waited < i && plan_.instructions[static_cast<size_t>(waited)].signals;
        if (!comes) {
          throw InternalError(
              cat("instruction ", i, " waits for ", waited, ", which never signals"));
        }
        follow(ended, waited);
      }
      latest[static_cast<size_t>(runner(i))] = i;
    }
  }

  [[noreturn]] void refuse(int earlier, int later, int slot, const char* why) const {
    const auto name = [&](int i) {
      return plan_.graph.nodes[plan_.instructions[static_cast<size_t>(i)].node].schema->type();
    };
    throw InternalError(cat("instructions ", earlier, " (", name(earlier), ") and ", later, " (",
                            name(later), ") use slot ", slot, ", ", why,
                            ", and no wait orders them"));
  }

  void check_uses() {
    std::vector<int> written(plan_.slots.size(), -1);        // by slot: by whom last
    std::vector<std::vector<int>> read(plan_.slots.size());  // by slot: by whom since
    last_use_.assign(plan_.slots.size(), Ended{});
    for (int i = 0; i < static_cast<int>(begin_.size()); ++i) {
      const Node& node = plan_.graph.nodes[plan_.instructions[static_cast<size_t>(i)].node];
      for (int value : node.ins) {
        if (value < 0) continue;
        const int slot = plan_.slot_of[value];
        const int writer = written[slot];
        if (writer >= 0 && !has_ended(writer, i)) refuse(writer, i, slot, "the first writes it");
        read[slot].push_back(i);
        last_use_[slot][runner(i)] = i;
      }
      for (int value : node.outs) {
        if (value < 0) continue;
        const int slot = plan_.slot_of[value];
        const int writer = written[slot];
        if (writer >= 0 && writer != i && !has_ended(writer, i)) {
          refuse(writer, i, slot, "both write it");
        }
        for (int reader : read[slot]) {
          if (reader != i && !has_ended(reader, i)) refuse(reader, i, slot, "the second writes it");
        }
        read[slot].clear();
        written[slot] = i;
        last_use_[slot][runner(i)] = i;
      }
    }
  }

  // Behind a slot's life others may have its memory: those that write to its side.
  void check_memory() {
    for (size_t slot = 0; slot < plan_.slots.size(); ++slot) {
      const Lifetime& life = plan_.lifetimes[slot];
      if (life.first_segment < 0) continue;
      for (Runner other : kRunners) {
        const int next = first_behind(other, plan_.slots[slot].on_device, life.last);
        if (next < 0) continue;  // what it is behind, those after it are behind, too
        for (Runner user : kRunners) {
          const int used = last_use_[slot][user];
          if (used >= 0 && used < next && user != other && !has_ended(used, next)) {
            refuse(used, next, static_cast<int>(slot), "the second may take its memory");
          }
        }
      }
    }
  }

  // Whose memory it writes.
  bool is_on_device(int i) const {
    const Node& node = plan_.graph.nodes[plan_.instructions[static_cast<size_t>(i)].node];
    const Transfer transfer = node.schema->trait().transfer;
    return transfer == Transfer::none ? node.on_device : transfer == Transfer::upload;
  }

  int first_behind(Runner wanted, bool on_device, int last) const {
    for (int i = last + 1; i < static_cast<int>(begin_.size()); ++i) {
      if (runner(i) == wanted && is_on_device(i) == on_device) return i;
    }
    return -1;
  }

  const Plan& plan_;
  std::vector<Ended> begin_;     // by instruction: what has ended when it begins
  std::vector<Ended> last_use_;  // by slot: its last user in every queue
};

}  // namespace

void check_order(const Plan& plan) {
  if (plan.has_queues) OrderCheck(plan).run();
}

}  // namespace trireme
