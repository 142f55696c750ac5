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
#include "ps/row_store.h"
#include "ps/snapshot.h"
#include "runtime/executor.h"

namespace trireme {

// In sync mode steps have two phases. Trainers get parameters until every one of them has told so;
// then they push gradients, and when all have, the update runs. Async mode has no phases: a
// gradient is applied when it comes.
class PsServer {
 public:
  // Goes on from its snapshot, where its process has died.
  PsServer(const Program& program, Scope& scope);
  ~PsServer();  // its job has ended: the snapshot goes

  // May wait as long as those it waits for are alive.
  PsMessage answer(const PsMessage& request);
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
    uint64_t kept = 0;      // the last that is in a snapshot
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
  // A sparse table whose rows are made on first use. While a block updates it, its variables hold
  // the rows that gradients name, under numbers from 0 on.
  struct Table {
    std::string name;
    std::vector<std::string> columns;  // variables: the table, then what its optimizer keeps
    std::vector<std::string> grads;    // what trainers send for it
    std::unique_ptr<RowStore> store;
  };
  void find_tables();
  void update_rows(Table& table, int block);
  void look_up_rows(Table& table, const Tensor& ids, PsMessage& reply);
  void read_rows(Table& table, Variable& to);
  std::string file_of(const std::string& table, const std::string& use) const;
  void save_tables(ByteSink& to);
  void load_tables(ByteSource& from);
  void forget_tables(uint64_t but) const;

  bool keeps() const { return !snapshot_.empty(); }
  void go_on_or_begin();
  std::vector<std::string> state_names() const;
  void keep();
  void keep_where_due();
  void take(const PsMessage& request);
  void push(const PsMessage& request);
  void notify(const PsMessage& request);
  void read(const PsMessage& request, PsMessage& reply);
  void look_up(const PsMessage& request, PsMessage& reply);
  void save(const PsMessage& request);
  void barrier(int trainer);
  void leave(int trainer);
  void lose(int trainer, const std::string& how);
  void fail(const std::string& why);
  void end_phase_where_all_came(int last);
  void update();
  void forget_the_left();
  void run_block(int index);
  void run_as_program(int index);
  std::vector<int> present() const;
  std::vector<int> missing() const;  // present ones that have not come to this phase's barrier

  const Program& program_;
  const Op& serve_;
  Scope& scope_;
  const bool sync_;
  const int trainers_count_;
  const Clock::time_point begin_ = Clock::now();
  bool goes_on_ = false;  // from a snapshot
  Executor executor_;
  std::map<int, std::shared_ptr<Program>> blocks_;
  std::map<std::string, int> block_of_;   // by gradient
  std::map<std::string, int> lookup_of_;  // by the name of ids: the block that looks them up
  std::map<std::string, Table> tables_;
  std::map<int, Table*> table_of_;  // by the block that updates it
  std::set<std::string> passing_;   // what blocks write before they read it

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Trainer> trainers_;
  Phase phase_ = Phase::get;
  std::chrono::steady_clock::time_point first_came_{};
  std::set<int> came_;  // to this phase's barrier
  size_t round_ = 0;
  std::string failed_;

  std::string snapshot_;  // the file; empty: none is kept
  Clock::time_point kept_at_;
  Clock::duration keeping_took_{};
  uint64_t checkpoint_ = 0;  // the number of the tables' last
  uint64_t kept_bytes_ = 0;  // of the last snapshot
  uint64_t came_since_ = 0;  // bytes that trainers have sent since
  // Apart from the rest: an update may take long, and beats must count meanwhile.
  mutable std::mutex beats_mutex_;
  std::map<int, Beat> beats_;
};

}  // namespace trireme
