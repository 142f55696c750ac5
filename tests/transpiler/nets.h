// Programs that transpiler tests share, and their programs as short text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/text.h"
#include "ir/unique_name.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "tests/layers/build.h"
#include "transpiler/distribute.h"

namespace trireme::testing {

using Strings = std::vector<std::string>;

inline const char* const kServers = "127.0.0.1:6174,127.0.0.1:6175";
inline const std::string kEp0 = "127.0.0.1:6174", kEp1 = "127.0.0.1:6175";

using Minimize = std::function<void(Var& loss)>;
inline void sgd(Var& loss) { optimizer::Sgd(0.1).minimize(loss); }

// fc 1000 -> 1000, squared error, mean.
struct ClassicNet : FreshPrograms {
  Var* loss = nullptr;
  explicit ClassicNet(const Minimize& minimize = sgd, int64_t width = 1000) {
    Var& x = layers::data("x", {width});
    Var& y = layers::data("y", {width});
    Var& out = layers::fc(x, {.size = width, .param_attr = "fc_w", .bias_attr = "fc_b"});
    loss = &layers::mean(layers::square_error_cost(out, y));
    minimize(*loss);
  }
  TranspileRequest request(int trainer_id = 0, int trainers = 2,
                           const std::string& pservers = kServers) const {
    return {.trainer_id = trainer_id,
            .program = main,
            .startup_program = startup,
            .pservers = pservers,
            .trainers = trainers};
  }
};

inline const Op& nth(const Program& program, const std::string& type, int n = 0) {
  for (const Op* op : program.global_block().ops()) {
    if (op->type() == type && n-- == 0) return *op;
  }
  throw InternalError("no such op: " + type);
}

inline Strings strings(const Op& op, const char* name) { return op.attr<Strings>(name); }

// "[listen_and_serv] [sum scale sgd]": types of every block.
inline std::string blocks_of(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    text += cat(i ? " " : "", "[", types_of(program.block(static_cast<int>(i))), "]");
  }
  return text;
}

inline std::string types_of(const Program& program) { return types_of(program.global_block()); }
using trireme::types_of;

}  // namespace trireme::testing
