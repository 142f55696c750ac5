// Ops that look at one sequence at a time: sequence_pool and sequence_softmax.
#include <algorithm>
#include <cmath>

#include "cpu/independent.h"
#include "cpu/vectorised.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

// One row for every sequence of the last level; the outer levels stay.
void pool_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() == 0) throw op.error("X has no dimensions").fix("give X rows: [rows, ...]");
  const std::vector<int64_t>* offsets = sequence_offsets(op, "X");
  Shape out = x.shape;
  out[0] = offsets ? Dim(static_cast<int64_t>(offsets->size()) - 1) : Dim();
  op.set_out("Out", x.dtype, out);
  set_lod(op, "Out", outer_levels(x.lod), std::max(x.lod_level - 1, 0));
  const bool indexed = op.attr<std::string>("pooltype") == "MAX";
  op.set_out("MaxIndex", DType::int32, indexed ? out : Shape{0});
}

// What a sequence's sum is multiplied by.
template <class T>
T sum_scale(const std::string& pool, int64_t length) {
  if (pool == "AVERAGE") return T{1} / static_cast<T>(length);
  if (pool == "SQRT") return T{1} / std::sqrt(static_cast<T>(length));
  return T{1};
}

int sequence_parts(const std::vector<int64_t>& offsets, int64_t width) {
  const auto sequences = static_cast<int64_t>(offsets.size()) - 1;
  return static_cast<int>(std::clamp<int64_t>(offsets.back() * width / 16384, 1,
                                              std::clamp<int64_t>(sequences, 1, 64)));
}

// Where x is larger than the largest so far, it and its row take the place. `best` may be null.
template <class T>
void keep_largest(const T* x, int64_t n, int32_t row, T* largest, int32_t* best) {
  vectorised([=] {
    if (best) {
      TRIREME_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) best[j] = x[j] > largest[j] ? row : best[j];
    }
    TRIREME_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) largest[j] = x[j] > largest[j] ? x[j] : largest[j];
  });
}

template <class T>
BoundKernel pool(const KernelSite& site) {
  const int out = site.out_position("Out"), index = site.out_position("MaxIndex");
  const auto how = site.attr<std::string>("pooltype");
  const auto pad = static_cast<T>(site.attr<float>("pad_value"));
  const int64_t width = row_width(site.in("X").shape);
  const std::vector<int64_t> offsets = bound_offsets(site, "X");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [first, last] = k.range(static_cast<int64_t>(offsets.size()) - 1);
        int32_t* where = how == "MAX" && k.has_out(index) ? k.out<int32_t>(index) : nullptr;
        for (int64_t s = first; s < last; ++s) {
          const int64_t begin = offsets[static_cast<size_t>(s)];
          const int64_t end = offsets[static_cast<size_t>(s) + 1];
          const T* x = k.in<T>(0) + begin * width;
          T* y = k.out<T>(out) + s * width;
          if (begin == end) {
            std::fill_n(y, width, pad);
            if (where) std::fill_n(where + s * width, width, -1);
            continue;
          }
          if (how == "FIRST" || how == "LAST") {
            std::copy_n(how == "FIRST" ? x : x + (end - begin - 1) * width, width, y);
            continue;
          }
          std::copy_n(x, width, y);
          int32_t* best = where ? where + s * width : nullptr;
          if (best) std::fill_n(best, width, static_cast<int32_t>(begin));
          for (int64_t row = begin + 1; row < end; ++row) {
            x += width;
            if (how != "MAX") {
              vectorised([=, n = width] {
                for (int64_t j = 0; j < n; ++j) y[j] += x[j];
              });
            } else {
              keep_largest(x, width, static_cast<int32_t>(row), y, best);
            }
          }
          if (how == "MAX") continue;
          const T scale = sum_scale<T>(how, end - begin);
          for (int64_t j = 0; j < width; ++j) y[j] *= scale;
        }
      },
      sequence_parts(offsets, width));
}

template <class T>
BoundKernel pool_grad(const KernelSite& site) {
  const int index = site.position("MaxIndex"), dout = site.position("Out@GRAD");
  const auto how = site.attr<std::string>("pooltype");
  const int64_t width = row_width(site.in("X").shape);
  const std::vector<int64_t> offsets = bound_offsets(site, "X");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [first, last] = k.range(static_cast<int64_t>(offsets.size()) - 1);
        T* dx = k.out<T>(0);
        for (int64_t s = first; s < last; ++s) {
          const int64_t begin = offsets[static_cast<size_t>(s)];
          const int64_t end = offsets[static_cast<size_t>(s) + 1];
          if (begin == end) continue;
          const T* dy = k.in<T>(dout) + s * width;
          if (how == "AVERAGE" || how == "SUM" || how == "SQRT") {
            const T scale = sum_scale<T>(how, end - begin);
            for (int64_t row = begin; row < end; ++row) {
              for (int64_t j = 0; j < width; ++j) dx[row * width + j] = dy[j] * scale;
            }
            continue;
          }
          std::fill(dx + begin * width, dx + end * width, T{0});
          for (int64_t j = 0; j < width; ++j) {
            int64_t row = how == "FIRST" ? begin : end - 1;
            if (how == "MAX") row = k.in<int32_t>(index)[s * width + j];
            dx[row * width + j] = dy[j];
          }
        }
      },
      sequence_parts(offsets, width));
}

