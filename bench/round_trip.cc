// How long a cache line takes from one core to another and back; one number, nanoseconds.
//
// A virtual machine's cores are moved about by its host: now they share a cache, now they do not,
// and work on two threads takes up to twice as long. This says which.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

constexpr int kTrips = 100000;
alignas(64) std::atomic<int> turn{0};

void stay_on(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

// Of the cores this process may use, the first that is above `after`; -1: none.
int core_above(int after) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return -1;
  for (int core = after + 1; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) return core;
  }
  return -1;
}

void play(int mine) {
  for (int trip = 0; trip < kTrips; ++trip) {
    while (turn.load(std::memory_order_acquire) != 2 * trip + mine) {
    }
    turn.store(2 * trip + mine + 1, std::memory_order_release);
  }
}

}  // namespace

int main() {
  const int first = core_above(-1), second = core_above(first);
  if (second < 0) {
    std::fprintf(stderr, "round_trip needs two cores\n");
    return 1;
  }
  std::thread other([second] {
    stay_on(second);
    play(1);
  });
  stay_on(first);
  const auto before = std::chrono::steady_clock::now();
  play(0);
  other.join();
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - before;
  std::printf("%.0f\n", spent.count() / kTrips);
  return 0;
}
