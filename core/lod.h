// Level-of-detail: how rows of a tensor group into (nested) sequences, as offsets per level.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

using Lod = std::vector<std::vector<int64_t>>;  // [[0, 2, 5]]: two sequences, of 2 and 3 rows

Lod lod_from_lengths(const Lod& lengths);  // [[2, 3]] -> [[0, 2, 5]]
Lod lengths_from_lod(const Lod& offsets);
// Empty when valid, else what is wrong with it. The last level must end at `rows`; rows <= 0 (not
// known yet, or the tensor is set later) leaves that end unchecked.
std::string lod_problem(const Lod& offsets, int64_t rows);
std::string to_string(const Lod& offsets);

}  // namespace trireme
