// An lstm over one sequence: cores share the columns of the weight out, step by step.
//
// A step is a row times the whole weight, which no cache near a core holds: reading it is all that
// takes time. So it is packed once, in panels of 32 neighbours with the four gates of each, and
// every core reads its own panels at every step: in turn from the first to the last and back, so
// that those which it read last are still there.
#pragma once

#include <algorithm>
#include <memory>

#include "cpu/kernels/lstm_recurrence.h"
#include "cpu/row_product.h"

namespace trireme {

class LstmOneRow {
 public:
  using In = std::function<LstmData<float>(const KernelArgs&)>;
  using Out = std::function<LstmRows<float>(const KernelArgs&)>;
  using Input = std::function<const float*(const KernelArgs&)>;

  static constexpr int64_t kNeighbours = kPanel / 4;
  // Below this a step takes no longer than its hand-over.
  static constexpr int64_t kSmallestWeight = int64_t{1} << 18;

  static const char* why_not(const LstmRecurrence<float>& run) {
    if (run.projected) return "only without a projection";
    if (run.steps.sequences() != 1) return "only for one sequence";
    if (run.width % kNeighbours != 0) return "only for a width that is a multiple of 32";
    return 4 * run.width * run.width < kSmallestWeight ? "the weight is small" : nullptr;
  }

  LstmOneRow(LstmRecurrence<float> run, Input input, In in, Out out)
      : run_(std::move(run)),
        input_(std::move(input)),
        in_(std::move(in)),
        out_(std::move(out)),
        panels_(run_.width / kNeighbours) {}

  // `weight`: the position of the operand.
  static BoundKernel kernel(const std::shared_ptr<const LstmOneRow>& self, int weight) {
    const auto panels = static_cast<int>(self->panels_);
    BoundKernel made(
        [self, panels](const KernelArgs& k) {
          const auto [begin, end] = k.range(panels);
          for (int64_t p = begin; p < end; ++p) self->pack(p, k);
        },
        panels);
    made.packs = weight;
    const int64_t steps = self->run_.steps.count();
    for (int64_t t = 0; t < steps; ++t) {
      made.then.emplace_back(
          [self, t](const KernelArgs& k) {
            const auto [begin, end] = k.range(self->panels_);
            for (int64_t p = begin; p < end; ++p) self->step(t, self->panel_at(t, p), k);
          },
          self->parts());
    }
    Scratch room;
    self->memory(room);
    made.scratch = room.bytes();
    made.packed = static_cast<size_t>(4 * self->run_.width * self->run_.width) * sizeof(float);
    made.detail = "columns shared out";
    return made;
  }

 private:
  struct Memory {
    float *weight, *c;
  };
  Memory memory(Scratch& room) const {
    const int64_t d = run_.width;
    return {room.take<float>(4 * d * d), room.take<float>(d)};
  }
  // Two panels a part, where there are many.
  int parts() const {
    return static_cast<int>(panels_ % 2 == 0 && panels_ > 8 ? panels_ / 2 : panels_);
  }
  // At every second step each half of the panels goes from its last to its first.
  int64_t panel_at(int64_t t, int64_t p) const {
    if (t % 2 == 0 || panels_ % 2 != 0) return p;
    const int64_t half = panels_ / 2, first = p < half ? 0 : half;
    return first + (half - 1 - (p - first));
  }

  void pack(int64_t panel, const KernelArgs& k) const {
    const int64_t d = run_.width;
    Scratch room(k.scratch);
    float* to = memory(room).weight + panel * d * kPanel;
    const float* from = in_(k).weight + panel * kNeighbours;
    for (int64_t i = 0; i < d; ++i, to += kPanel, from += 4 * d) {
      for (int64_t g = 0; g < 4; ++g) {
        std::copy_n(from + g * d, kNeighbours, to + g * kNeighbours);
      }
    }
  }

  void step(int64_t t, int64_t panel, const KernelArgs& k) const {
    const int64_t d = run_.width, at = panel * kNeighbours, row = run_.steps.row(0, t);
    const LstmData<float> in = in_(k);
    const LstmRows<float> out = out_(k);
    Scratch room(k.scratch);
    const Memory memory = this->memory(room);
    const float* r = t > 0 ? out.h + run_.steps.row(0, t - 1) * d : in.r0;
    float* c = memory.c + at;
    if (t == 0 && in.c0) std::copy_n(in.c0 + at, kNeighbours, c);
    if (t == 0 && !in.c0) std::fill_n(c, kNeighbours, 0.0f);
    float sums[kPanel] = {};
    if (r) row_times_panel(r, memory.weight + panel * d * kPanel, d, sums);
    float* gates = out.gates + row * 4 * d + at;
    const float *x = input_(k) + row * 4 * d + at, *bias = in.bias + at;
    for (int64_t g = 0; g < 4; ++g) {
      for (int64_t j = 0; j < kNeighbours; ++j) {
        gates[g * d + j] = x[g * d + j] + bias[g * d + j] + sums[g * kNeighbours + j];
      }
    }
    const float* peep = run_.peephole ? in.bias + 4 * d + at : nullptr;
    run_.cell_forward(kNeighbours, peep, c, gates, out.active + row * d + at, out.h + row * d + at);
    std::copy_n(c, kNeighbours, out.cell + row * d + at);
  }

  LstmRecurrence<float> run_;
  Input input_;
  In in_;
  Out out_;
  int64_t panels_;
};

}  // namespace trireme
