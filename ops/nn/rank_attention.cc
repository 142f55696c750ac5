// rank_attention: every row times the blocks of a parameter that belong to its rank and to the
// ranks of the rows beside it.
#include <algorithm>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

void rank_attention_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const Shape &offset = op.in("RankOffset").shape, &param = op.in("RankParam").shape;
  const int64_t ranks = op.attr<int32_t>("MaxRank");
  require_floating(op, "X");
  if (op.in("RankOffset").known && op.in("RankOffset").dtype != DType::int32) {
    throw op.error(cat("RankOffset holds ", name_of(op.in("RankOffset").dtype)))
        .fix("give int32: ranks from 1 on, 0 for none, and indices of rows");
  }
  if (x.shape.rank() != 2 || offset.rank() != 2 || !offset[0].may_equal(x.shape[0]) ||
      !offset[1].may_equal(2 * ranks + 1)) {
    throw op.error(cat("X has shape ", x.shape, " and RankOffset ", offset))
        .fix(cat("with MaxRank ", ranks, " give X [rows, columns] and RankOffset [rows, ",
                 2 * ranks + 1, "]"));
  }
  if (param.rank() != 2 || !param[0].may_equal(x.shape[1] * Dim(ranks * ranks))) {
    throw op.error(cat("RankParam has shape ", param, " but X ", x.shape))
        .fix(cat("give RankParam a block of X's columns for each of ", ranks * ranks,
                 " pairs of ranks, one below the other"));
  }
  op.set_out("Out", x.dtype, {x.shape[0], param[1]});
}

// A row of RankOffset is the row's own rank, then (rank, index of a row of X) for each neighbour.
// Ranks count from 1; a pair with a rank below that has no part in the sum.
struct RankedPairs {
  int64_t rows, columns, width, ranks;
  int x, offset, param;

  explicit RankedPairs(const KernelSite& site)
      : rows(site.in("X").shape.at(0)),
        columns(site.in("X").shape.at(1)),
        width(site.in("RankParam").shape.at(1)),
        ranks(site.attr<int32_t>("MaxRank")),
        x(site.position("X")),
        offset(site.position("RankOffset")),
        param(site.position("RankParam")) {}

  int64_t rank_at(const int32_t* row, int64_t row_number, int64_t at) const {
    if (row[at] <= ranks) return row[at];
    throw Error(ErrorKind::out_of_range, cat("row ", row_number, " of RankOffset has rank ",
                                             row[at], " but MaxRank is ", ranks))
        .fix("give ranks from 1 to MaxRank, 0 for none");
  }

  // visit(row, row of X, block of the parameter) for each pair of rows [begin, end).
  template <class F>
  void each(const KernelArgs& k, int64_t begin, int64_t end, F visit) const {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t* offsets = k.in<int32_t>(offset) + row * (2 * ranks + 1);
      const int64_t own = rank_at(offsets, row, 0);
      if (own < 1) continue;
      for (int64_t pair = 0; pair < ranks; ++pair) {
        const int64_t rank = rank_at(offsets, row, 2 * pair + 1), from = offsets[2 * pair + 2];
        if (rank < 1) continue;
        if (from < 0 || from >= rows) {
          throw Error(ErrorKind::out_of_range, cat("row ", row, " of RankOffset names row ", from,
                                                   " but X has ", rows, " rows"))
              .fix("give indices of X's rows, from 0");
        }
        visit(row, from, (own - 1) * ranks + rank - 1);
      }
    }
  }
};

template <class T>
BoundKernel rank_attention(const KernelSite& site) {
  const RankedPairs at(site);
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(at.rows);
        T* out = k.out<T>(0);
        std::fill(out + begin * at.width, out + end * at.width, T{0});
        at.each(k, begin, end, [&](int64_t row, int64_t from, int64_t block) {
          const T* x = k.in<T>(at.x) + from * at.columns;
          const T* weights = k.in<T>(at.param) + block * at.columns * at.width;
          for (int64_t i = 0; i < at.columns; ++i) {
            for (int64_t j = 0; j < at.width; ++j) {
              out[row * at.width + j] += x[i] * weights[i * at.width + j];
            }
          }
        });
      },
      parts_for(at.rows * at.ranks * at.columns * at.width));
}

