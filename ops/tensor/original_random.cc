// The original's truncated normal numbers, rounding for rounding.
#include "ops/tensor/original_random.h"

#include <array>
#include <numbers>

namespace trireme {
namespace {

// Wichura's algorithm AS 241 (PPND16, the ratio for the middle), as an inverse error function. The
// original uses it in single precision, and up to two deviations, where it is good to five digits.
constexpr std::array<double, 8> kOver = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                         1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                         4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                         3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> kUnder = {1.0,
                                          4.2313330701600911252e+1,
                                          6.8718700749205790830e+2,
                                          5.3941960214247511077e+3,
                                          2.1213794301586595867e+4,
                                          3.9307895800092710610e+4,
                                          2.8729085735721942674e+4,
                                          5.2264952788528545610e+3};

float polynomial(const std::array<double, 8>& coefficients, double scale, float at) {
  auto sum = static_cast<float>(coefficients.back() * scale);
  for (size_t i = coefficients.size() - 1; i > 0; --i) {
    sum = sum * at + static_cast<float>(coefficients[i - 1] * scale);
  }
  return sum;
}

float inverse_error_function(float x) {
  constexpr double kFromQuantile = 1 / (2 * std::numbers::sqrt2);
  const auto at = static_cast<float>(0.180625 - 0.25 * static_cast<double>(x) * x);
  return x * polynomial(kOver, kFromQuantile, at) / polynomial(kUnder, 1, at);
}

float below(double deviations) {
  return static_cast<float>((1 + std::erf(deviations / std::numbers::sqrt2)) / 2);
}

}  // namespace

double original_truncated_normal(OriginalRandom& random) {
  static const float low = below(-2), high = below(2);
  const float drawn = random.uniform<float>(std::numeric_limits<float>::min(), 1);
  const float share = low + (high - low) * drawn;
  return std::numbers::sqrt2 * static_cast<double>(inverse_error_function(2 * share - 1));
}

}  // namespace trireme
