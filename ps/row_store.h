// A sparse table of a parameter server: rows made on first use, hot ones in memory, others on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "ops/remote/row_init.h"
#include "ps/row_disk.h"

namespace trireme {

// A row's record is its part of the table and, beside it, of the optimizer's states. Records are in
// memory until that is full. Then those that were not asked for since the hand of a clock passed
// them last go to the disk, unless they are as their initializer made them.
class RowStore {
 public:
  // `columns`: the table's first. `memory`: bytes for all of it.
  RowStore(std::vector<std::shared_ptr<RowInit>> columns, uint64_t memory, std::string directory);

  int64_t height() const { return columns_.front()->height(); }
  size_t columns() const { return columns_.size(); }
  const RowInit& column(size_t i) const { return *columns_[i]; }
  // `ids` ascend, each once. to[c]: room for their rows of that column, or null.
  void take(std::span<const int64_t> ids, std::span<float* const> to);
  void put(std::span<const int64_t> ids, std::span<const float* const> from);
  // Every row of a column, without keeping those that nobody has asked for.
  void take_all(size_t column, float* to);

  // What is not as its initializer made it. `checkpoint`: where the disk's part goes.
  void save(ByteSink& to, const std::string& checkpoint);
  void load(ByteSource& from, const std::string& checkpoints);

  size_t rows_in_memory() const { return used_; }
  bool spills() const { return disk_ != nullptr; }

 private:
  struct Slot {
    int64_t id = -1;
    uint32_t batch = 0;    // the last that asked for it
    bool hot = false;      // ... since the clock's hand passed
    bool changed = false;  // neither the initializer nor the disk has it so
  };

  float* record(size_t slot) { return chunks_[slot / kChunk].get() + slot % kChunk * width_; }
  size_t place(int64_t id) const;  // in index_: of the id, or of where it would be
  void insert(int64_t id, size_t slot);
  void erase(int64_t id);
  void grow_index();
  void bring(std::span<const int64_t> ids, std::vector<size_t>& slots);
  void make(int64_t id, float* to) const;
  size_t free_slot();
  void evict(size_t count);
  void flush();

  static constexpr size_t kChunk = 16384;  // rows of one piece of memory
  const std::vector<std::shared_ptr<RowInit>> columns_;
  std::vector<size_t> widths_, begins_;  // of a column, in a record
  size_t width_ = 0;                     // of a record
  uint64_t disk_memory_ = 0;
  size_t most_ = 0;  // rows in memory
  const std::string directory_;
  std::unique_ptr<RowDisk> disk_;  // from the first row on that has no room

  std::vector<std::unique_ptr<float[]>> chunks_;
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
  std::vector<uint32_t> index_;  // slot + 1 by the hash of an id, and those behind it; 0: none
  size_t used_ = 0, hand_ = 0;
  uint32_t batch_ = 0;
};

}  // namespace trireme
