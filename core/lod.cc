// LoD: from lengths to offsets and back, and what makes one valid.
#include "core/lod.h"

#include "core/error.h"
#include "core/text.h"

namespace trireme {

Lod lod_from_lengths(const Lod& lengths) {
  Lod offsets;
  offsets.reserve(lengths.size());
  for (size_t level = 0; level < lengths.size(); ++level) {
    std::vector<int64_t> ends{0};
    ends.reserve(lengths[level].size() + 1);
    for (int64_t length : lengths[level]) {
      if (length < 0) {
        throw Error(cat("a sequence of LoD level ", level, " has length ", length))
            .fix("give lengths of 0 or more");
      }
      int64_t end = 0;
      if (__builtin_add_overflow(ends.back(), length, &end)) {
        throw Error(cat("the lengths of LoD level ", level, " add up to more than 2^63 rows"));
      }
      ends.push_back(end);
    }
    offsets.push_back(std::move(ends));
  }
  return offsets;
}

Lod lengths_from_lod(const Lod& offsets) {
  Lod lengths;
  lengths.reserve(offsets.size());
  for (const std::vector<int64_t>& ends : offsets) {
    std::vector<int64_t> level;
    for (size_t i = 1; i < ends.size(); ++i) level.push_back(ends[i] - ends[i - 1]);
    lengths.push_back(std::move(level));
  }
  return lengths;
}

std::string lod_problem(const Lod& offsets, int64_t rows) {
  for (size_t level = 0; level < offsets.size(); ++level) {
    if (offsets[level].size() < 2) {
      return cat("level ", level, " needs at least 2 offsets but has ", offsets[level].size());
    }
  }
  for (size_t level = 0; level < offsets.size(); ++level) {
    const std::vector<int64_t>& ends = offsets[level];
    if (ends.front() != 0) return cat("level ", level, " starts at ", ends.front(), ", not at 0");
    for (size_t i = 1; i < ends.size(); ++i) {
      if (ends[i] < ends[i - 1]) {
        return cat("level ", level, " falls from ", ends[i - 1], " to ", ends[i]);
      }
    }
    if (level + 1 < offsets.size()) {
      const auto sequences = static_cast<int64_t>(offsets[level + 1].size()) - 1;
      if (ends.back() != sequences) {
        return cat("level ", level, " ends at ", ends.back(), " but level ", level + 1, " has ",
                   sequences, " sequences");
      }
    } else if (rows > 0 && ends.back() != rows) {
      return cat("the last level ends at ", ends.back(), " but the tensor has ", rows, " rows");
    }
  }
  return {};
}

std::string to_string(const Lod& offsets) {
  std::vector<std::string> levels;
  levels.reserve(offsets.size());
  for (const std::vector<int64_t>& ends : offsets) levels.push_back(cat("[", join(ends), "]"));
  return cat("[", join(levels), "]");
}

}  // namespace trireme
