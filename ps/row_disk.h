// Rows that memory has no room for, in a RocksDB store. Its adaptor alone knows RocksDB.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class RowDisk {
 public:
  virtual ~RowDisk() = default;
  // records[i]: the memory of row ids[i].
  virtual void write(std::span<const int64_t> ids, std::span<float* const> records) = 0;
  // `found` says which there were; ids ascend.
  virtual void read(std::span<const int64_t> ids, std::span<float* const> records,
                    std::vector<bool>& found) = 0;
  // The store as it is now, as a directory of its own; files that do not change are shared.
  virtual void checkpoint(const std::string& directory) = 0;
};

// Begins with what a checkpoint has, or empty. An Error where this build has no RocksDB.
std::unique_ptr<RowDisk> open_row_disk(const std::string& directory, const std::string& checkpoint,
                                       size_t record_bytes, uint64_t memory);

}  // namespace trireme
