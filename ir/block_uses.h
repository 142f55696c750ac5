// Who reads and who writes each name of a block, for walks that ask this of many names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/program.h"

namespace trireme {

// The block's ops as they are when this is made. Ops inserted later have no place in it, and those
// that it knows keep their order.
class BlockUses {
 public:
  explicit BlockUses(const Block& block);

  struct Uses {
    std::vector<size_t> reads, writes;  // places in the order of ops, ascending
  };

  const Uses& of(std::string_view name) const;  // nobody reads and writes a name that is unknown
  Op& op(size_t place) const { return *ops_[place]; }
  size_t place_of(const Op& op) const { return places_.at(&op); }

 private:
  std::vector<Op*> ops_;
  std::unordered_map<const Op*, size_t> places_;
  std::map<std::string, Uses, std::less<>> uses_;
};

}  // namespace trireme
