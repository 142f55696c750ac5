// Tiled sums against plain ones, for any axes.
#include "cpu/tiled_sum.h"

#include <gtest/gtest.h>

#include <random>

#include "core/text.h"
#include "tests/support/seed.h"

namespace trireme::testing {
namespace {

// Each element goes to the result that has its index along the kept axes.
std::vector<double> sums_by_index(const Shape& shape, const std::vector<int>& axes,
                                  const std::vector<float>& x) {
  std::vector<double> sums;
  for (size_t i = 0; i < x.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    size_t result = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      const int64_t index = rest % shape.at(d);
      rest /= shape.at(d);
      if (std::find(axes.begin(), axes.end(), d) != axes.end()) continue;
      result += static_cast<size_t>(index) * step;
      step *= static_cast<size_t>(shape.at(d));
    }
    if (sums.size() <= result) sums.resize(result + 1, 0.0);
    sums[result] += x[i];
  }
  return sums;
}

std::vector<float> sums_by_lines(const TiledSum& sum, const std::vector<float>& x,
                                 int64_t lines_at_once) {
  std::vector<double> memory(sum.scratch() / sizeof(double));
  auto* scratch = reinterpret_cast<std::byte*>(memory.data());
  for (int64_t chunk = 0; chunk < sum.chunks(); ++chunk) {
    const auto [first, last] = sum.lines_of(chunk);
    double* sums = sum.start(chunk, scratch);
    for (int64_t line = first; line < last; line += lines_at_once) {
      sum.add({line, std::min(line + lines_at_once, last)}, x.data() + sum.begin(line), sums);
    }
  }
  std::vector<float> results(static_cast<size_t>(sum.results()));
  sum.finish(scratch, 1, results.data());
  return results;
}

TEST(TiledSum, AddsUpAnyAxesThatFit) {
  constexpr int64_t kMost = 200000;  // elements of one shape
  std::mt19937 random(static_cast<uint32_t>(test_seed()));
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::uniform_real_distribution<float> number(-1, 1);
  int fitted = 0;
  for (int round = 0; round < 200; ++round) {
    Shape shape;
    std::vector<int> axes;
    const int64_t rank = draw(1, 5);
    for (int d = 0; d < rank; ++d) {
      const int64_t extent = draw(0, 3) == 0 ? draw(1, 90) : draw(1, 7);
      shape.push_back(std::min(extent, kMost / shape.count()));
      if (draw(0, 1)) axes.push_back(d);
    }
    if (axes.empty()) continue;
    const auto sum = TiledSum::make(shape, axes);
    if (!sum) continue;
    ++fitted;
    std::vector<float> x(static_cast<size_t>(shape.count()));
    for (float& value : x) value = number(random);
    const std::vector<double> expected = sums_by_index(shape, axes, x);
    const std::vector<float> found = sums_by_lines(*sum, x, draw(1, 9));
    ASSERT_EQ(found.size(), expected.size()) << shape;
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-5 * static_cast<double>(sum->folded()))
          << shape << ", result " << i;
    }
    EXPECT_EQ(found, sums_by_lines(*sum, x, 1)) << shape << ": other lines at once, other bits";
  }
  EXPECT_GT(fitted, 20);
}

TEST(TiledSum, ReadsEveryElementOnceInOrder) {
  for (const Shape& shape : {Shape{7, 3, 100, 20}, Shape{9000, 16}, Shape{5, 4, 10000}}) {
    const auto sum = *TiledSum::make(shape, {0, 2});
    int64_t at = 0;
    for (int64_t chunk = 0; chunk < sum.chunks(); ++chunk) {
      const auto [first, last] = sum.lines_of(chunk);
      EXPECT_EQ(sum.begin(first), at);
      at = sum.begin(last);
    }
    EXPECT_EQ(at, shape.count());
  }
}

TEST(TiledSum, LeavesAloneWhatChangesTooOften) {
  EXPECT_TRUE(TiledSum::fits({2, 3, 4, 5}, {0, 2}));
  EXPECT_FALSE(TiledSum::fits({2, 3, 4, 5, 6}, {0, 2, 4}));
  EXPECT_TRUE(TiledSum::fits({Dim(), 3}, {0})) << "a reduced extent may be unknown";
  EXPECT_FALSE(TiledSum::fits({Dim(), 3}, {1})) << "a kept one may not";
  EXPECT_FALSE(TiledSum::fits({300, 300, 2}, {2})) << "too many results for every chunk";
}

}  // namespace
}  // namespace trireme::testing
