// Names of places.
#include "core/place.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Place, NamesDeviceAndId) {
  EXPECT_EQ(to_string(cpu_place()), "cpu");
  EXPECT_EQ(to_string(cuda_place(2)), "gpu:2");
  EXPECT_EQ(to_string(Place{DeviceKind::cuda_pinned, 0}), "gpu_pinned");
  EXPECT_NE(cuda_place(0), cuda_place(1));
}

}  // namespace
}  // namespace trireme
