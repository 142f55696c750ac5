// What ranks of one machine pay for meeting and for exchanging: two questions, each printed apart.
//
//   ranks allreduce [RANKS [MEGABYTES]]   our group against Gloo alone, processes on loopback
//   ranks control [COUNT...]              so many simulated trainers in one process: they meet,
//   pass
//                                         100 barriers and leave by the code that real ones run
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/process_group.h"
#include "comm/ring.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<std::string> free_endpoints(int count) {
  std::vector<std::string> endpoints;
  std::vector<std::unique_ptr<Ear>> held;  // until all are chosen: no port comes twice
  for (int i = 0; i < count; ++i) {
    held.push_back(std::make_unique<Ear>("127.0.0.1:0"));
    endpoints.push_back(held.back()->endpoint());
  }
  return endpoints;
}

// ---- allreduce

// Seconds of each call.
std::vector<double> timed(int passes, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int pass = 0; pass < passes; ++pass) {
    const auto begin = Clock::now();
    call();
    seconds.push_back(seconds_since(begin));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

// Both in the same processes, in turns, so that the machine is the same for both.
void exchange(int rank, const std::vector<std::string>& endpoints, const std::string& folder,
              size_t elements) {
  constexpr int kRounds = 6, kPasses = 10;
  const int ranks = static_cast<int>(endpoints.size());
  const auto group = make_process_group(
      {.who = {.endpoints = endpoints, .rank = rank, .purpose = "a measurement", .poll = {}}});
  gloo::transport::tcp::attr address("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(address);
  auto alone = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  alone->connectFullMesh(store, device);
  std::vector<float> data(elements, 1.0f);
  const Piece piece{.in = data.data(), .out = data.data(), .count = static_cast<int64_t>(elements)};
  const auto ticket = group->prepare({.tag = "g"});
  const auto meet = group->prepare({.kind = Collective::Kind::barrier, .tag = "b"});
  const auto ours = [&] { run_collective(*ticket, {.pieces = {&piece, 1}}); };
  const auto bare = [&] {
    gloo::AllreduceOptions options(alone);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  };
  ours();
  bare();
  std::vector<double> ours_best, bare_best;
  for (int round = 0; round < kRounds; ++round) {
    run_collective(*meet, {});
    const auto a = timed(kPasses, ours);
    run_collective(*meet, {});
    const auto b = timed(kPasses, bare);
    std::fill(data.begin(), data.end(), 1.0f);
    if (rank != 0) continue;
    const size_t middle = kPasses / 2;
    std::printf("  round %d, ms in the middle (least): ours %.2f (%.2f), Gloo %.2f (%.2f)\n", round,
                a[middle] * 1e3, a[0] * 1e3, b[middle] * 1e3, b[0] * 1e3);
    ours_best.push_back(a[middle]);
    bare_best.push_back(b[middle]);
  }
  if (rank != 0) return;
  std::sort(ours_best.begin(), ours_best.end());
  std::sort(bare_best.begin(), bare_best.end());
  const double bytes = static_cast<double>(elements) * sizeof(float);
  std::printf("%d ranks, %.0f MB: ours %.2f GB/s, Gloo alone %.2f GB/s, ratio %.3f (bar: 0.9)\n",
              ranks, bytes / 1e6, bytes / ours_best[kRounds / 2] / 1e9,
              bytes / bare_best[kRounds / 2] / 1e9,
              bare_best[kRounds / 2] / ours_best[kRounds / 2]);
}

int allreduce(int ranks, double megabytes) {
  const auto endpoints = free_endpoints(ranks);
  std::string folder = std::filesystem::temp_directory_path() / "ranks-XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      exchange(rank, endpoints, folder, static_cast<size_t>(megabytes * 1e6 / sizeof(float)));
      std::fflush(stdout);
      _exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed |= status;
  }
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 1;
}

// ---- control

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// All trainers are threads of this process, each with an endpoint, sockets and a watcher of its
// own.
void control(int count) {
  constexpr int kBarriers = 100;
  allow_descriptors(static_cast<size_t>(count) * 5);
  const auto endpoints = free_endpoints(count);
  std::vector<std::unique_ptr<Assembly>> members(static_cast<size_t>(count));
  const auto together = [&](const std::function<void(size_t)>& work) {
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < members.size(); ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
    return seconds_since(begin);
  };
  const double cpu_before = cpu_seconds();
  const double met = together([&](size_t rank) {
    members[rank] = std::make_unique<Assembly>(AssemblyOptions{.endpoints = endpoints,
                                                               .rank = static_cast<int>(rank),
                                                               .purpose = "a simulation",
                                                               .poll = {}});
  });
  const double passed = together([&](size_t rank) {
    for (int i = 0; i < kBarriers; ++i)
      members[rank]->exchange("");  // nobody goes on before all have come
  });
  const double left = together([&](size_t rank) {
    members[rank]->watch();
    members[rank]->begin(1, "the last exchange");
    members[rank]->end(1);
    members[rank].reset();
  });
  const double cpu = cpu_seconds() - cpu_before, n = count;
  std::printf(
      "%5d trainers: met in %.2f s, %d barriers in %.2f s, left in %.2f s: %.2f s in all\n"
      "      a trainer: %.2f ms to meet, %.1f us a barrier, %.2f ms to leave; %.2f ms of CPU in "
      "all\n",
      count, met, kBarriers, passed, left, met + passed + left, met / n * 1e3,
      passed / n / kBarriers * 1e6, left / n * 1e3, cpu / n * 1e3);
}

}  // namespace
}  // namespace trireme

int main(int count, char** words) {
  const std::vector<std::string> args(words + 1, words + count);
  const auto number = [&](size_t at, double otherwise) {
    return args.size() > at ? std::atof(args[at].c_str()) : otherwise;
  };
  if (!args.empty() && args[0] == "allreduce") {
    return trireme::allreduce(static_cast<int>(number(1, 2)), number(2, 25));
  }
  if (!args.empty() && args[0] == "control") {
    std::vector<int> counts{64, 256, 1024};
    if (args.size() > 1) counts.clear();
    for (size_t i = 1; i < args.size(); ++i) counts.push_back(static_cast<int>(number(i, 0)));
    for (const int each : counts) trireme::control(each);
    return 0;
  }
  std::fprintf(stderr, "ranks allreduce [RANKS [MEGABYTES]] | ranks control [COUNT...]\n");
  return 2;
}