// Several rows meet in one row of X and in one block, so a part has rows, or blocks, of its own to
// write, and looks at all pairs.
template <class T>
BoundKernel rank_attention_grad(const KernelSite& site) {
  const RankedPairs at(site);
  const int grad = site.position("Out@GRAD");
  const int dx = site.out_position("X@GRAD"), dparam = site.out_position("RankParam@GRAD");
  const int64_t work = at.rows * at.ranks * at.columns * at.width;
  BoundKernel kernel;
  if (dx >= 0) {
    kernel.add(
        [=](const KernelArgs& k) {
          const auto [begin, end] = k.range(at.rows);
          T* out = k.out<T>(dx);
          std::fill(out + begin * at.columns, out + end * at.columns, T{0});
          at.each(k, 0, at.rows,
                  [&, begin = begin, end = end](int64_t row, int64_t to, int64_t block) {
                    if (to < begin || to >= end) return;
                    const T* g = k.in<T>(grad) + row * at.width;
                    const T* weights = k.in<T>(at.param) + block * at.columns * at.width;
                    for (int64_t i = 0; i < at.columns; ++i) {
                      T sum = 0;
                      for (int64_t j = 0; j < at.width; ++j)
                        sum += g[j] * weights[i * at.width + j];
                      out[to * at.columns + i] += sum;
                    }
                  });
        },
        parts_for(work));
  }
  if (dparam >= 0) {
    const int64_t blocks = at.ranks * at.ranks, size = at.columns * at.width;
    kernel.add(
        [=](const KernelArgs& k) {
          const auto [begin, end] = k.range(blocks);
          T* out = k.out<T>(dparam);
          std::fill(out + begin * size, out + end * size, T{0});
          at.each(k, 0, at.rows,
                  [&, begin = begin, end = end](int64_t row, int64_t from, int64_t block) {
                    if (block < begin || block >= end) return;
                    const T* x = k.in<T>(at.x) + from * at.columns;
                    const T* g = k.in<T>(grad) + row * at.width;
                    for (int64_t i = 0; i < at.columns; ++i) {
                      for (int64_t j = 0; j < at.width; ++j)
                        out[block * size + i * at.width + j] += x[i] * g[j];
                    }
                  });
        },
        parts_for(work));
  }
  return kernel;
}

OpSample rank_attention_sample(Draw& draw) {
  const int64_t rows = draw.size(1, 4), columns = draw.size(1, 3), ranks = draw.size(1, 3);
  Tensor offset = draw.ints({rows, 2 * ranks + 1}, 0, ranks, DType::int32);
  const Tensor indices = draw.ints({rows, ranks}, 0, rows - 1, DType::int32);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t pair = 0; pair < ranks; ++pair) {
      offset.data<int32_t>()[row * (2 * ranks + 1) + 2 * pair + 2] =
          indices.data<int32_t>()[row * ranks + pair];
    }
  }
  return OpSample{
      .inputs = {{"X", {draw.uniform({rows, columns})}},
                 {"RankOffset", {offset}},
                 {"RankParam", {draw.uniform({ranks * ranks * columns, draw.size(1, 3)})}}},
      .attrs = {{"MaxRank", static_cast<int32_t>(ranks)}}};
}

}  // namespace

void register_rank_attention(Registry& ops) {
  ops.op("rank_attention")
      .doc("Out[i] = sum over i's neighbours of X[neighbour] times the block of both ranks")
      .in("X", "[rows, columns]")
      .in("RankOffset",
          "int32 [rows, 2 * MaxRank + 1]: a row's rank, then (rank, row of X) of its "
          "neighbours; rank 0: none")
      .in("RankParam", "[MaxRank * MaxRank * columns, width]: a block for each pair of ranks")
      .out("Out", "[rows, width]; zeros for rows without a rank")
      .attr("MaxRank", 3, "ranks are from 1 to this")
      .at_least(1)
      .shape(rank_attention_shape)
      .traits({.can_fail = true})
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return rank_attention<T>(s); }))
      .grad({"X", "RankOffset", "RankParam"})
      .no_grad({"RankOffset"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return rank_attention_grad<T>(s); }))
      .sample(rank_attention_sample);
}

}  // namespace trireme
