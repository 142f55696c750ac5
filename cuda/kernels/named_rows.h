// Rows of a table that a list names, some of them more than once: each is worked on by one block of
// threads, which goes through its namings in their order, so that sums have the same bits every
// time.
#pragma once

#include <optional>
#include <string>

#include "cuda/cuda_device.h"
#include "cuda/emit.h"

namespace trireme::cuda {

class NamedRows {
 public:
  struct Site {
    int64_t height = 0, width = 0;        // of the table
    int64_t count = 0;                    // of the namings
    std::string id_type;                  // their element type, as text
    int fault = 0;                        // told for a number that is no row
    std::optional<int64_t> skipped = {};  // a number that names nothing
  };
  explicit NamedRows(Site site);

  // Scratch of the two tables: who is the first to name a row, and how often it is named.
  size_t bytes() const { return static_cast<size_t>(2 * site_.height) * sizeof(int32_t); }
  // Fills them.
  void find(CudaQueue& queue, std::byte* scratch, const void* ids) const;

  // For every row that is named: declares T g, the value of its first naming in column c, and `to`,
  // where c stands in the table; runs `again` with T more, the next value, for each further naming;
  // then `end`. `begin` comes first. p.at: ids, scratch, values; the caller's own follow.
  Launch update(const std::string& type, const std::string& begin, const std::string& again,
                const std::string& end, int addresses) const;

 private:
  Site site_;
  Launch mark_;
};

}  // namespace trireme::cuda
