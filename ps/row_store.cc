// Rows by number: an index of open addressing, a clock for what leaves, and the disk behind it.
#include "ps/row_store.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/random.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr size_t kAtOnce = 2048;       // rows that must be in memory together
constexpr size_t kEvictAtLeast = 512;  // they are written together
constexpr uint64_t kIndexBytes = 16;   // of a row, at most
constexpr uint64_t kMostForDisk = 64 << 20;

// As the random ops draw them: element by element of one stream.
void fill_row(const RowInit& init, int64_t row, std::span<float> to) {
  const Philox philox(init.seed, init.stream, init.begin + static_cast<uint64_t>(row) * to.size());
  for (uint64_t i = 0; i < to.size(); ++i) {
    switch (init.law) {
      case RowInit::Law::constant:
        to[i] = static_cast<float>(init.first);
        break;
      case RowInit::Law::uniform:
        to[i] = static_cast<float>(init.first + (init.second - init.first) * philox.uniform(i));
        break;
      case RowInit::Law::normal:
        to[i] = static_cast<float>(init.first + init.second * philox.normal(i));
        break;
      case RowInit::Law::truncated_normal:
        to[i] = static_cast<float>(init.first + init.second * philox.truncated_normal(i));
    }
  }
}

size_t hash_of(int64_t id) {
  return static_cast<size_t>(static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u >> 20);
}

}  // namespace

RowStore::RowStore(std::vector<std::shared_ptr<RowInit>> columns, uint64_t memory,
                   std::string directory)
    : columns_(std::move(columns)), directory_(std::move(directory)) {
  for (const auto& column : columns_) {
    begins_.push_back(width_);
    widths_.push_back(static_cast<size_t>(column->width()));
    width_ += widths_.back();
  }
  disk_memory_ = std::min(memory / 4, kMostForDisk);
  const uint64_t row = width_ * sizeof(float) + sizeof(Slot) + kIndexBytes;
  most_ = (memory - disk_memory_) / row;
  if (most_ < 2 * kAtOnce) {
    throw Error(cat("FLAGS_table_memory leaves room for ", most_, " rows of ", row, " bytes"))
        .fix(cat("give ", (2 * kAtOnce * row * 4 / 3 >> 20) + 1, " MB for each table at least"));
  }
  index_.assign(1024, 0);
}

size_t RowStore::place(int64_t id) const {
  const size_t mask = index_.size() - 1;
  size_t at = hash_of(id) & mask;
  while (index_[at] && slots_[index_[at] - 1].id != id) at = (at + 1) & mask;
  return at;
}

void RowStore::insert(int64_t id, size_t slot) {
  if (2 * (used_ + 1) > index_.size()) grow_index();
  slots_[slot].id = id;
  index_[place(id)] = static_cast<uint32_t>(slot + 1);
  ++used_;
}

void RowStore::grow_index() {
  index_.assign(index_.size() * 2, 0);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].id >= 0) index_[place(slots_[slot].id)] = static_cast<uint32_t>(slot + 1);
  }
}

// What stands behind it in its run moves up, so that no search ends early.
void RowStore::erase(int64_t id) {
  const size_t mask = index_.size() - 1;
  size_t hole = place(id);
  for (size_t at = (hole + 1) & mask; index_[at]; at = (at + 1) & mask) {
    const size_t home = hash_of(slots_[index_[at] - 1].id) & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;  // it may not stand before its home
    index_[hole] = index_[at];
    hole = at;
  }
  index_[hole] = 0;
  --used_;
}

void RowStore::make(int64_t id, float* to) const {
  for (size_t c = 0; c < columns_.size(); ++c) {
    fill_row(*columns_[c], id, {to + begins_[c], widths_[c]});
  }
}

size_t RowStore::free_slot() {
  if (free_.empty()) {
    if (slots_.size() % kChunk == 0) chunks_.emplace_back(new float[kChunk * width_]);
    slots_.emplace_back();
    return slots_.size() - 1;
  }
  const size_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void RowStore::evict(size_t count) {
  if (!disk_) disk_ = open_row_disk(directory_, "", width_ * sizeof(float), disk_memory_);
  std::vector<int64_t> ids;
  std::vector<float*> records;
  for (size_t found = 0; found < count; hand_ = (hand_ + 1) % slots_.size()) {
    Slot& slot = slots_[hand_];
    if (slot.id < 0 || slot.batch == batch_) continue;
    if (std::exchange(slot.hot, false)) continue;
    if (slot.changed) {
      ids.push_back(slot.id);
      records.push_back(record(hand_));
    }
    erase(slot.id);
    slot = {};
    free_.push_back(hand_);
    ++found;
  }
  if (!ids.empty()) disk_->write(ids, records);
}

// At most kAtOnce of them: half of the memory stays for others, which the clock can choose from.
void RowStore::bring(std::span<const int64_t> ids, std::vector<size_t>& slots) {
  ++batch_;
  slots.assign(ids.size(), 0);
  std::vector<int64_t> missing;
  std::vector<size_t> at;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (const uint32_t found = index_[place(ids[i])]) {
      slots[i] = found - 1;
      slots_[slots[i]].batch = batch_;
      slots_[slots[i]].hot = true;
    } else {
      missing.push_back(ids[i]);
      at.push_back(i);
    }
  }
  if (missing.empty()) return;
  if (used_ + missing.size() > most_) evict(std::max(missing.size(), kEvictAtLeast));
  std::vector<float*> records;
  for (size_t i = 0; i < missing.size(); ++i) {
    const size_t slot = slots[at[i]] = free_slot();
    insert(missing[i], slot);
    slots_[slot].batch = batch_;
    slots_[slot].hot = true;
    records.push_back(record(slot));
  }
  std::vector<bool> found(missing.size(), false);
  if (disk_) disk_->read(missing, records, found);
  for (size_t i = 0; i < missing.size(); ++i) {
    if (!found[i]) make(missing[i], records[i]);
  }
}