void sequence_softmax_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  sequence_offsets(op, "X");
  if (x.shape.rank() == 0 || !x.shape.product(1, x.shape.rank()).may_equal(1)) {
    throw op.error(cat("X has shape ", x.shape, " but holds one number for every row"))
        .fix("give X the shape [rows, 1]");
  }
  op.set_out_like("Out", x);
}

template <class T>
BoundKernel sequence_softmax(const KernelSite& site) {
  const std::vector<int64_t> offsets = bound_offsets(site, "X");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [first, last] = k.range(static_cast<int64_t>(offsets.size()) - 1);
        const T* x = k.in<T>(0);
        T* y = k.out<T>(0);
        for (int64_t s = first; s < last; ++s) {
          const int64_t begin = offsets[static_cast<size_t>(s)];
          const int64_t end = offsets[static_cast<size_t>(s) + 1];
          if (begin == end) continue;
          const T top = *std::max_element(x + begin, x + end);  // so that exp cannot overflow
          T sum = 0;
          for (int64_t i = begin; i < end; ++i) sum += y[i] = std::exp(x[i] - top);
          for (int64_t i = begin; i < end; ++i) y[i] /= sum;
        }
      },
      sequence_parts(offsets, 1));
}

// dX = Out * (dOut - sum over the sequence of dOut * Out).
template <class T>
BoundKernel sequence_softmax_grad(const KernelSite& site) {
  const int out = site.position("Out"), dout = site.position("Out@GRAD");
  const std::vector<int64_t> offsets = bound_offsets(site, "X");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [first, last] = k.range(static_cast<int64_t>(offsets.size()) - 1);
        const T* y = k.in<T>(out);
        const T* dy = k.in<T>(dout);
        T* dx = k.out<T>(0);
        for (int64_t s = first; s < last; ++s) {
          const int64_t begin = offsets[static_cast<size_t>(s)];
          const int64_t end = offsets[static_cast<size_t>(s) + 1];
          T sum = 0;
          for (int64_t i = begin; i < end; ++i) sum += dy[i] * y[i];
          for (int64_t i = begin; i < end; ++i) dx[i] = y[i] * (dy[i] - sum);
        }
      },
      sequence_parts(offsets, 1));
}

}  // namespace

void register_sequence_pool(Registry& ops) {
  OpSchema& row =
      ops.op("sequence_pool")
          .doc(
              "One row for every sequence of the last level: AVERAGE, SUM, SQRT (the sum over the "
              "root of the length), MAX, FIRST or LAST; an empty sequence gives pad_value")
          .in("X", "rows in sequences")
          .out("Out", "[sequences, ...]; the outer LoD levels of X")
          .out_intermediate("MaxIndex", "int32, for MAX: the row of X each element came from")
          .attr("is_test", false, "no gradient follows")
          .attr("pooltype", "AVERAGE", "how a sequence becomes one row")
          .one_of({"AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST"})
          .attr("pad_value", 0.0f, "what an empty sequence gives")
          .shape(pool_shape)
          .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return pool<T>(s); }))
          .grad({"X", "MaxIndex"})
          .grad_kernel(
              typed<float, double>([]<class T>(const KernelSite& s) { return pool_grad<T>(s); }));
  for (const std::string how : {"AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST"}) {
    row.sample([how](Draw& draw) {
      OpSample sample;
      sample.inputs["X"] = {
          draw_sequences(draw, {draw.size(1, 3)}, {.levels = draw.coin() ? 1 : 2})};
      sample.attrs["pooltype"] = how;
      sample.attrs["pad_value"] = 0.5f;
      return sample;
    });
  }

  ops.op("sequence_softmax")
      .doc("Softmax over each sequence of the last level")
      .in("X", "one number for every row: [rows] or [rows, 1]")
      .out("Out", "like X; every sequence sums to one")
      .attr("data_format", "AnyLayout", "accepted; changes no result")
      .shape(sequence_softmax_shape)
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return sequence_softmax<T>(s); }))
      .grad({"X", "Out"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return sequence_softmax_grad<T>(s); }))
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {draw_sequences(draw, {1}, {.levels = draw.coin() ? 1 : 2})};
        return sample;
      });
}

}  // namespace trireme
