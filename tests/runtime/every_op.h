// Programs of every op, alone and with its gradient, for tests of devices.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/runtime/op_calls.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {

struct EveryOp {
  size_t ops = 0;
  size_t on_host = 0;  // by their rows
};

// In float64, float32 and, where the op takes them, on selected rows. What `use` throws fails the
// test under the op's name.
inline EveryOp for_every_op(const std::function<void(OpProgram&)>& use) {
  EveryOp all;
  for (const OpSchema* row : op_table().rows()) {
    if (row->forward() || row->trait().primitive || row->type().ends_with("_grad")) continue;
    ++all.ops;
    all.on_host += row->trait().host;
    for (OpCall call : calls_of(*row)) {
      SCOPED_TRACE(row->type());
      const auto run = [&](const OpCall& one) {
        OpProgram built = build_op(one);
        use(built);
        if (!row->differentiable() || !one.sparse_inputs.empty()) return;
        OpProgram with_gradient = build_op(one);
        append_gradient(with_gradient, run_op(one));
        use(with_gradient);
      };
      try {
        run(call);
        if (row->trait().host || !call.sparse_inputs.empty()) continue;
        call.inputs = in_float32(call.inputs);
        run(call);
        if (const std::optional<OpCall> sparse = of_rows(call)) run(*sparse);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
  return all;
}

}  // namespace trireme::testing