void RowStore::take(std::span<const int64_t> ids, std::span<float* const> to) {
  std::vector<size_t> slots;
  for (size_t first = 0; first < ids.size(); first += kAtOnce) {
    const size_t count = std::min(kAtOnce, ids.size() - first);
    bring(ids.subspan(first, count), slots);
    for (size_t i = 0; i < count; ++i) {
      const float* from = record(slots[i]);
      for (size_t c = 0; c < columns_.size(); ++c) {
        if (!to[c]) continue;
        std::memcpy(to[c] + (first + i) * widths_[c], from + begins_[c],
                    widths_[c] * sizeof(float));
      }
    }
  }
}

void RowStore::put(std::span<const int64_t> ids, std::span<const float* const> from) {
  std::vector<size_t> slots;
  for (size_t first = 0; first < ids.size(); first += kAtOnce) {
    const size_t count = std::min(kAtOnce, ids.size() - first);
    bring(ids.subspan(first, count), slots);
    for (size_t i = 0; i < count; ++i) {
      float* to = record(slots[i]);
      for (size_t c = 0; c < columns_.size(); ++c) {
        std::memcpy(to + begins_[c], from[c] + (first + i) * widths_[c],
                    widths_[c] * sizeof(float));
      }
      slots_[slots[i]].changed = true;
    }
  }
}

void RowStore::take_all(size_t column, float* to) {
  std::vector<float> other(width_);
  std::vector<float*> where(1, other.data());
  std::vector<bool> found;
  for (int64_t id = 0; id < height(); ++id) {
    const float* from = other.data();
    if (const uint32_t here = index_[place(id)]) {
      from = record(here - 1);
    } else {
      found.assign(1, false);
      if (disk_) disk_->read(std::span(&id, 1), where, found);
      if (!found[0]) make(id, other.data());
    }
    std::memcpy(to + static_cast<size_t>(id) * widths_[column], from + begins_[column],
                widths_[column] * sizeof(float));
  }
}

void RowStore::flush() {
  std::vector<int64_t> ids;
  std::vector<float*> records;
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!std::exchange(slots_[slot].changed, false)) continue;
    ids.push_back(slots_[slot].id);
    records.push_back(record(slot));
    if (ids.size() < kAtOnce) continue;
    disk_->write(ids, records);
    ids.clear();
    records.clear();
  }
  if (!ids.empty()) disk_->write(ids, records);
}

void RowStore::save(ByteSink& to, const std::string& checkpoint) {
  to.write_number(static_cast<uint32_t>(columns_.size()));
  for (const auto& column : columns_) to.write_number(column->seed);
  to.write_number(static_cast<uint8_t>(disk_ != nullptr));
  if (disk_) {
    flush();
    return disk_->checkpoint(checkpoint);
  }
  const auto changed = std::ranges::count_if(slots_, &Slot::changed);
  to.write_number(static_cast<uint64_t>(changed));
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].changed) continue;
    to.write_number(slots_[slot].id);
    to.write(record(slot), width_ * sizeof(float));
  }
}

void RowStore::load(ByteSource& from, const std::string& checkpoint) {
  if (from.read<uint32_t>("the columns of a table") != columns_.size()) {
    throw from.error("a table has other states than its program's");
  }
  for (const auto& column : columns_) column->seed = from.read<uint64_t>("a seed");
  if (from.read<uint8_t>("where rows are") != 0) {
    disk_ = open_row_disk(directory_, checkpoint, width_ * sizeof(float), disk_memory_);
    return;
  }
  const auto count = from.read<uint64_t>("the number of rows");
  if (count > most_) throw from.error(cat("a table has ", count, " rows in memory"));
  for (uint64_t i = 0; i < count; ++i) {
    const auto id = from.read<int64_t>("a row's number");
    if (id < 0 || id >= height()) throw from.error(cat("row ", id, " of ", height()));
    const size_t slot = free_slot();
    insert(id, slot);
    slots_[slot].changed = true;
    from.read(record(slot), width_ * sizeof(float), "a row");
  }
}

}  // namespace trireme
