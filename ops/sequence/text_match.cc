// How well two texts match, word by word: match_matrix_tensor, sequence_topk_avg_pooling.
#include <algorithm>

#include "cpu/gemm_kernel.h"
#include "ops/loops.h"
#include "ops/rules.h"
#include "ops/sequence/images_in_rows.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

// ---- match_matrix_tensor

void match_matrix_shape(OpView& op) {
  const ValueInfo &x = op.in("X"), &y = op.in("Y");
  const Shape& w = op.in("W").shape;
  const int64_t maps = op.attr<int32_t>("dim_t");
  require_floating(op, "X");
  if (x.shape.rank() != 2 || y.shape.rank() != 2 || !x.shape[1].may_equal(y.shape[1])) {
    throw op.error(cat("X has shape ", x.shape, " and Y ", y.shape))
        .fix("give X [rows, width] and Y [rows, width]");
  }
  if (!w.may_equal({x.shape[1], maps, x.shape[1]})) {
    throw op.error(cat("W has shape ", w, " but X ", x.shape, " and dim_t is ", maps))
        .fix(cat("give W the shape [", x.shape[1], ", ", maps, ", ", x.shape[1], "]"));
  }
  const std::vector<int64_t>*rows = sequence_offsets(op, "X"), *columns = sequence_offsets(op, "Y");
  Dim matched;
  Lod lod;
  if (rows && columns) {
    lod = {image_offsets(op, *rows, "X", *columns, "Y", maps)};
    matched = lod[0].back();
  }
  op.set_out("Out", x.dtype, {matched, 1});
  set_lod(op, "Out", lod, 1);
  op.set_out("Tmp", x.dtype, {x.shape[0] * Dim(maps) * x.shape[1], 1});
}

// X is [rows, width], Tmp = X W is [rows, maps * width], Y [columns, width].
struct TextMatch {
  std::vector<int64_t> rows, columns, images;  // where each text, and its matches, begin
  int64_t width, maps, wide;
  int parts, slices;  // of the texts, and of all rows

  explicit TextMatch(const KernelSite& site)
      : rows(bound_offsets(site, "X")),
        columns(bound_offsets(site, "Y")),
        width(site.in("X").shape.at(1)),
        maps(site.attr<int32_t>("dim_t")),
        wide(maps * width) {
    images = image_offsets(site, rows, "X", columns, "Y", maps);
    parts = static_cast<int>(std::clamp<int64_t>(texts(), 1, 16));
    slices = static_cast<int>(std::clamp<int64_t>(rows.back() / 64, 1, 8));
  }
  int64_t texts() const { return static_cast<int64_t>(rows.size()) - 1; }

  // f(first row, rows, first column, columns, first match) for the texts of this part.
  template <class F>
  void each(const KernelArgs& k, F f) const {
    const auto [begin, end] = k.range(texts());
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      f(rows[i], rows[i + 1] - rows[i], columns[i], columns[i + 1] - columns[i], images[i]);
    }
  }
};

template <class T>
BoundKernel match_matrix(const KernelSite& site, Product<T> product) {
  const TextMatch at(site);
  const int x = site.position("X"), y = site.position("Y"), w = site.position("W");
  const int out = site.out_position("Out"), tmp = site.out_position("Tmp");
  BoundKernel kernel;
  kernel.add(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(at.rows.back());
        if (begin == end) return;
        product(Gemm<T>{.m = at.rows.back(),
                        .n = at.wide,
                        .k = at.width,
                        .a = k.in<T>(x),
                        .lda = at.width,
                        .b = k.in<T>(w),
                        .ldb = at.wide,
                        .c = k.out<T>(tmp),
                        .ldc = at.wide}
                    .rows(begin, end));
      },
      at.slices);
  kernel.add(
      [=](const KernelArgs& k) {
        at.each(k, [&](int64_t row, int64_t n, int64_t column, int64_t m, int64_t image) {
          for (int64_t map = 0; n * m > 0 && map < at.maps; ++map) {
            product({.m = n,
                     .n = m,
                     .k = at.width,
                     .a = k.out<T>(tmp) + row * at.wide + map * at.width,
                     .lda = at.wide,
                     .b = k.in<T>(y) + column * at.width,
                     .ldb = at.width,
                     .trans_b = true,
                     .c = k.out<T>(out) + image + map * n * m,
                     .ldc = m});
          }
        });
      },
      at.parts);
  return kernel;
}

