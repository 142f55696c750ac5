// How fast a server's sparse table is in memory, and when most of it is on the disk.
//
//   build/release/bench/table_rows [ROWS [WIDTH [DIRECTORY]]]
//
// Batches of 20,000 rows are looked up and written back with their optimizer state, as a step does:
// rows drawn at random, then rows of which most are among few (every tenth row has nine tenths of
// the uses).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "ps/row_store.h"

namespace trireme {
namespace {

constexpr size_t kBatch = 20000;
constexpr int kBatches = 50;

std::shared_ptr<RowInit> column(int64_t rows, int64_t width, RowInit::Law law) {
  auto made = std::make_shared<RowInit>();
  made->shape = {rows, width};
  made->law = law;
  made->first = law == RowInit::Law::uniform ? -0.1 : 0.0;
  made->second = 0.1;
  made->seed = 7;
  return made;
}

std::vector<int64_t> draw_ids(std::mt19937_64& draw, int64_t rows, bool skewed) {
  std::vector<int64_t> ids(kBatch);
  std::uniform_int_distribution<int64_t> any(0, rows - 1), tenth(0, rows / 10 - 1);
  for (int64_t& id : ids) id = skewed && draw() % 10 != 0 ? tenth(draw) * 10 : any(draw);
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

struct Buffers {
  std::vector<float> table, state;
  explicit Buffers(int64_t width) : table(kBatch * width), state(kBatch * width) {}
};

// Rows a second, looked up and written back.
double rate(RowStore& store, Buffers& room, int64_t rows, bool skewed) {
  std::mt19937_64 draw(skewed ? 2 : 1);
  size_t count = 0;
  double seconds = 0;
  for (int i = 0; i < kBatches; ++i) {
    const std::vector<int64_t> ids = draw_ids(draw, rows, skewed);
    const auto begin = std::chrono::steady_clock::now();
    float* const read[] = {room.table.data(), room.state.data()};
    store.take(ids, read);
    for (size_t j = 0; j < room.state.size(); ++j) room.state[j] += 1.0f;
    const float* const written[] = {room.table.data(), room.state.data()};
    store.put(ids, written);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    count += ids.size();
  }
  return static_cast<double>(count) / seconds;
}

// Every row is made and changed once.
double fill(RowStore& store, Buffers& room, int64_t rows) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<int64_t> ids;
  for (int64_t from = 0; from < rows; from += kBatch) {
    ids.clear();
    for (int64_t id = from; id < std::min<int64_t>(rows, from + kBatch); ++id) ids.push_back(id);
    float* const read[] = {room.table.data(), room.state.data()};
    store.take(ids, read);
    const float* const written[] = {room.table.data(), room.state.data()};
    store.put(ids, written);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(rows) / taken.count();
}

void run(int64_t rows, int64_t width, const std::string& directory) {
  Buffers room(width);
  const uint64_t record = static_cast<uint64_t>(2 * width) * sizeof(float);
  const uint64_t bytes = static_cast<uint64_t>(rows) * record;
  std::printf("%lld rows, %lld floats and as many of state: %.0f MB\n",
              static_cast<long long>(rows), static_cast<long long>(width),
              static_cast<double>(bytes) / 1e6);
  double in_memory[3] = {};
  for (const bool spills : {false, true}) {
    RowStore store(
        {column(rows, width, RowInit::Law::uniform), column(rows, width, RowInit::Law::constant)},
        spills ? bytes / 2 : bytes * 3 + (uint64_t{1} << 30), directory);
    const double found[] = {fill(store, room, rows), rate(store, room, rows, false),
                            rate(store, room, rows, true)};
    if (!spills) std::copy_n(found, 3, in_memory);
    const char* what[] = {"every row once, in order", "rows at random",
                          "nine of ten among a tenth"};
    for (int i = 0; i < 3; ++i) {
      std::printf("  %-26s %-28s %6.2f million rows/s",
                  spills ? "memory for half of it:" : "all in memory:", what[i], found[i] / 1e6);
      if (spills) std::printf(", %.2f of that", found[i] / in_memory[i]);
      std::printf("\n");
    }
    std::printf("  %zu rows in memory%s\n", store.rows_in_memory(),
                store.spills() ? ", all others in RocksDB" : "");
  }
}

}  // namespace
}  // namespace trireme

int main(int count, char** words) {
  trireme::run(count > 1 ? std::atoll(words[1]) : 10000000, count > 2 ? std::atoll(words[2]) : 16,
               count > 3 ? words[3] : "/tmp/trireme_table_rows");
}
