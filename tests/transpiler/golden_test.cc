// Whole transpiled programs against texts that are kept in programs.inc: op sequences, names,
// shapes and attributes of all sides, for one to four servers, cut and not, sync and async.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

// One line for every variable (startup programs have those of the main program) and op. Attributes
// of ops that talk to servers, cut or join; of the others, what slices and trainers change.
std::string text_of(const std::string& title, const Program& program) {
  const bool is_startup = title.ends_with("startup");
  std::string text = title + "\n";
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    const Block& block = program.block(static_cast<int>(b));
    text += cat("  block ", b, " in ", block.parent_index(), "\n");
    for (const Var* var : block.vars()) {
      if (!var->has_shape() || is_startup) continue;
      text += cat("    var ", var->name(), " ", var->shape(), " ", name_of(var->dtype()),
                  var->persistable() ? " persistable" : "", "\n");
    }
    for (const Op* op : block.ops()) {
      text += cat("    ", op->type(), "(", join(op->input_names()), ") -> ",
                  join(op->output_names()), "\n");
      const bool inserted = op->has_role(op_role::kRpc) || op->has_role(op_role::kDist);
      std::string attrs;
      for (const auto& [name, value] : op->attrs()) {
        const bool everywhere = name == "op_namescope" || name == "op_device" ||
                                name == "op_callstack" || name == "use_mkldnn" ||
                                name == "use_quantizer" || name == "mkldnn_data_type";
        const bool first_value = is_startup && (name == "shape" || name == "value");
        const bool average = b > 0 && name == "scale";
        if ((inserted && !everywhere) || first_value || average) {
          attrs += cat(attrs.empty() ? "" : ", ", name, "=", to_string(value));
        }
      }
      if (!attrs.empty()) text += cat("      ", attrs, "\n");
    }
  }
  return text;
}

std::string cluster_text(int servers, bool sliced, bool sync) {
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.slice_var_up = sliced;
  DistributeTranspiler transpiler(config);
  Strings endpoints;
  for (int s = 0; s < servers; ++s) endpoints.push_back(cat("10.0.0.", s, ":6174"));
  TranspileRequest request = net.request(1, 2, join(endpoints, ","));
  request.sync_mode = sync;
  transpiler.transpile(request);
  std::string text = text_of("trainer main", *transpiler.get_trainer_program(false)) +
                     text_of("trainer startup", *net.startup);
  for (const std::string& endpoint : endpoints) {
    const auto [main, startup] = transpiler.get_pserver_programs(endpoint);
    text += text_of(endpoint + " main", *main) + text_of(endpoint + " startup", *startup);
  }
  return text;
}

struct Kept {
  const char* name;
  const char* text;
};
const Kept kKept[] = {
#include "tests/transpiler/programs.inc"
};

// What differs is printed as it is now: look at it, and if it is right, put it into programs.inc.
TEST(Golden, ProgramsOfOneToFourServers) {
  std::map<std::string, std::string> kept;
  for (const Kept& one : kKept) kept[one.name] = one.text;
  for (const int servers : {1, 2, 3, 4}) {
    for (const bool sliced : {true, false}) {
      for (const bool sync : {true, false}) {
        const std::string name =
            cat(sync ? "sync" : "async", sliced ? ", cut, " : ", whole, ", servers);
        const std::string text = cluster_text(servers, sliced, sync);
        EXPECT_TRUE(kept[name] == text) << "{\"" << name << "\", R\"(" << text << ")\"},";
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
