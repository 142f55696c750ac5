// How a tensor is cut into lines and chunks, and the loops that add lines up.
#include "cpu/tiled_sum.h"

#include <algorithm>

#include "cpu/vectorised.h"

namespace trireme {
namespace {

constexpr int64_t kMostResults = 65536, kMostChunks = 8;
constexpr int64_t kLongRow = 4096;     // elements of a line whose results are one
constexpr int64_t kLineOfRows = 8192;  // elements of a line of rows, about

struct Group {
  bool reduced;
  int64_t extent;  // -1: not known
};

// Neighbours of one kind merged, without extents of 1; outermost first.
std::vector<Group> groups_of(const Shape& shape, const std::vector<int>& axes) {
  std::vector<Group> groups;
  for (int d = 0; d < shape.rank(); ++d) {
    const Group own{std::find(axes.begin(), axes.end(), d) != axes.end(),
                    shape[d].known() ? shape.at(d) : -1};
    if (own.extent == 1) continue;
    if (groups.empty() || groups.back().reduced != own.reduced) {
      groups.push_back(own);
    } else {
      int64_t& extent = groups.back().extent;
      extent = extent < 0 || own.extent < 0 ? -1 : extent * own.extent;
    }
  }
  return groups;
}

double sum_row(const float* x, int64_t n) {
  constexpr int64_t kSums = 16;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int64_t lane = 0; lane < kSums; ++lane) sums[lane] += static_cast<double>(x[i + lane]);
  }
  for (; i < n; ++i) sums[i % kSums] += static_cast<double>(x[i]);
  for (int64_t half = kSums / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

constexpr int64_t kVector = 16, kWidest = 1024;

// Rows that fill no vector are taken several at a time, as one row that does.
int64_t rows_side_by_side(int64_t columns) {
  int64_t rows = 1;
  while (columns * rows % kVector != 0) rows *= 2;
  return columns * rows <= kWidest ? rows : 1;
}

// to[l] = the sum of x[r * pitch + l] over the rows. Width: a constant or not.
template <class Width>
void sum_columns(const float* x, int64_t rows, int64_t pitch, Width width, float* to) {
  float lanes[64];
  for (int64_t l = 0; l < width; ++l) lanes[l] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t l = 0; l < width; ++l) lanes[l] += x[r * pitch + l];
  }
  for (int64_t l = 0; l < width; ++l) to[l] = lanes[l];
}

// The rows of a line are added in float, then to the sums in double.
void sum_lines(const float* x, int64_t rows, int64_t columns, int64_t together, double* sums) {
  const int64_t wide = columns * together;
  for (int64_t first = 0; first < wide; first += kWidest) {
    const int64_t width = std::min(kWidest, wide - first);
    float parts[kWidest];
    int64_t c = 0;
    for (; c + 64 <= width; c += 64) {
      sum_columns(x + first + c, rows, wide, std::integral_constant<int64_t, 64>(), parts + c);
    }
    for (; c + kVector <= width; c += kVector) {
      sum_columns(x + first + c, rows, wide, std::integral_constant<int64_t, kVector>(), parts + c);
    }
    if (c < width) sum_columns(x + first + c, rows, wide, width - c, parts + c);
    // Either all of a wide row is here, or it is one row.
    const int64_t step = together == 1 ? width : columns;
    for (int64_t at = 0; at < width; at += step) {
      for (int64_t l = 0; l < step; ++l) sums[first + l] += static_cast<double>(parts[at + l]);
    }
  }
}

}  // namespace

double sum_of(const float* x, int64_t n) {
  double sum = 0;
  vectorised([&] { sum = sum_row(x, n); });
  return sum;
}

bool TiledSum::fits(const Shape& shape, const std::vector<int>& axes) {
  const std::vector<Group> groups = groups_of(shape, axes);
  const bool columns = !groups.empty() && !groups.back().reduced;
  if (groups.size() > (columns ? 4u : 3u)) return false;
  int64_t results = 1;
  for (const Group& group : groups) {
    if (group.reduced) continue;
    if (group.extent < 0) return false;
    results *= group.extent;
  }
  return results <= kMostResults;
}

