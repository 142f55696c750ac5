// The processes of a group, apart from what they exchange: how they meet, that they live, how far
// each is, and by what the job ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/frames.h"

namespace trireme {

struct AssemblyOptions {
  std::vector<std::string> endpoints;  // by rank
  int rank = 0;
  std::string purpose;  // equal on all; errors show it
  std::chrono::milliseconds limit = std::chrono::minutes{3};
  std::function<void()> poll;  // runs while others are waited for, and may throw
};

// Rank 0 calls the others, which listen on their own endpoints; all that is told goes through it.
class Assembly {
 public:
  // Returns when all have come. Errors: others are missing after the limit; one of them was started
  // for another number of ranks, for other endpoints, for another purpose or with another token.
  explicit Assembly(AssemblyOptions options);
  ~Assembly();

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.endpoints.size()); }
  const std::string& purpose() const { return options_.purpose; }
  const std::string& endpoint() const { return options_.endpoints[static_cast<size_t>(rank())]; }

  // All give a text and get everybody's, by rank. Before watch().
  std::vector<std::string> exchange(const std::string& mine);
  // From now on a thread of its own says that this process lives, and hears of the others.
  void watch();

  // What this member takes part in, and how much of it is behind it.
  void begin(uint64_t number, const std::string& what);
  void end(uint64_t number);
  struct Member {
    uint64_t begun = 0, ended = 0;
    std::string what;
    bool left = false;
    Connection::Clock::time_point seen{};
  };
  // As they were about a second ago: of rank 0. The others know that since they last asked.
  std::vector<Member> members() const;
  void ask_for_members();

  // The job has failed: all members hear of it.
  void fail(const std::string& why) noexcept;
  std::string failure() const;  // empty: none
  bool someone_left() const;
  // Returns when the others have ended all that this one has, or after seconds: what they still
  // read of this process's connections must not be cut off. Then tells them that it goes.
  void leave() noexcept;

 private:
  using Clock = Connection::Clock;
  struct Call;
  void call_all(Clock::time_point end);
  void begin(Call& call);
  void drop(Call& call);
  bool go_on(Call& call);
  [[noreturn]] void give_up(std::vector<Call>& calls) const;
  void be_called(Clock::time_point end);
  bool welcome(Connection& caller, Clock::time_point end);
  std::string facts() const;

  void run();
  void say_where();
  void hear(size_t number, const FrameMessage& message);
  void lose(int rank, const std::string& how);
  void note_failure(const std::string& why);
  int rank_of(size_t connection) const {
    return rank() == 0 ? static_cast<int>(connection) + 1 : 0;
  }
  std::string table_text() const;
  void take_table(const std::string& bytes);
  uint64_t least_ended() const;
  std::string summary_text() const;
  void take_summary(const std::string& bytes);
  std::chrono::milliseconds fast_beat() const;

  const AssemblyOptions options_;
  const int process_;                  // a forked child is no member
  std::vector<Connection> to_others_;  // rank 0: to rank 1, 2, ...; else to rank 0
  std::thread watcher_;
  int wake_ = -1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  std::string failure_;
  bool failure_told_ = false;
  bool asks_ = false;         // the others are asked where they are
  bool looks_ = false;        // rank 0 is asked for what it knows of all
  uint64_t least_ended_ = 0;  // of those who have not left, as rank 0 says
  int left_ = 0;              // how many have, as rank 0 says
  bool hurries_ = false;      // someone has asked: it is told at once, and then often
  Clock::time_point asked_until_{};
  bool leaving_ = false;
  bool stops_ = false;
};

// Of this process, all: at its end, by which failure, if one.
void leave_assemblies(const std::string& failure) noexcept;

}  // namespace trireme
