// One reduction for all: a tensor folded along some of its axes.
#pragma once

#include <vector>

#include "cpu/vectorised.h"
#include "ops/loops.h"

namespace trireme {

// A shape split into kept and reduced dimensions, neighbours of one kind merged. The innermost kept
// dimension, if it is the innermost of all, is folded in blocks, so memory is always read in order.
struct ReduceLayout {
  struct Axis {
    int64_t extent;
    int64_t step;
  };
  std::vector<Axis> kept;     // outermost first, without `columns`
  std::vector<Axis> reduced;  // outermost first, without `run`
  int64_t columns = 1;        // kept and contiguous: results that are folded side by side
  int64_t run = 1;            // reduced and contiguous; 1 when `columns` is not
  int64_t results = 1;
  int64_t folded = 1;  // elements behind one result

  ReduceLayout(const Shape& shape, const std::vector<int>& axes) {
    std::vector<bool> is_reduced(static_cast<size_t>(shape.rank()));
    for (const int axis : axes) is_reduced[static_cast<size_t>(axis)] = true;
    int64_t step = 1;
    bool innermost = true;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const int64_t extent = shape.at(d);
      const bool fold = is_reduced[static_cast<size_t>(d)];
      (fold ? folded : results) *= extent;
      if (extent != 1) {
        // Until the kind changes, everything belongs to the contiguous inner part.
        if (innermost && (fold ? columns == 1 : run == 1)) {
          (fold ? run : columns) *= extent;
        } else {
          innermost = false;
          add(fold ? reduced : kept, extent, step);
        }
      }
      step *= extent;
    }
  }

  // Calls f(offset) for every index of `axes`, outermost slowest, starting at `base`.
  template <class F>
  static void each(const std::vector<Axis>& axes, int64_t base, F f) {
    std::array<int64_t, kMaxRank> index{};
    for (const Axis& axis : axes) {
      if (axis.extent == 0) return;
    }
    while (true) {
      f(base);
      size_t d = axes.size();
      for (; d > 0; --d) {
        const Axis& axis = axes[d - 1];
        base += axis.step;
        if (++index[d - 1] < axis.extent) break;
        base -= axis.extent * axis.step;
        index[d - 1] = 0;
      }
      if (d == 0) return;
    }
  }

  // Where the elements behind row `row` of the results begin.
  int64_t row_start(int64_t row) const {
    int64_t start = 0;
    for (size_t d = kept.size(); d > 0; --d) {
      start += row % kept[d - 1].extent * kept[d - 1].step;
      row /= kept[d - 1].extent;
    }
    return start;
  }

 private:
  static void add(std::vector<Axis>& axes, int64_t extent, int64_t step) {
    if (!axes.empty() && axes.front().step * axes.front().extent == step) {
      axes.front().extent *= extent;
    } else {
      axes.insert(axes.begin(), {extent, step});
    }
  }
};

// A fold may know a faster way through neighbours: fold.run(acc, x, n).
template <class T, class Acc, class Fold>
Acc fold_run(Acc acc, const T* x, int64_t n, const Fold& fold) {
  if constexpr (requires { fold.run(acc, x, n); }) {
    return fold.run(acc, x, n);
  } else {
    for (int64_t i = 0; i < n; ++i) acc = fold(acc, x[i]);
    return acc;
  }
}

// out[i] = finish(fold of start with the elements behind i). Acc is wider than T where sums are
// kept, and every result is folded in one fixed order, however the work is cut.
template <class T, class Acc, class Fold, class Finish>
void reduce_elements(const ReduceLayout& layout, const T* in, T* out,
                     std::pair<int64_t, int64_t> rows, Acc start, Fold fold, Finish finish) {
  constexpr int64_t kBlock = 256;
  for (int64_t row = rows.first; row < rows.second; ++row) {
    const int64_t base = layout.row_start(row);
    if (layout.columns == 1) {
      Acc acc = start;
      ReduceLayout::each(layout.reduced, base, [&](int64_t offset) {
        const T* x = in + offset;
        acc = fold_run(acc, x, layout.run, fold);
      });
      out[row] = static_cast<T>(finish(acc));
      continue;
    }
    for (int64_t first = 0; first < layout.columns; first += kBlock) {
      const int64_t width = std::min(kBlock, layout.columns - first);
      std::array<Acc, kBlock> acc;
      acc.fill(start);
      vectorised([&] {
        ReduceLayout::each(layout.reduced, base + first, [&](int64_t offset) {
          const T* x = in + offset;
          Acc* to = acc.data();
          for (int64_t j = 0; j < width; ++j) to[j] = fold(to[j], x[j]);
        });
      });
      T* result = out + row * layout.columns + first;
      for (int64_t j = 0; j < width; ++j) {
        result[j] = static_cast<T>(finish(acc[static_cast<size_t>(j)]));
      }
    }
  }
}

}  // namespace trireme
