// Whole transpiled programs against the original's: op sequences, names, shapes and attributes of
// all sides, for one to four servers, cut and not, sync and async. programs.inc holds what
// PaddlePaddle 1.8.5 makes of the same net (record_programs.py prints it); where ours differs on
// purpose, kDifferences says how and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

// Variables that only order ops have names that mean nothing: counted as they come.
std::string numbered(const std::string& text) {
  static const std::regex control("__control_var@[0-9]+");
  std::map<std::string, std::string> names;
  std::string out;
  size_t at = 0;
  for (std::sregex_iterator m(text.begin(), text.end(), control), end; m != end; ++m) {
    const auto found = names.emplace(m->str(), cat("__control_var@", names.size())).first;
    out += text.substr(at, static_cast<size_t>(m->position()) - at) + found->second;
    at = static_cast<size_t>(m->position() + m->length());
  }
  return out + text.substr(at);
}

// One line for every variable (startup programs have those of the main program) and op. Attributes
// of ops that talk to servers, cut or join; of the others, what slices and trainers change. The
// order of variables means nothing: they are sorted.
std::string text_of(const std::string& title, const Program& program) {
  const bool is_startup = title.ends_with("startup");
  std::string text = title + "\n";
  for (size_t b = 0; b < program.num_blocks(); ++b) {
    const Block& block = program.block(static_cast<int>(b));
    text += cat("  block ", b, " in ", block.parent_index(), "\n");
    std::map<std::string, std::string> vars;
    for (const Var* var : block.vars()) {
      if (!var->has_shape() || is_startup) continue;
      vars[var->name()] =
          cat("    var ", var->name(), " ", var->shape(), " ", name_of(var->dtype()),
              var->persistable() ? " persistable" : "", "\n");
    }
    for (const auto& [name, line] : vars) text += line;
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
  return numbered(text);
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

// What ours does otherwise, line by line: where a line of the original begins with `op` (attributes
// stand on the next line), `from` becomes `to`.
struct Difference {
  const char *why, *op, *from, *to;
  bool async_only = false;
};
const Difference kDifferences[] = {
    {"the original's send leaves trainer_id at its default: only the first op of a process says it",
     "    send(", "trainer_id=0", "trainer_id=1"},
    {"an attribute of our own, empty where one round of barriers runs all blocks",
     "    listen_and_serv(", "Fanin=2, ", "Fanin=2, blocks_by_round=[], "},
    {"it talks to other processes, and says so as send and recv do", "    listen_and_serv(",
     "op_role=0", "op_role=4"},
    {"the original takes the mode from the config alone: servers of transpile(sync_mode=False) "
     "wait "
     "for barriers that no trainer sends",
     "    listen_and_serv(", "distributed_mode=0", "distributed_mode=2", true},
    {"in the main program the original marks a concat of slices, in the startup program it does "
     "not",
     "    concat(", "", "      axis=0, op_role=8, op_role_var=[]"},
};

// The original's text with our differences in it; `used` says which of them occurred.
std::string with_differences(const std::string& text, bool async, std::set<size_t>& used) {
  Strings lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  Strings out;
  for (size_t i = 0; i < lines.size(); ++i) {
    out.push_back(lines[i]);
    const bool has_attrs = i + 1 < lines.size() && lines[i + 1].starts_with("      ");
    for (size_t d = 0; d < std::size(kDifferences); ++d) {
      const Difference& one = kDifferences[d];
      if (!lines[i].starts_with(one.op) || (one.async_only && !async)) continue;
      if (!*one.from && !has_attrs) {
        out.push_back(one.to);
        used.insert(d);
      } else if (*one.from && has_attrs) {
        const size_t at = lines[i + 1].find(one.from);
        if (at == std::string::npos) continue;
        lines[i + 1].replace(at, std::string(one.from).size(), one.to);
        used.insert(d);
      }
    }
  }
  return join(out, "\n") + "\n";
}

// The first line that is not the same, and what is around it.
std::string first_difference(const std::string& a, const std::string& b) {
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto line = [](const std::string& text, std::ptrdiff_t to) {
    const size_t end = static_cast<size_t>(to);
    const size_t begin = end == 0 ? 0 : text.rfind('\n', end - 1) + 1;
    return text.substr(begin, text.find('\n', end) - begin);
  };
  return cat("\n  the original: ", line(a, at - a.begin()),
             "\n  ours:         ", line(b, other - b.begin()));
}

TEST(Golden, ProgramsOfOneToFourServersAreTheOriginals) {
  std::map<std::string, std::string> originals;
  for (const Kept& one : kKept) originals[one.name] = one.text;
  std::set<size_t> used;
  for (const int servers : {1, 2, 3, 4}) {
    for (const bool sliced : {true, false}) {
      for (const bool sync : {true, false}) {
        const std::string name =
            cat(sync ? "sync" : "async", sliced ? ", cut, " : ", whole, ", servers);
        const std::string wanted = with_differences(originals[name], !sync, used);
        const std::string text = cluster_text(servers, sliced, sync);
        EXPECT_TRUE(wanted == text) << name << first_difference(wanted, text);
      }
    }
  }
  EXPECT_EQ(used.size(), std::size(kDifferences)) << "a difference that is listed is none";
}

}  // namespace
}  // namespace trireme::testing
