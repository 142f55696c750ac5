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

  // Runs work(0) .. work(parts - 1), each once; returns when all are done. A member begins with its
  // own share of the parts, the same one each time, so that what it left in its core's cache is
  // there when the next job comes; done with those, it helps the others from behind. The first
  // exception is thrown again here. Not to be called from inside work.
  void run(int parts, const std::function<void(int)>& work);

 private:
  // The parts of a member's share that nobody has taken: round, first and last in one word.
  // It is of an earlier round until somebody takes the first part of this one.
  struct alignas(64) Share {
    std::atomic<uint64_t> open{0};
  };

  void serve(int member);
  void take_parts(int member);
  int take(int member, uint64_t job, bool own);

  std::vector<std::thread> workers_;
  std::unique_ptr<Share[]> shares_;  // by member
  std::atomic<uint32_t> round_{0};   // raised for every job; sleeping workers watch it
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> job_{0};  // round and number of parts
  // Read by whoever has taken a part: the job cannot end before that part is done.
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
