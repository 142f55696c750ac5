// One value out of what devices computed under one name.
#pragma once

#include <optional>
#include <string>

#include "core/scope.h"
#include "runtime/replicas.h"

namespace trireme {

enum class Merge {
  join,   // tensors along dimension 0 in device order, arrays of tensors element by element
  first,  // the first device's
  mean,   // weighted by the devices' shares of the batch
};

// Nothing where values cannot be joined, as rows cannot: they stay one per device, in `result`.
std::optional<Variable> merge_fetch(const std::string& name, Replicas::Result& result, Merge how);

}  // namespace trireme
