// Records how long ops take while it is on: a table of totals, and a timeline for chrome://tracing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// One run of one op, on one thread. Times are nanoseconds of the steady clock.
struct ProfileEvent {
  std::string op;
  int thread = 0;  // numbered from 0 in the order in which threads first record something
  int64_t start = 0;
  int64_t end = 0;
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

// Part `index` of the plan ran for `op`. An op may have become several instructions: parts with the
// same `origin` that follow one another on a thread are one event.
void record_instruction(const void* origin, int index, std::string_view op,
                        std::chrono::steady_clock::time_point start);

// One row per op and thread: Event, Calls, Total, Min., Max., Ave. in milliseconds, and Ratio. of
// the sum of all rows. An op that runs a sub-block counts what runs inside it too.
std::string profile_table(const std::vector<ProfileEvent>& events, ProfileOrder order);
// The Trace Event Format: {"traceEvents": [{"name", "ph": "X", "ts", "dur", "pid", "tid"}]} with
// microseconds since the first event.
std::string profile_timeline(const std::vector<ProfileEvent>& events);

}  // namespace trireme
