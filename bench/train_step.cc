// How long one training step takes: build, warm up, then repeats of many steps. One JSON line.
//
// train_step NAME [--threads N] [--reps N] [--secs S] [--off PASS]... [--profile]
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/workloads.h"
#include "core/error.h"
#include "core/flags.h"
#include "cpu/onednn.h"
#include "layers/defaults.h"
#include "runtime/profiler.h"

using namespace trireme;

namespace {

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

int run(int count, char** words) {
  std::string name = "toy";
  int reps = 9;
  double secs = 1;
  bool profile = false;
  RunOptions options{.threads = num_threads()};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] { return i + 1 < count ? words[++i] : words[0]; };
    if (word == "--threads")
      options.threads = std::atoi(value());
    else if (word == "--reps")
      reps = std::atoi(value());
    else if (word == "--profile")
      profile = true;
    else if (word == "--off")
      options.passes_off.emplace_back(value());
    else if (word == "--secs")
      secs = std::atof(value());
    else
      name = word;
  }
  read_flags_from_environment();
  default_startup_program().set_seed(1);
  bench::Workload work = bench::workload(name);
  Var& loss = work.build();
  Executor exe;
  exe.run(default_startup_program());
  const double started = now();
  double last = 0;
  const auto step = [&] {
    last = *exe.run(default_main_program(), work.feeds, {loss.name()}, options)[0]
                .tensor()
                .data<float>();
  };
  step();
  const double first = now() - started;
  step();
  step();
  double before = now();
  step();
  const int steps = std::max(1, static_cast<int>(secs / (now() - before)));
  if (profile) {
    start_profiling();
    for (int i = 0; i < steps; ++i) step();
    std::printf("%s", profile_table(stop_profiling(), ProfileOrder::total).c_str());
    std::printf("%d steps\n", steps);
    return 0;
  }
  std::vector<double> times;
  const double cpu_before = cpu_seconds();
  for (int r = 0; r < reps; ++r) {
    before = now();
    for (int i = 0; i < steps; ++i) step();
    times.push_back((now() - before) / steps);
  }
  const double cpu = (cpu_seconds() - cpu_before) / (static_cast<double>(reps) * steps);
  std::sort(times.begin(), times.end());
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  std::printf(
      "{\"name\": \"%s\", \"threads\": %d, \"ms\": %.5f, \"lo\": %.5f, \"hi\": %.5f, "
      "\"cpu_ms\": %.5f, \"first_ms\": %.1f, \"steps\": %d, \"loss\": %.6f, "
      "\"peak_rss_mb\": %.1f, \"onednn\": \"%s\"}\n",
      name.c_str(), options.threads, times[times.size() / 2] * 1e3, times.front() * 1e3,
      times.back() * 1e3, cpu * 1e3, first * 1e3, steps * reps, last,
      static_cast<double>(use.ru_maxrss) / 1024, onednn_version().c_str());
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
