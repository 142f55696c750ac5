// Collects what threads record, and prints the table and the timeline.
#include "runtime/profiler.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "core/text.h"

namespace trireme {

std::atomic<bool> profiling::is_on = false;

namespace {

// One lock for all threads: ops are many microseconds long, and recording is rarely on.
struct Records {
  std::mutex mutex;
  std::vector<ProfileEvent> events;
};

Records& records() {
  static Records all;
  return all;
}

int thread_number() {
  static std::atomic<int> next = 0;
  thread_local const int mine = next++;
  return mine;
}

int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

struct Row {
  std::string name;
  int64_t calls = 0, total = 0, min = 0, max = 0;
  double average() const { return static_cast<double>(total) / static_cast<double>(calls); }
};

std::vector<Row> rows_of(const std::vector<ProfileEvent>& events) {
  std::vector<const ProfileEvent*> by_end;
  for (const ProfileEvent& event : events) by_end.push_back(&event);
  std::ranges::stable_sort(by_end, {}, &ProfileEvent::end);
  std::vector<Row> rows;
  std::map<std::pair<int, std::string>, size_t> found;
  for (const ProfileEvent* event : by_end) {
    const auto [at, is_new] = found.try_emplace({event->thread, event->op}, rows.size());
    const int64_t time = event->end - event->start;
    if (is_new) rows.push_back({cat("thread", event->thread, "::", event->op), 0, 0, time, time});
    Row& row = rows[at->second];
    ++row.calls;
    row.total += time;
    row.min = std::min(row.min, time);
    row.max = std::max(row.max, time);
  }
  return rows;
}

// As in the original, the largest comes first.
void sort_rows(std::vector<Row>& rows, ProfileOrder order) {
  const auto by = [&](auto key) { std::ranges::stable_sort(rows, std::ranges::greater(), key); };
  switch (order) {
    case ProfileOrder::first_end:
      return;
    case ProfileOrder::calls:
      return by(&Row::calls);
    case ProfileOrder::total:
      return by(&Row::total);
    case ProfileOrder::max:
      return by(&Row::max);
    case ProfileOrder::min:
      return by(&Row::min);
    case ProfileOrder::average:
      return by(&Row::average);
  }
}

template <class... Args>
std::string formatted(const char* format, Args... args) {
  char line[256];
  std::snprintf(line, sizeof(line), format, args...);
  return line;
}

}  // namespace

void start_profiling() { profiling::is_on = true; }

std::vector<ProfileEvent> stop_profiling() {
  profiling::is_on = false;
  const std::lock_guard lock(records().mutex);
  return std::exchange(records().events, {});
}

void reset_profiling() {
  const std::lock_guard lock(records().mutex);
  records().events.clear();
}

void record_event(ProfileEvent event, std::chrono::steady_clock::time_point start) {
  event.start = nanoseconds(start);
  event.end = nanoseconds(std::chrono::steady_clock::now());
  event.thread = thread_number();
  const std::lock_guard lock(records().mutex);
  if (!profiling_on()) return;  // stopped meanwhile
  records().events.push_back(std::move(event));
}

std::vector<ProfileEvent> events_by_op(const std::vector<ProfileEvent>& events) {
  std::vector<ProfileEvent> joined;
  std::map<int, size_t> latest;  // by thread: the event that may still be extended
  for (const ProfileEvent& event : events) {
    if (event.kind != ProfileEvent::Kind::op) continue;
    const auto found = latest.find(event.thread);
    if (found != latest.end() && event.origin) {
      ProfileEvent& before = joined[found->second];
      if (before.origin == event.origin && before.instruction + 1 == event.instruction) {
        before.end = event.end;
        before.instruction = event.instruction;
        continue;
      }
    }
    latest[event.thread] = joined.size();
    joined.push_back(event);
  }
  return joined;
}

std::string profile_table(const std::vector<ProfileEvent>& events, ProfileOrder order) {
  std::vector<Row> rows = rows_of(events_by_op(events));
  sort_rows(rows, order);
  int64_t all = 0;
  size_t width = 20;
  for (const Row& row : rows) {
    all += row.total;
    width = std::max(width, row.name.size());
  }
  const auto cell = [&](std::string name) {
    name.resize(width, ' ');
    return name;
  };
  std::string text = "Where the time went: ops on the CPU, in milliseconds\n\n";
  text += cell("Event") + formatted("  %-10s  %-12s  %-12s  %-12s  %-12s  %-10s\n", "Calls",
                                    "Total", "Min.", "Max.", "Ave.", "Ratio.");
  for (const Row& row : rows) {
    text += cell(row.name) +
            formatted("  %-10lld  %-12.6g  %-12.6g  %-12.6g  %-12.6g  %-10.6g\n",
                      static_cast<long long>(row.calls), static_cast<double>(row.total) / 1e6,
                      static_cast<double>(row.min) / 1e6, static_cast<double>(row.max) / 1e6,
                      row.average() / 1e6,
                      all ? static_cast<double>(row.total) / static_cast<double>(all) : 0.0);
  }
  return text;
}

TimeShares time_shares(const std::vector<ProfileEvent>& events) {
  double steps = 0, remote = 0, waits = 0;
  int replicas = 1;
  for (const ProfileEvent& event : events) {
    const auto time = static_cast<double>(event.end - event.start);
    replicas = std::max(replicas, event.replica + 1);
    if (event.kind == ProfileEvent::Kind::step) steps += time;
    if (event.kind == ProfileEvent::Kind::wait) waits += time;
    if (event.kind == ProfileEvent::Kind::op && event.remote) remote += time;
  }
  if (steps <= 0) return {};
  const double wait = std::min(1.0, waits / replicas / steps);
  const double communication = std::min(1.0 - wait, remote / steps);
  return {.compute = 1 - wait - communication, .communication = communication, .wait = wait};
}

// Op types are identifiers, so nothing in a name needs escaping.
std::string profile_timeline(const std::vector<ProfileEvent>& all) {
  const std::vector<ProfileEvent> events = events_by_op(all);
  int64_t zero = 0;
  if (!events.empty()) zero = std::ranges::min(events, {}, &ProfileEvent::start).start;
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char* between = "\n";
  for (const ProfileEvent& event : events) {
    text += cat(between, "{\"name\": \"", event.op,
                "\", \"ph\": \"X\", \"pid\": 0, \"tid\": ", event.thread);
    text +=
        formatted(", \"ts\": %.3f, \"dur\": %.3f}", static_cast<double>(event.start - zero) / 1e3,
                  static_cast<double>(event.end - event.start) / 1e3);
    between = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace trireme
