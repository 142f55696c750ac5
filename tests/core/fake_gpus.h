// Two fake devices as the GPUs of a test.
#pragma once

#include <gtest/gtest.h>

#include "core/device_library.h"
#include "tests/core/fake_device.h"

namespace trireme::testing {

class FakeGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    use_device_library(
        DeviceLibrary{.count = 2, .device = [this](int id) { return &gpus[id]; }, .problem = {}});
  }
  void TearDown() override {
    EXPECT_EQ(gpus[0].in_use() + gpus[1].in_use(), 0u) << "all memory goes back";
    use_device_library(std::nullopt);
  }
  FakeDevice gpus[2] = {FakeDevice(0), FakeDevice(1)};
};

}  // namespace trireme::testing
