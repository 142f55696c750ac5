// The texts of faults, by number.
#include "cuda/faults.h"

#include <mutex>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace trireme::cuda {
namespace {

std::mutex fault_mutex;
std::vector<FaultText>& fault_texts() {
  static auto& all = *new std::vector<FaultText>;
  return all;
}

}  // namespace

int fault_code(const FaultText& text) {
  const std::lock_guard lock(fault_mutex);
  std::vector<FaultText>& all = fault_texts();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].what == text.what && all[i].rest == text.rest) return static_cast<int>(i) + 1;
  }
  all.push_back(text);
  return static_cast<int>(all.size());
}

void tell_fault(FaultWord& word) {
  if (word.code == 0) return;
  const FaultWord found = word;
  word = {};
  const std::lock_guard lock(fault_mutex);
  const FaultText& text = fault_texts()[static_cast<size_t>(found.code) - 1];
  throw Error(ErrorKind::out_of_range,
              cat(text.what, " ", found.value, " at position ", found.position, " of ", text.rest))
      .fix(text.fix);
}

}  // namespace trireme::cuda
