// What passes may know about a machine.
#include "compile/target.h"

#include <gmock/gmock.h>

#include "cpu/onednn.h"
#include "cpu/vectorised.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using ::testing::HasSubstr;

TEST(Target, OfACpuPlaceIsThisMachine) {
  const Target target = target_of(cpu_place());
  EXPECT_EQ(target, cpu_target());
  EXPECT_EQ(target.device, Device::cpu);
  EXPECT_EQ(target.lanes, vector_width() == VectorWidth::avx512 ? 16 : 8);
  EXPECT_EQ(target.blocked_images, has_onednn() && vector_width() != VectorWidth::base);
  EXPECT_TRUE(target.shared_memory);
}

TEST(Target, IsTheSameForEveryCpuPlace) {
  EXPECT_EQ(target_of(Place{Device::cpu, 3}), cpu_target());
}

TEST(Target, OfAKindWithoutKernelsSaysSo) {
  EXPECT_THAT(error_of([] {
                target_of(Place{Device::cuda_pinned, 0});
              }),
              HasSubstr("no kernels for gpu"));
}

}  // namespace
}  // namespace trireme::testing
