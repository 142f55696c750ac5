#include "cpu/team.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <utility>

namespace trireme {
namespace {

constexpr auto kSpin = std::chrono::microseconds(100);
constexpr int kSpinsBetweenLooks = 64;  // at the clock

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins while `waiting` says so; false when it still does after a while.
template <class Waiting>
bool spin_while(Waiting waiting) {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  for (;;) {
    for (int i = 0; i < kSpinsBetweenLooks; ++i) {
      if (!waiting()) return true;
      pause_briefly();
    }
    if (std::chrono::steady_clock::now() >= give_up) return !waiting();
  }
}

}  // namespace

Team::Team(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { serve(); });
}

Team::~Team() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::take_parts() {
  for (uint64_t open = open_.load(std::memory_order_acquire); (open & 0xffffffff) != 0;) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      continue;
    }
    try {
      (*work_)(static_cast<int>((open & 0xffffffff) - 1));
    } catch (...) {
      std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    open = open_.load(std::memory_order_acquire);
  }
}

void Team::serve() {
  uint32_t seen = 0;
  for (;;) {
    while (!spin_while([&] { return round_.load(std::memory_order_acquire) == seen; })) {
      round_.wait(seen, std::memory_order_acquire);
    }
    seen = round_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    take_parts();
  }
}

void Team::run(int parts, const std::function<void(int)>& work) {
  if (parts <= 0) return;
  work_ = &work;
  unfinished_.store(parts, std::memory_order_relaxed);
  const uint64_t round = (open_.load(std::memory_order_relaxed) >> 32) + 1;
  open_.store(round << 32 | static_cast<uint64_t>(parts), std::memory_order_release);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_parts();
  while (!spin_while([&] { return unfinished_.load(std::memory_order_acquire) != 0; })) {
    sched_yield();  // the thread that owns the last part may be waiting for this core
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

namespace {

// The team and who holds it. Never destroyed: workers may be asleep when the process ends.
struct Shared {
  std::mutex mutex;
  std::unique_ptr<Team> team;
  bool leased = false;
};

Shared*& shared() {
  static Shared* state = [] {
    // A forked child has none of the threads: it starts with a fresh state and leaks the old one.
    pthread_atfork(nullptr, nullptr, [] { shared() = new Shared; });
    return new Shared;
  }();
  return state;
}

}  // namespace

Team* TeamLease::team() {
  if (asked_ || threads_ <= 1) return team_;
  asked_ = true;
  Shared& state = *shared();
  std::lock_guard lock(state.mutex);
  if (state.leased) return nullptr;
  if (!state.team || state.team->size() != threads_) state.team = std::make_unique<Team>(threads_);
  state.leased = true;
  return team_ = state.team.get();
}

TeamLease::~TeamLease() {
  if (!team_) return;
  Shared& state = *shared();
  std::lock_guard lock(state.mutex);
  if (state.team.get() == team_) state.leased = false;
}

}  // namespace trireme
