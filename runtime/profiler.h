// Records how long ops take while it is on: a table of totals, and a timeline for chrome://tracing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Something that took time on one thread. Times are nanoseconds of the steady clock.
struct ProfileEvent {
  enum class Kind : uint8_t {
    op,    // one instruction of a plan
    part,  // a share of one, on a thread of the team
    wait,  // a replica or a process at a place where others must come too
    step,  // a run of a program, whole
  };
  std::string op;
  int thread = 0;  // numbered from 0 in the order in which threads first record something
  int64_t start = 0;
  int64_t end = 0;
  Kind kind = Kind::op;
  const void* plan = nullptr;    // whose instruction
  const void* origin = nullptr;  // of which op of a program: only compared
  int instruction = -1;
  int replica = 0;
  int runner = 0;       // Runner
  bool remote = false;  // it talks to other processes
};

enum class ProfileOrder { first_end, calls, total, max, min, average };

namespace profiling {
extern std::atomic<bool> is_on;  // not inline: modules that hide their symbols share this one
}

// Asked before every instruction, so it is one load.
inline bool profiling_on() { return profiling::is_on.load(std::memory_order_relaxed); }

// For the whole process, whatever executor runs. Starting twice is starting once.
void start_profiling();
// Ends recording, and hands over what was recorded.
std::vector<ProfileEvent> stop_profiling();
void reset_profiling();  // forgets what was recorded; stays on or off

// Ends now, on this thread; the caller says the rest.
void record_event(ProfileEvent event, std::chrono::steady_clock::time_point start);

// An op may have become several instructions: those of one origin that follow one another on a
// thread are one event here, and what is no instruction is none.
std::vector<ProfileEvent> events_by_op(const std::vector<ProfileEvent>& events);

// One row per op and thread: Event, Calls, Total, Min., Max., Ave. in milliseconds, and Ratio. of
// the sum of all rows. An op that runs a sub-block counts what runs inside it too.
std::string profile_table(const std::vector<ProfileEvent>& events, ProfileOrder order);
// Of the time of steps, as shares: with other processes, waiting for others, and the rest.
struct TimeShares {
  double compute = 0, communication = 0, wait = 0;
};
TimeShares time_shares(const std::vector<ProfileEvent>& events);
// The Trace Event Format: {"traceEvents": [{"name", "ph": "X", "ts", "dur", "pid", "tid"}]} with
// microseconds since the first event.
std::string profile_timeline(const std::vector<ProfileEvent>& all);

}  // namespace trireme
