// Tables of wrong uses: one op, how it is used, and what the error must say.
#pragma once

#include <gmock/gmock.h>

#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {

struct WrongUse {
  std::string op;
  Tensors inputs;
  Attrs attrs;
  std::string says;
  std::map<std::string, int> out_counts = {};
};

// Each is refused, by an error that names the op and says the table's words.
inline void expect_refused(const std::vector<WrongUse>& uses) {
  for (const WrongUse& use : uses) {
    SCOPED_TRACE(use.op);
    const std::string what = error_of([&] {
      run_op(
          {.type = use.op, .inputs = use.inputs, .attrs = use.attrs, .out_counts = use.out_counts});
    });
    EXPECT_THAT(what, ::testing::HasSubstr(cat(" in ", use.op, ": ")));
    EXPECT_THAT(what, ::testing::HasSubstr(use.says));
  }
}

// A right use, the op's first sample, with some operands and attributes put in place of its own.
inline WrongUse spoiled(const std::string& op, const Tensors& inputs, const Attrs& attrs,
                        std::string says) {
  Draw draw(1);
  const OpSample sample = op_table().get(op).samples().at(0)(draw);
  WrongUse use{op, sample.inputs, sample.attrs, std::move(says), sample.out_counts};
  for (const auto& [slot, tensors] : inputs) use.inputs[slot] = tensors;
  for (const auto& [name, value] : attrs) use.attrs.insert_or_assign(name, value);
  return use;
}

}  // namespace trireme::testing
