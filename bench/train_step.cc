// How long one training step takes: build, warm up, then repeats of many steps. One JSON line.
//
// train_step NAME [--threads N] [--places N] [--batches N] [--shards N] [--reps N] [--secs S]
//            [--off PASS]... [--gpu] [--there] [--amp TYPE] [--profile] [--binding] [--explain]
// A step takes --batches batches of the workload, one per place unless told otherwise; --shards is
// BuildStrategy.virtual_shards. --there: batches lie on the GPU before the steps begin. --amp: the
// optimizer is decorated for float16 or bfloat16.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>

#include "bench/workloads.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"
#include "cpu/onednn.h"
#include "layers/defaults.h"
#include "runtime/compiled_program.h"
#include "runtime/feed_split.h"
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

// The batch so many times, as one.
Feeds repeated(const Feeds& feeds, int times) {
  Feeds all;
  for (const auto& [name, tensor] : feeds) {
    all[name] = join_pieces(name, std::vector<Tensor>(static_cast<size_t>(times), tensor));
  }
  return all;
}

int64_t samples_of(const Feeds& feeds) {
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (const auto& [name, tensor] : feeds) fewest = std::min(fewest, sample_count(tensor));
  return fewest;
}

double milliseconds(const std::function<void()>& work) {
  const double before = now();
  work();
  return (now() - before) * 1e3;
}

// So many samples less, where all feeds have rows; otherwise the same.
Feeds smaller(const Feeds& feeds, int64_t by) {
  int64_t batch = std::numeric_limits<int64_t>::max();
  for (const auto& [name, tensor] : feeds) {
    if (!tensor.lod().empty() || tensor.shape().rank() == 0) return feeds;
    batch = std::min(batch, tensor.shape().at(0));
  }
  Feeds made;
  for (const auto& [name, tensor] : feeds) {
    made[name] =
        tensor.slice_rows(0, tensor.shape().at(0) * std::max<int64_t>(batch - by, 1) / batch);
  }
  return made;
}

// Compiling, before the first run; then smaller batches whose library code has been made before,
// and what of that the library takes to find it; then back to the first size.
struct Binding {
  double compile_ms = 0, return_ms = 0;
  std::vector<double> rebind_ms, library_ms;
};
Binding measure_binding(const bench::Workload& work, const std::string& loss,
                        const RunOptions& options) {
  constexpr int64_t kSizes = 3;
  const auto prepare = [&](Executor& exe, const Feeds& feeds) {
    return milliseconds([&] { exe.prepare(default_main_program(), {feeds}, {loss}, {}, options); });
  };
  Executor first, second;
  Binding found;
  found.compile_ms = prepare(first, work.feeds);
  for (int64_t by = 1; by <= kSizes; ++by) prepare(first, smaller(work.feeds, by));
  prepare(second, work.feeds);
  for (int64_t by = 1; by <= kSizes; ++by) {
    const double before = onednn_making_ms();
    found.rebind_ms.push_back(prepare(second, smaller(work.feeds, by)));
    found.library_ms.push_back(onednn_making_ms() - before);
  }
  found.return_ms = prepare(second, work.feeds);
  return found;
}

// What the command line asks for.
struct Request {
  std::string name = "toy";
  int reps = 9;
  double secs = 1;
  bool profile = false, binding_only = false, explain = false, gpu = false, there = false;
  std::optional<DType> half;
  int places = 1, batches = 0;
  BuildStrategy strategy;
  RunOptions options{.threads = num_threads()};
};

Request request_of(int count, char** words) {
  Request asked;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] { return i + 1 < count ? words[++i] : words[0]; };
    if (word == "--threads")
      asked.options.threads = std::atoi(value());
    else if (word == "--places")
      asked.places = std::atoi(value());
    else if (word == "--batches")
      asked.batches = std::atoi(value());
    else if (word == "--shards")
      asked.strategy.virtual_shards = std::atoi(value());
    else if (word == "--reps")
      asked.reps = std::atoi(value());
    else if (word == "--profile")
      asked.profile = true;
    else if (word == "--gpu")
      asked.gpu = true;
    else if (word == "--there")
      asked.there = true;
    else if (word == "--amp")
      asked.half = std::string_view(value()) == "float16" ? DType::float16 : DType::bfloat16;
    else if (word == "--explain")
      asked.explain = true;
    else if (word == "--binding")
      asked.binding_only = true;
    else if (word == "--off")
      asked.options.passes_off.emplace_back(value());
    else if (word == "--secs")
      asked.secs = std::atof(value());
    else
      asked.name = word;
  }
  if (asked.batches == 0) asked.batches = asked.places;
  return asked;
}