// With G = dOut of one text and map: dTmp = G Y, dY = sum of G^T Tmp; then dX = dTmp W^T and
// dW = X^T dTmp over all rows.
template <class T>
BoundKernel match_matrix_grad(const KernelSite& site, Product<T> product) {
  const TextMatch at(site);
  const int x = site.position("X"), y = site.position("Y"), w = site.position("W");
  const int tmp = site.position("Tmp"), grad = site.position("Out@GRAD");
  const int dx = site.out_position("X@GRAD"), dy = site.out_position("Y@GRAD"),
            dw = site.out_position("W@GRAD");
  const int64_t all = at.rows.back();
  BoundKernel kernel;
  kernel.scratch = static_cast<size_t>(all * at.wide) * sizeof(T);
  kernel.add(
      [=](const KernelArgs& k) {
        T* dtmp = reinterpret_cast<T*>(k.scratch);
        at.each(k, [&](int64_t row, int64_t n, int64_t column, int64_t m, int64_t image) {
          T* to = dy >= 0 ? k.out<T>(dy) + column * at.width : nullptr;
          if (n == 0 || m == 0) {
            std::fill_n(dtmp + row * at.wide, n * at.wide, T{0});
            if (to) std::fill_n(to, m * at.width, T{0});
            return;
          }
          for (int64_t map = 0; map < at.maps; ++map) {
            const T* g = k.in<T>(grad) + image + map * n * m;
            const int64_t begin = row * at.wide + map * at.width;
            product({.m = n,
                     .n = at.width,
                     .k = m,
                     .a = g,
                     .lda = m,
                     .b = k.in<T>(y) + column * at.width,
                     .ldb = at.width,
                     .c = dtmp + begin,
                     .ldc = at.wide});
            if (!to) continue;
            product({.m = m,
                     .n = at.width,
                     .k = n,
                     .a = g,
                     .lda = m,
                     .trans_a = true,
                     .b = k.in<T>(tmp) + begin,
                     .ldb = at.wide,
                     .c = to,
                     .ldc = at.width,
                     .beta = map == 0 ? T{0} : T{1}});
          }
        });
      },
      at.parts);
  if (dx >= 0) {
    kernel.add(
        [=](const KernelArgs& k) {
          const auto [begin, end] = k.range(all);
          if (begin == end) return;
          product(Gemm<T>{.m = all,
                          .n = at.width,
                          .k = at.wide,
                          .a = reinterpret_cast<const T*>(k.scratch),
                          .lda = at.wide,
                          .b = k.in<T>(w),
                          .ldb = at.wide,
                          .trans_b = true,
                          .c = k.out<T>(dx),
                          .ldc = at.width}
                      .rows(begin, end));
        },
        at.slices);
  }
  if (dw >= 0) {
    kernel.add(
        [=](const KernelArgs& k) {
          if (all == 0) std::fill_n(k.out<T>(dw), at.width * at.wide, T{0});
          if (all == 0) return;
          product({.m = at.width,
                   .n = at.wide,
                   .k = all,
                   .a = k.in<T>(x),
                   .lda = at.width,
                   .trans_a = true,
                   .b = reinterpret_cast<const T*>(k.scratch),
                   .ldb = at.wide,
                   .c = k.out<T>(dw),
                   .ldc = at.wide});
        },
        1);
  }
  return kernel;
}

void register_match_matrix(Registry& ops) {
  const auto forward = []<class T>(const KernelSite& site, Product<T> product) {
    return match_matrix<T>(site, product);
  };
  const auto backward = []<class T>(const KernelSite& site, Product<T> product) {
    return match_matrix_grad<T>(site, product);
  };
  ops.op("match_matrix_tensor")
      .doc("How every word of a text matches every word of another: X W[:, map] Y^T for each map")
      .in("X", "[rows, width] in sequences")
      .in("Y", "[columns, width] in as many sequences")
      .in("W", "[width, dim_t, width]")
      .out("Out", "[elements, 1] in sequences: of each pair of texts dim_t images [rows, columns]")
      .out_intermediate("Tmp", "[rows * dim_t * width, 1]: X W")
      .required_attr<int32_t>("dim_t", "how many images")
      .at_least(1)
      .shape(match_matrix_shape)
      .kernel(with_onednn(forward), "onednn")
      .kernel(with_blas(forward), "blas")
      .kernel(with_reference(forward))
      .grad({"X", "Y", "W", "Tmp"})
      .grad_kernel(with_onednn(backward), "onednn")
      .grad_kernel(with_blas(backward), "blas")
      .grad_kernel(with_reference(backward))
      .sample([](Draw& draw) {
        const int64_t width = draw.size(1, 3), maps = draw.size(1, 3);
        return OpSample{.inputs = {{"X", {draw_sequences(draw, {width})}},
                                   {"Y", {draw_sequences(draw, {width})}},
                                   {"W", {draw.uniform({width, maps, width})}}},
                        .attrs = {{"dim_t", static_cast<int32_t>(maps)}}};
      });
}

// ---- sequence_topk_avg_pooling

void topk_avg_shape(OpView& op) {
  const ValueInfo& rows = op.in("ROW");
  const auto topks = op.attr<std::vector<int32_t>>("topks");
  if (topks.empty() || topks[0] < 1 ||
      std::adjacent_find(topks.begin(), topks.end(), std::greater_equal<>()) != topks.end()) {
    throw op.error(cat("topks is [", join(topks), "]"))
        .fix("give numbers that grow, from 1 on: [1, 3, 5]");
  }
  const int64_t channels = op.attr<int32_t>("channel_num");
  check_images(op, channels);
  op.set_out("Out", op.in("X").dtype,
             {rows.shape[0], static_cast<int64_t>(topks.size()) * channels});
  op.share_lod("ROW", "Out");
  op.set_out("pos", DType::int32, {rows.shape[0] * Dim(channels) * Dim(int64_t{topks.back()})});
}

