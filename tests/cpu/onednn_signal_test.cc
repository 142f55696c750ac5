// Signals that arrive while the library's generated code runs.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "cpu/onednn.h"

namespace trireme::testing {
namespace {

TEST(Onednn, AHandlerOnTheSignalStackDisturbsNoProduct) {
  if (!has_onednn()) GTEST_SKIP() << "built without oneDNN";
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_ONSTACK;
  struct sigaction before {};
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> stop{false};
  std::thread sender([&stop, target = pthread_self()] {
    while (!stop) {
      usleep(200);
      pthread_kill(target, SIGUSR1);
    }
  });
  constexpr int64_t kSize = 256;
  const std::vector<float> ones(kSize * kSize, 1);
  int wrong = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> c(kSize * kSize);
    onednn_gemm({.m = kSize,
                 .n = kSize,
                 .k = kSize,
                 .a = ones.data(),
                 .lda = kSize,
                 .b = ones.data(),
                 .ldb = kSize,
                 .c = c.data(),
                 .ldc = kSize});
    for (const float value : c) wrong += value != kSize;
  }
  stop = true;
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace trireme::testing