void print_binding(const std::string& name, const Binding& found) {
  const auto list = [](const std::vector<double>& times) {
    std::string text;
    for (const double ms : times) text += cat(text.empty() ? "[" : ", ", ms);
    return text + "]";
  };
  std::printf(
      "{\"name\": \"%s\", \"compile_ms\": %.1f, \"rebind_ms\": %s, \"library_ms\": %s, "
      "\"return_ms\": %.3f}\n",
      name.c_str(), found.compile_ms, list(found.rebind_ms).c_str(), list(found.library_ms).c_str(),
      found.return_ms);
}

int run(int count, char** words) {
  const Request asked = request_of(count, words);
  const RunOptions& options = asked.options;
  read_flags_from_environment();
  default_startup_program().set_seed(1);
  bench::Workload work = bench::workload(asked.name, asked.half);
  Var& loss = work.build();
  Executor exe(asked.gpu ? cuda_place(0) : cpu_place());
  exe.run(default_startup_program());
  Feeds batch = repeated(work.feeds, asked.batches);
  if (asked.there) {
    for (auto& [name, tensor] : batch) tensor = tensor.to(cuda_place(0));
  }
  CompiledProgram parallel(default_main_program().shared_from_this());
  const bool on_places = asked.places > 1 || asked.strategy.virtual_shards > 0;
  if (on_places) {
    parallel.with_data_parallel({.build_strategy = asked.strategy,
                                 .places = std::vector<Place>(static_cast<size_t>(asked.places))});
  }
  if (asked.binding_only) {
    print_binding(asked.name, measure_binding(work, loss.name(), options));
    return 0;
  }
  const double started = now();
  double last = 0;
  const auto step = [&] {
    const Variable found = on_places
                               ? parallel.run(exe, batch, {loss.name()}, options)[0].by_device[0]
                               : exe.run(default_main_program(), batch, {loss.name()}, options)[0];
    last = *found.tensor().data<float>();
  };
  step();
  const double first = now() - started;
  step();
  step();
  double before = now();
  step();
  const int steps = std::max(1, static_cast<int>(asked.secs / (now() - before)));
  if (asked.explain) std::printf("%s", exe.report(default_main_program()).c_str());
  if (asked.profile) {
    start_profiling();
    for (int i = 0; i < steps; ++i) step();
    std::printf("%s", profile_table(stop_profiling(), ProfileOrder::total).c_str());
    std::printf("%d steps\n", steps);
    return 0;
  }
  std::vector<double> times;
  const double cpu_before = cpu_seconds();
  for (int r = 0; r < asked.reps; ++r) {
    before = now();
    for (int i = 0; i < steps; ++i) step();
    times.push_back((now() - before) / steps);
  }
  const double cpu = (cpu_seconds() - cpu_before) / (static_cast<double>(asked.reps) * steps);
  std::sort(times.begin(), times.end());
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  std::printf(
      "{\"name\": \"%s\", \"gpu\": %s, \"threads\": %d, \"places\": %d, \"samples\": %lld, \"ms\": "
      "%.5f, "
      "\"lo\": %.5f, \"hi\": %.5f, "
      "\"cpu_ms\": %.5f, \"first_ms\": %.1f, \"steps\": %d, \"loss\": %.6f, "
      "\"peak_rss_mb\": %.1f, \"onednn\": \"%s\"}\n",
      asked.name.c_str(), asked.gpu ? "true" : "false", options.threads, asked.places,
      static_cast<long long>(samples_of(batch)), times[times.size() / 2] * 1e3, times.front() * 1e3,
      times.back() * 1e3, cpu * 1e3, first * 1e3, steps * asked.reps, last,
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
