// RocksDB as a store of rows: the key is the row's number, so that neighbours share blocks.
#include "ps/row_disk.h"

#include <filesystem>

#include "core/error.h"
#include "core/text.h"

#ifdef TRIREME_HAVE_ROCKSDB

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace trireme {
namespace {

constexpr size_t kReadAtOnce = 256;

using Key = std::array<char, sizeof(int64_t)>;

// The largest byte first: the store's order is that of the numbers.
Key key_of(int64_t id) { return std::bit_cast<Key>(__builtin_bswap64(static_cast<uint64_t>(id))); }

rocksdb::Slice slice_of(const Key& key) { return {key.data(), key.size()}; }

void check(const rocksdb::Status& status, const std::string& directory) {
  if (status.ok()) return;
  throw IoError(cat("the rows in ", directory, ": ", status.ToString()))
      .fix("see whether the disk is full; FLAGS_table_directory names another");
}

class RocksRows final : public RowDisk {
 public:
  RocksRows(std::string directory, size_t record_bytes, uint64_t memory)
      : directory_(std::move(directory)), record_bytes_(record_bytes) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = std::max<uint64_t>(memory / 4, 1 << 20);
    options.max_write_buffer_number = 2;
    options.allow_mmap_reads = true;  // blocks are read where the kernel keeps them
    options.max_background_jobs = 2;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(std::max<uint64_t>(memory / 4, 1 << 20));
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.cache_index_and_filter_blocks = true;
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* opened = nullptr;
    check(rocksdb::DB::Open(options, directory_, &opened), directory_);
    db_.reset(opened);
  }

  ~RocksRows() override {
    db_.reset();
    std::error_code gone;
    std::filesystem::remove_all(directory_, gone);
  }

  void write(std::span<const int64_t> ids, std::span<float* const> records) override {
    rocksdb::WriteBatch batch;
    for (size_t i = 0; i < ids.size(); ++i) {
      const Key key = key_of(ids[i]);
      batch.Put(slice_of(key),
                rocksdb::Slice(reinterpret_cast<const char*>(records[i]), record_bytes_));
    }
    rocksdb::WriteOptions options;
    options.disableWAL = true;  // a server that dies goes on from a checkpoint
    check(db_->Write(options, &batch), directory_);
  }

  void read(std::span<const int64_t> ids, std::span<float* const> records,
            std::vector<bool>& found) override {
    found.assign(ids.size(), false);
    std::array<Key, kReadAtOnce> keys;
    std::array<rocksdb::Slice, kReadAtOnce> slices;
    std::array<rocksdb::PinnableSlice, kReadAtOnce> values;
    std::array<rocksdb::Status, kReadAtOnce> statuses;
    for (size_t from = 0; from < ids.size(); from += kReadAtOnce) {
      const size_t count = std::min(kReadAtOnce, ids.size() - from);
      for (size_t i = 0; i < count; ++i) {
        keys[i] = key_of(ids[from + i]);
        slices[i] = slice_of(keys[i]);
        values[i].Reset();
      }
      rocksdb::ReadOptions options;
      options.verify_checksums = false;  // the file is this process's own
      db_->MultiGet(options, db_->DefaultColumnFamily(), count, slices.data(), values.data(),
                    statuses.data(), /*sorted_input=*/true);
      for (size_t i = 0; i < count; ++i) {
        if (statuses[i].IsNotFound()) continue;
        check(statuses[i], directory_);
        if (values[i].size() != record_bytes_) {
          throw IoError(cat("row ", ids[from + i], " in ", directory_, " has ", values[i].size(),
                            " bytes, not ", record_bytes_));
        }
        std::memcpy(records[from + i], values[i].data(), record_bytes_);
        found[from + i] = true;
      }
    }
  }

  void checkpoint(const std::string& directory) override {
    rocksdb::Checkpoint* made = nullptr;
    check(rocksdb::Checkpoint::Create(db_.get(), &made), directory);
    const std::unique_ptr<rocksdb::Checkpoint> held(made);
    check(held->CreateCheckpoint(directory), directory);
  }

 private:
  const std::string directory_;
  const size_t record_bytes_;
  std::unique_ptr<rocksdb::DB> db_;
};

// Files of rows never change: they are shared. The others are few and small.
void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::filesystem::path target = to / entry.path().filename();
    std::error_code refused;
    if (entry.path().extension() == ".sst") {
      std::filesystem::create_hard_link(entry.path(), target, refused);
      if (!refused) continue;
    }
    std::filesystem::copy_file(entry.path(), target);
  }
}

}  // namespace

std::unique_ptr<RowDisk> open_row_disk(const std::string& directory, const std::string& checkpoint,
                                       size_t record_bytes, uint64_t memory) {
  std::filesystem::remove_all(directory);
  if (!checkpoint.empty()) {
    copy_checkpoint(checkpoint, directory);
  } else {
    std::filesystem::create_directories(directory);
  }
  return std::make_unique<RocksRows>(directory, record_bytes, memory);
}

}  // namespace trireme

#else

namespace trireme {

std::unique_ptr<RowDisk> open_row_disk(const std::string& directory, const std::string&, size_t,
                                       uint64_t) {
  throw Error(ErrorKind::unimplemented,
              cat("a table is larger than FLAGS_table_memory, and this build of Trireme has no "
                  "RocksDB for the rest in ",
                  directory))
      .fix("install RocksDB (Debian: librocksdb-dev) and build again, or give more memory");
}

}  // namespace trireme

#endif
