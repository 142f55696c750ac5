// The reference product against a direct loop, and the BLAS product against the reference.
#include "cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

template <class T>
struct Case {
  std::vector<T> a, b, c;
  Gemm<T> gemm;

  Case(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)
      : a(static_cast<size_t>(m * k)),
        b(static_cast<size_t>(k * n)),
        c(static_cast<size_t>(m * n)) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(std::sin(0.7 * double(i)));
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(std::cos(0.3 * double(i)));
    for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<T>(i % 7);
    gemm = {.m = m,
            .n = n,
            .k = k,
            .a = a.data(),
            .lda = trans_a ? m : k,
            .trans_a = trans_a,
            .b = b.data(),
            .ldb = trans_b ? k : n,
            .trans_b = trans_b,
            .c = c.data(),
            .ldc = n,
            .alpha = T(0.5),
            .beta = T(2)};
  }

  std::vector<double> direct() const {
    std::vector<double> sums(c.begin(), c.end());
    for (int64_t i = 0; i < gemm.m; ++i) {
      for (int64_t j = 0; j < gemm.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < gemm.k; ++p) {
          sum += double(gemm.trans_a ? gemm.a[p * gemm.lda + i] : gemm.a[i * gemm.lda + p]) *
                 double(gemm.trans_b ? gemm.b[j * gemm.ldb + p] : gemm.b[p * gemm.ldb + j]);
        }
        double& at = sums[static_cast<size_t>(i * gemm.n + j)];
        at = 2 * at + 0.5 * sum;
      }
    }
    return sums;
  }
};

template <class T>
void expect_direct(GemmFn<T> product, double tolerance) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 2}, {4, 8, 300}, {17, 33, 9}, {6, 1100, 5}};
  for (const auto& [m, n, k] : sizes) {
    for (int trans = 0; trans < 4; ++trans) {
      Case<T> made(m, n, k, trans & 1, trans & 2);
      const std::vector<double> expected = made.direct();
      product(made.gemm);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(made.c[i], expected[i], tolerance)
            << m << " x " << n << " x " << k << " transposed " << trans << " at " << i;
      }
    }
  }
}

TEST(ReferenceGemm, EqualsADirectLoop) {
  expect_direct<double>(reference_gemm<double>, 1e-12);
  expect_direct<float>(reference_gemm<float>, 1e-4);
}

TEST(BlasGemm, EqualsADirectLoop) {
  if (!has_blas()) GTEST_SKIP() << "built without BLAS";
  expect_direct<double>(blas_gemm<double>, 1e-12);
  expect_direct<float>(blas_gemm<float>, 1e-4);
}

TEST(ReferenceGemm, RowsAloneHaveTheBitsOfTheWhole) {
  for (const bool trans_a : {false, true}) {
    Case<float> whole(13, 21, 270, trans_a, false), cut(13, 21, 270, trans_a, false);
    reference_gemm(whole.gemm);
    reference_gemm(cut.gemm.rows(0, 5));
    reference_gemm(cut.gemm.rows(5, 6));
    reference_gemm(cut.gemm.rows(6, 13));
    EXPECT_EQ(std::memcmp(whole.c.data(), cut.c.data(), whole.c.size() * sizeof(float)), 0);
  }
}

TEST(Gemm, BetaZeroDoesNotReadC) {
  for (GemmFn<float> product : {reference_gemm<float>, blas_gemm<float>}) {
    if (product == &blas_gemm<float> && !has_blas()) continue;
    Case<float> made(2, 3, 4, false, false);
    std::fill(made.c.begin(), made.c.end(), NAN);
    made.gemm.beta = 0;
    product(made.gemm);
    for (const float value : made.c) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Gemm, NoTermsGiveBetaTimesC) {
  for (GemmFn<float> product : {reference_gemm<float>, blas_gemm<float>}) {
    if (product == &blas_gemm<float> && !has_blas()) continue;
    Case<float> made(2, 3, 1, false, false);
    made.gemm.k = 0;
    const std::vector<float> before = made.c;
    product(made.gemm);
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(made.c[i], 2 * before[i]);
  }
}

}  // namespace
}  // namespace trireme