struct TopKOfRows {
  ImagesInRows images;
  std::vector<int32_t> topks;
  int64_t most, features;  // places kept of a row of an image; numbers of a row of Out

  explicit TopKOfRows(const KernelSite& site)
      : images(site, site.attr<int32_t>("channel_num")),
        topks(site.attr<std::vector<int32_t>>("topks")),
        most(topks.back()),
        features(static_cast<int64_t>(topks.size()) * images.channels) {}

  // f(elements of one row of one image, their number, its numbers in Out, its places in pos).
  template <class F>
  void each_row(const KernelArgs& k, F f) const {
    const auto [begin, end] = k.range(images.count());
    for (int64_t i = begin; i < end; ++i) {
      const ImagesInRows::Image image = images.at(i);
      for (int64_t channel = 0; channel < images.channels; ++channel) {
        for (int64_t row = 0; row < image.height; ++row) {
          const int64_t line = image.first_row + row;
          f(image.begin + (channel * image.height + row) * image.width, image.width,
            line * features + channel * static_cast<int64_t>(topks.size()),
            (line * images.channels + channel) * most);
        }
      }
    }
  }
};

// The largest element after the one at `last`, of equal ones the first; -1: there is none.
template <class T>
int64_t next_largest(const T* x, int64_t n, int64_t last) {
  int64_t found = -1;
  for (int64_t i = 0; i < n; ++i) {
    const bool after = last < 0 || x[i] < x[last] || (x[i] == x[last] && i > last);
    if (after && (found < 0 || x[i] > x[found])) found = i;
  }
  return found;
}

template <class T>
BoundKernel topk_avg(const KernelSite& site) {
  const TopKOfRows at(site);
  const int x_at = site.position("X"), out_at = site.out_position("Out");
  const int pos_at = site.out_position("pos");
  return BoundKernel(
      [=](const KernelArgs& k) {
        at.each_row(k, [&](int64_t from, int64_t n, int64_t to, int64_t places) {
          const T* x = k.in<T>(x_at) + from;
          int32_t* pos = k.out<int32_t>(pos_at) + places;
          T sum = 0;
          size_t feature = 0;
          int64_t last = -1;
          for (int64_t kept = 0; kept < at.most; ++kept) {
            last = kept < n ? next_largest(x, n, last) : -1;
            pos[kept] = static_cast<int32_t>(last);
            if (last >= 0) sum += x[last];
            if (kept + 1 < at.topks[feature]) continue;
            k.out<T>(out_at)[to + static_cast<int64_t>(feature)] = sum / static_cast<T>(kept + 1);
            ++feature;
          }
        });
      },
      at.images.parts());
}

template <class T>
BoundKernel topk_avg_grad(const KernelSite& site) {
  const TopKOfRows at(site);
  const int pos_at = site.position("pos"), grad_at = site.position("Out@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        at.each_row(k, [&](int64_t from, int64_t n, int64_t to, int64_t places) {
          T* dx = k.out<T>(0) + from;
          std::fill_n(dx, n, T{0});
          const int32_t* pos = k.in<int32_t>(pos_at) + places;
          for (size_t feature = 0; feature < at.topks.size(); ++feature) {
            const int32_t top = at.topks[feature];
            const T each =
                k.in<T>(grad_at)[to + static_cast<int64_t>(feature)] / static_cast<T>(top);
            for (int32_t kept = 0; kept < top && pos[kept] >= 0; ++kept) dx[pos[kept]] += each;
          }
        });
      },
      at.images.parts());
}

}  // namespace

void register_text_match(Registry& ops) {
  register_match_matrix(ops);
  ops.op("sequence_topk_avg_pooling")
      .doc("Of every row of every image the mean of its largest numbers, missing ones as zeros")
      .in("X", "[elements, 1] in sequences: images of channel_num channels")
      .in("ROW", "its sequences have an image's height each")
      .in("COLUMN", "its sequences have an image's width each")
      .out("Out", "[rows, channel_num * numbers of topks], the LoD of ROW")
      .out_intermediate("pos",
                        "int32 [rows * channel_num * largest of topks]: their columns, or -1")
      .required_attr<std::vector<int32_t>>("topks", "how many numbers each mean is of")
      .required_attr<int32_t>("channel_num", "channels of an image")
      .at_least(1)
      .shape(topk_avg_shape)
      .kernel(
          typed_by<float, double>("X", []<class T>(const KernelSite& s) { return topk_avg<T>(s); }))
      .grad({"X", "ROW", "COLUMN", "pos"})
      .no_grad({"ROW", "COLUMN"})
      .grad_kernel(typed_by<float, double>(
          "X", []<class T>(const KernelSite& s) { return topk_avg_grad<T>(s); }))
      .sample([](Draw& draw) {
        OpSample sample = draw_images(draw, 2, true);
        sample.attrs["topks"] = std::vector<int32_t>{1, 3};
        sample.attrs["channel_num"] = int32_t{2};
        return sample;
      });
}

}  // namespace trireme
