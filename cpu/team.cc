// Threads that wait for work by spinning a little and then sleeping; each has a share of the parts.
#include "cpu/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
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

Team::Team(int threads) : shares_(new Share[static_cast<size_t>(std::max(threads, 1))]) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

Team::~Team() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A part of the member's share, its first if it is the taker's own, else its last; -1: none left.
int Team::take(int member, uint64_t job, bool own) {
  const uint64_t round = job >> 32;
  const auto parts = static_cast<int64_t>(job & 0xffffffff);
  const auto in_a_word = [=](int64_t first, int64_t last) {
    return round << 32 | static_cast<uint64_t>(first << 16 | last);
  };
  const int64_t begin = parts * member / size(), end = parts * (member + 1) / size();
  if (begin == end) return -1;
  std::atomic<uint64_t>& open = shares_[static_cast<size_t>(member)].open;
  uint64_t seen = open.load(std::memory_order_acquire);
  for (;;) {
    const bool begun = seen >> 32 == round;
    // Of a later round, then this one is over; of an earlier one, then nobody has begun here.
    if (!begun && job_.load(std::memory_order_acquire) != job) return -1;
    const int64_t first = begun ? static_cast<int64_t>(seen >> 16 & 0xffff) : begin;
    const int64_t last = begun ? static_cast<int64_t>(seen & 0xffff) : end;
    if (first == last) return -1;
    const uint64_t left = own ? in_a_word(first + 1, last) : in_a_word(first, last - 1);
    if (open.compare_exchange_weak(seen, left, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return static_cast<int>(own ? first : last - 1);
    }
  }
}

void Team::take_parts(int member) {
  const uint64_t job = job_.load(std::memory_order_acquire);
  for (int turn = 0; turn < size(); ++turn) {
    const int whose = (member + turn) % size();
    for (int part; (part = take(whose, job, turn == 0)) >= 0;) {
      try {
        (*work_)(part);
      } catch (...) {
        std::lock_guard lock(error_mutex_);
        if (!error_) error_ = std::current_exception();
      }
      unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
}

void Team::serve(int member) {
  uint32_t seen = 0;
  for (;;) {
    while (!spin_while([&] { return round_.load(std::memory_order_acquire) == seen; })) {
      round_.wait(seen, std::memory_order_acquire);
    }
    seen = round_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    take_parts(member);
  }
}

void Team::run(int parts, const std::function<void(int)>& work) {
  constexpr int kMostParts = 0xffff;  // that fit into a share's word
  if (parts > kMostParts) {
    for (int first = 0; first < parts; first += kMostParts) {
      run(std::min(parts - first, kMostParts), [&](int part) { work(first + part); });
    }
    return;
  }
  if (parts <= 0) return;
  work_ = &work;
  unfinished_.store(parts, std::memory_order_relaxed);
  const uint64_t round = (job_.load(std::memory_order_relaxed) >> 32) + 1;
  job_.store(round << 32 | static_cast<uint64_t>(parts), std::memory_order_release);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_parts(0);
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
