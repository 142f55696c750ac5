// The ops of CONTRIBUTING.md, added to the table as if they stood in ops/ and cpu/kernels/.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "cpu/vectorised.h"
#include "ir/added_ops.h"
#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

#include "contributing/kernel_reference.inc"

#include "contributing/kernel_fast.inc"

void add_worked_ops(Registry& ops) {
#include "contributing/kernel_row.inc"
#include "contributing/op_row.inc"
  add_row_range_kernels(ops);
}

const bool worked_ops_added = [] {
  add_ops(add_worked_ops);
  return true;
}();

}  // namespace

}  // namespace trireme
