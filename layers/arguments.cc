// Argument types of layer functions: reading lists that may hold variables.
#include "layers/arguments.h"

#include <algorithm>
#include <limits>

#include "core/text.h"

namespace trireme {

std::vector<std::string> Vars::names() const {
  std::vector<std::string> names;
  names.reserve(list_.size());
  for (const Var* var : list_) names.push_back(var->name());
  return names;
}

bool Extents::all_known() const {
  return !tensor_ && std::none_of(items_.begin(), items_.end(),
                                  [](const Extent& item) { return item.var != nullptr; });
}

std::vector<int64_t> Extents::longs() const {
  std::vector<int64_t> numbers;
  numbers.reserve(items_.size());
  for (const Extent& item : items_) numbers.push_back(item.var ? -1 : item.value);
  return numbers;
}

std::vector<int> Extents::ints() const {
  std::vector<int> numbers;
  numbers.reserve(items_.size());
  for (const int64_t number : longs()) {
    if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
      throw Error(cat(number, " does not fit into 32 bits"));
    }
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

}  // namespace trireme
