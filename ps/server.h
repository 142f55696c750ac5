// The rules of a parameter server: who may push or get when, what runs, who takes part.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/scope.h"
#include "ir/program.h"
#include "ps/message.h"
#include "runtime/executor.h"

namespace trireme {

// In sync mode steps have two phases. Trainers get parameters until every one of them has told so;
// then they push gradients, and when all have, the update runs. Async mode has no phases: a
// gradient is applied when it comes.
class PsServer {
 public:
  PsServer(const Program& program, Scope& scope);

  // May wait as long as those it waits for are alive.
  PsMessage answer(PsMessage request);
  void alive(int trainer, uint64_t incarnation);
  void gone(int trainer, uint64_t incarnation);  // its connection has ended
  // Returns when every trainer has left; an Error when the job has failed. `poll` may throw.
  void wait(const std::function<void()>& poll);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  enum class Phase { get, send };
  struct Trainer {
    uint64_t incarnation = 0;
    uint64_t sequence = 0;  // the last that was done
    bool left = false;
    bool lost = false;
    std::string asked;  // its last request, and when that came
    Clock::time_point asked_at;
    bool waits = false;  // ... and it has no answer yet
  };
  struct Beat {
    Clock::time_point seen;
    bool broken = false;  // its connection has ended
  };

  Trainer& who(const PsMessage& request);
  // Returns false where the request was done while this one waited.
  bool wait_for(Lock& lock, Phase phase, const PsMessage& request);
  bool done_before(const PsMessage& request) const;
  void beat(int trainer, bool broken);
  void lose_the_silent();
  std::vector<int> absent() const;
  std::string waiting_for_whom() const;  // empty: nobody waits for long
  void check_failed() const;
  void take(const PsMessage& request);
  void push(const PsMessage& request);
  void notify(const PsMessage& request);
  void read(const PsMessage& request, PsMessage& reply);
  void look_up(const PsMessage& request, PsMessage& reply);
  void save(const PsMessage& request) const;
  void barrier(int trainer);
  void leave(int trainer);
  void lose(int trainer, const std::string& how);
  void fail(const std::string& why);
  void end_phase_where_all_came(int last);
  void update();
  void forget_the_left();
  void run_block(int index);
  std::vector<int> present() const;
  std::vector<int> missing() const;  // present ones that have not come to this phase's barrier

  const Program& program_;
  const Op& serve_;
  Scope& scope_;
  const bool sync_;
  const int trainers_count_;
  const Clock::time_point begin_ = Clock::now();
  Executor executor_;
  std::map<int, std::shared_ptr<Program>> blocks_;
  std::map<std::string, int> block_of_;   // by gradient
  std::map<std::string, int> lookup_of_;  // by the name of ids: the block that looks them up

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Trainer> trainers_;
  Phase phase_ = Phase::get;
  std::chrono::steady_clock::time_point first_came_{};
  std::set<int> came_;  // to this phase's barrier
  size_t round_ = 0;
  std::string failed_;
  // Apart from the rest: an update may take long, and beats must count meanwhile.
  mutable std::mutex beats_mutex_;
  std::map<int, Beat> beats_;
};

}  // namespace trireme
