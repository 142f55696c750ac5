// The process's worker threads: shares out the parts of one instruction at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme {

// The caller is a member. Workers spin for a short while after work and then sleep, so a step of
// many instructions pays a wake-up once.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs work(0) .. work(parts - 1), each once, on whichever thread is free; returns when all are
  // done. The first exception is thrown again here. Not to be called from inside work.
  void run(int parts, const std::function<void(int)>& work);

 private:
  void serve();
  void take_parts();

  std::vector<std::thread> workers_;
  std::atomic<uint32_t> round_{0};  // raised for every job; sleeping workers watch it
  std::atomic<bool> stop_{false};
  // Round in the high half, parts not yet taken in the low half. Whoever lowers it by one owns that
  // part, and the job cannot end before the part is done: only then is work_ read.
  std::atomic<uint64_t> open_{0};
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<int> unfinished_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

// The one team of the process, for as long as the lease is held. Null when another run has it (that
// run's cores are taken: work alone) or when one thread is all there is. A forked child has its
// own.
// It is asked for at the first call of team(): a run too small to share out takes none.
class TeamLease {
 public:
  explicit TeamLease(int threads) : threads_(threads) {}
  ~TeamLease();
  TeamLease(const TeamLease&) = delete;
  TeamLease& operator=(const TeamLease&) = delete;
  Team* team();

 private:
  int threads_;
  bool asked_ = false;
  Team* team_ = nullptr;
};

}  // namespace trireme
