// What lstm and lstmp call their operands.
#pragma once

#include "ir/schema.h"

namespace trireme {

struct LstmSlots {
  bool projected;
  const char* state;   // what goes out and to the next step
  const char* hidden;  // before projection

  explicit LstmSlots(const OpView& op)
      : projected(op.schema().find_input("ProjWeight") != nullptr),
        state(projected ? "Projection" : "Hidden"),
        hidden(projected ? "BatchHidden" : "Hidden") {}
};

}  // namespace trireme
