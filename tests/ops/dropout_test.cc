// dropout: what is zeroed, what grows, and what repeats.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

Tensors dropout(Attrs attrs, Tensors more = {}) {
  more["X"] = {filled(DType::float32, {50, 40}, 1)};
  return run_op({.type = "dropout", .inputs = std::move(more), .attrs = std::move(attrs)});
}

std::vector<double> out(const Tensors& tensors) { return numbers(tensors.at("Out")[0]); }

TEST(Dropout, ZeroesItsShareAndKeepsTheMask) {
  const Tensors made = dropout({{"dropout_prob", 0.25f}});
  const auto values = out(made);
  // The count of 2000 deviates by 19.4: six times that happens once in 5e8 runs.
  EXPECT_NEAR(static_cast<double>(std::count(values.begin(), values.end(), 0.0)), 500, 116);
  EXPECT_EQ(made.at("Mask")[0].dtype(), DType::uint8);
  EXPECT_EQ(values, numbers(made.at("Mask")[0]));
}

TEST(Dropout, UpscaleMakesWhatIsKeptLarger) {
  for (const double value :
       out(dropout({{"dropout_prob", 0.5f},
                    {"dropout_implementation", std::string("upscale_in_train")}}))) {
    ASSERT_TRUE(value == 0 || value == 2);
  }
}

TEST(Dropout, TestingKeepsEverything) {
  EXPECT_THAT(out(dropout({{"dropout_prob", 0.5f}, {"is_test", true}})), Each(0.5));
  EXPECT_THAT(out(dropout({{"dropout_prob", 0.5f},
                           {"is_test", true},
                           {"dropout_implementation", std::string("upscale_in_train")}})),
              Each(1.0));
}

TEST(Dropout, ADropOfEverythingLeavesZeros) {
  EXPECT_THAT(out(dropout({{"dropout_prob", 1.0f},
                           {"dropout_implementation", std::string("upscale_in_train")}})),
              Each(0.0));
}

TEST(Dropout, AFixedSeedRepeats) {
  const Attrs fixed{{"fix_seed", true}, {"seed", 5}};
  EXPECT_EQ(out(dropout(fixed)), out(dropout(fixed)));
  EXPECT_NE(out(dropout(fixed)), out(dropout({{"fix_seed", true}, {"seed", 6}})));
}

TEST(Dropout, TheSeedTensorDecidesAlone) {
  const Tensors seed{{"Seed", {make_tensor<int32_t>({1}, {5})}}};
  EXPECT_EQ(out(dropout({}, seed)), out(dropout({{"seed", 3}}, seed)));
}

TEST(Dropout, RefusesAProbabilityAboveOne) {
  EXPECT_THAT(error_of([] { dropout({{"dropout_prob", 1.5f}}); }), HasSubstr("dropout_prob"));
}

}  // namespace
}  // namespace trireme::testing
