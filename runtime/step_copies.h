// Steps on copies of a scope's variables, for whoever compares two ways to run a program.
#pragma once

#include <string>
#include <vector>

#include "core/scope.h"
#include "ir/program.h"

namespace trireme {

// What an op writes, and how it can be seen.
struct Written {
  const Op* op;
  std::string name;
  bool fetched = true;  // else it is looked up in the scope
};
// What ops of the first block write and a fetch can show, in their order.
std::vector<Written> results_of(const Program& program);

void copy_scope(const Scope& from, Scope& to);

// The largest, absolute; infinite where the two are not even alike. `scale` becomes the largest
// number of `a` among those that differ, where that is larger.
double largest_difference(const Variable& a, const Variable& b, double& scale);

}  // namespace trireme