std::optional<TiledSum> TiledSum::make(const Shape& shape, const std::vector<int>& axes) {
  if (!fits(shape, axes)) return std::nullopt;
  std::vector<Group> groups = groups_of(shape, axes);
  TiledSum made;
  const auto take = [&](bool reduced, int64_t& extent) {
    if (groups.empty() || groups.back().reduced != reduced) return;
    extent = groups.back().extent;
    groups.pop_back();
  };
  take(false, made.columns_);
  take(true, made.rows_);
  take(false, made.blocks_);
  take(true, made.outer_);
  made.cut();
  return made;
}

void TiledSum::cut() {
  elements_ = outer_ * blocks_ * rows_ * columns_;
  results_ = blocks_ * columns_;
  side_by_side_ = columns_ == 1 ? 1 : rows_side_by_side(columns_);
  // Sixteen terms at least, 64 at most, go into each float sum.
  rows_per_line_ = columns_ <= 1
                       ? kLongRow
                       : std::clamp<int64_t>(kLineOfRows / columns_, 16, 64) * side_by_side_;
  lines_per_block_ = (rows_ + rows_per_line_ - 1) / rows_per_line_;
  lines_ = outer_ * blocks_ * lines_per_block_;
  const int64_t most =
      results_ == 0 ? 1 : std::min({elements_ / 16384, elements_ / (16 * results_), lines_});
  chunks_ = std::clamp<int64_t>(most, 1, kMostChunks);
}

int64_t TiledSum::longest_line() const { return std::min(rows_, rows_per_line_) * columns_; }

int64_t TiledSum::begin(int64_t line) const {
  if (line == 0) return 0;
  if (line == lines_) return elements_;
  return (line / lines_per_block_ * rows_ + line % lines_per_block_ * rows_per_line_) * columns_;
}

TiledSum::Lines TiledSum::lines_of(int64_t chunk) const {
  if (chunks_ == 1) return {0, lines_};
  return {lines_ * chunk / chunks_, lines_ * (chunk + 1) / chunks_};
}

size_t TiledSum::scratch() const {
  return static_cast<size_t>(chunks() * results()) * sizeof(double);
}

double* TiledSum::start(int64_t chunk, std::byte* scratch) const {
  double* sums = reinterpret_cast<double*>(scratch) + chunk * results();
  std::fill(sums, sums + results(), 0.0);
  return sums;
}

void TiledSum::add(Lines lines, const float* x, double* sums) const {
  vectorised([=, this, together = side_by_side_] {
    const float* at = x;
    int64_t block = lines.first == 0 ? 0 : lines.first / lines_per_block_ % blocks_;
    int64_t within = lines.first == 0 ? 0 : lines.first % lines_per_block_;
    for (int64_t line = lines.first; line < lines.last; ++line) {
      double* to = sums + block * columns_;
      const int64_t rows = std::min(rows_per_line_, rows_ - within * rows_per_line_);
      if (++within == lines_per_block_) {
        within = 0;
        if (++block == blocks_) block = 0;
      }
      if (columns_ == 1) {
        *to += sum_row(at, rows);
      } else {
        const int64_t whole = together == 1 ? rows : rows / together;
        sum_lines(at, whole, columns_, together, to);
        const int64_t done = whole * together;
        if (done < rows) sum_lines(at + done * columns_, rows - done, columns_, 1, to);
      }
      at += rows * columns_;
    }
  });
}

void TiledSum::finish(const std::byte* scratch, double divisor, float* out) const {
  const auto* sums = reinterpret_cast<const double*>(scratch);
  const int64_t n = results(), parts = chunks();
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < parts; ++chunk) sum += sums[chunk * n + i];
    out[i] = static_cast<float>(sum / divisor);
  }
}

}  // namespace trireme
