// Copies of matrices for products: plain and turned over, of sizes that fill no block.
#include <gtest/gtest.h>

#include <vector>

#include "cpu/staging.h"

namespace trireme {
namespace {

struct Sizes {
  int64_t rows, columns, pitch;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {8, 8, 8}, {16, 40, 48}, {19, 37, 37}, {40, 7, 9}};

std::vector<float> numbered(const Sizes& s) {
  std::vector<float> made(static_cast<size_t>(s.rows * s.pitch));
  for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(i);
  return made;
}

TEST(Staging, TurnsRowsIntoColumns) {
  for (const Sizes& s : kSizes) {
    const std::vector<float> from = numbered(s);
    const int64_t pitch = staging_pitch(s.rows);
    std::vector<float> to(static_cast<size_t>(s.columns * pitch), -1);
    turn_rows({from.data(), s.rows, s.columns, s.pitch}, to.data(), pitch);
    for (int64_t r = 0; r < pitch; ++r) {
      for (int64_t c = 0; c < s.columns; ++c) {
        const float wanted = r < s.rows ? from[static_cast<size_t>(r * s.pitch + c)] : -1;
        EXPECT_EQ(to[static_cast<size_t>(c * pitch + r)], wanted) << r << ", " << c;
      }
    }
  }
}

TEST(Staging, CopiesRowsToAnotherPitch) {
  for (const Sizes& s : kSizes) {
    const std::vector<float> from = numbered(s);
    const int64_t pitch = staging_pitch(s.columns);
    std::vector<float> to(static_cast<size_t>(s.rows * pitch), -1);
    copy_rows({from.data(), s.rows, s.columns, s.pitch}, to.data(), pitch);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t c = 0; c < pitch; ++c) {
        const float wanted = c < s.columns ? from[static_cast<size_t>(r * s.pitch + c)] : -1;
        EXPECT_EQ(to[static_cast<size_t>(r * pitch + c)], wanted) << r << ", " << c;
      }
    }
  }
}

TEST(Staging, APitchIsAnOddNumberOfCacheLines) {
  EXPECT_EQ(staging_pitch(1), 16);
  EXPECT_EQ(staging_pitch(17), 48);
  EXPECT_EQ(staging_pitch(1024), 1040);
}

}  // namespace
}  // namespace trireme
