// The programs of a cluster, written down here from the rules alone: how parameters are cut, placed
// and named, and which ops with which attributes follow from it. Nothing below asks the transpiler
// what it decided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/transpiler/nets.h"

namespace trireme::testing {
namespace {

constexpr int64_t kWidth = 1000;  // of ClassicNet
constexpr int64_t kMinBlock = 8192;
constexpr int kRpc = 4, kDist = 8;

struct Cluster {
  int servers = 2, trainers = 2, trainer = 0;
  bool cut = true, sync = true, split_at_run = false;

  Strings endpoints() const {
    Strings list;
    for (int s = 0; s < servers; ++s) list.push_back(cat("10.0.0.", s, ":6174"));
    return list;
  }
  bool by_trainer() const { return sync && trainers > 1; }
  std::string describe() const {
    return cat(servers, " servers, trainer ", trainer, " of ", trainers, cut ? ", cut" : ", whole",
               sync ? ", sync" : ", async", split_at_run ? ", split at run" : "");
  }
};

// A parameter's blocks of whole rows, on servers in turn.
struct Param {
  std::string name;
  std::vector<int64_t> rows;
  Strings endpoints;
  int64_t columns = 1;

  bool split() const { return rows.size() > 1; }
  Strings names(const std::string& of, const std::string& suffix = "") const {
    Strings list;
    for (size_t b = 0; b < rows.size(); ++b) {
      list.push_back(split() ? cat(of, ".block", b, suffix) : of + suffix);
    }
    return list;
  }
  std::vector<int64_t> shape(size_t block) const {
    return columns > 1 ? std::vector<int64_t>{rows[block], columns}
                       : std::vector<int64_t>{rows[block]};
  }
};

// At least min_block elements in a block, at most one block per server, whole rows.
std::vector<int64_t> cut_rows(int64_t rows, int64_t columns, int64_t servers) {
  const int64_t count = rows * columns;
  const int64_t wanted = std::min(servers, std::max<int64_t>(1, count / kMinBlock));
  const int64_t elements = (count + wanted - 1) / wanted;
  const int64_t block = (elements + columns - 1) / columns;
  std::vector<int64_t> cut;
  for (int64_t row = 0; row < rows; row += block) cut.push_back(std::min(block, rows - row));
  return cut;
}

// In the order of their names; uncut they are dealt in numpy's order of two under seed 0, which is
// the reverse.
std::vector<Param> place_params(const Cluster& cluster) {
  const int64_t servers = cluster.cut ? cluster.servers : 1;
  std::vector<Param> params = {
      {"fc_b", cut_rows(kWidth, 1, servers), {}, 1},
      {"fc_w", cut_rows(kWidth, kWidth, servers), {}, kWidth},
  };
  size_t next = 0;
  const Strings endpoints = cluster.endpoints();
  for (const size_t i : cluster.cut ? std::vector<size_t>{0, 1} : std::vector<size_t>{1, 0}) {
    for (size_t b = 0; b < params[i].rows.size(); ++b) {
      params[i].endpoints.push_back(endpoints[next++ % endpoints.size()]);
    }
  }
  return params;
}

// ---- one line per op: "type | inputs | outputs | attributes"

template <class T>
std::string list_text(const std::vector<T>& list) {
  return cat("[", join(list, " "), "]");
}
std::string attr_text(const Attribute& value) {
  if (const auto* list = std::get_if<Strings>(&value)) return list_text(*list);
  if (const auto* list = std::get_if<std::vector<int32_t>>(&value)) return list_text(*list);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return list_text(*list);
  return to_string(value);
}

// Attributes that the rules say something about.
const std::map<std::string, Strings>& named_attrs() {
  static const std::map<std::string, Strings> attrs = {
      {"send",
       {"epmap", "sections", "send_varnames", "merge_add", "use_send_handler", "op_role",
        "op_role_var"}},
      {"send_barrier", {"endpoints", "trainer_id", "half_async", "op_role"}},
      {"recv",
       {"epmap", "recv_varnames", "trainer_id", "with_barrier", "do_not_run", "op_role",
        "op_role_var"}},
      {"fetch_barrier", {"endpoints", "trainer_id", "op_role"}},
      {"split_byref", {"sections", "op_role"}},
      {"concat", {"axis", "op_role"}},
      {"scale", {"scale"}},
      {"mul_grad", {"op_role_var"}},
      {"elementwise_add_grad", {"op_role_var"}},
      {"uniform_random", {"shape"}},
      {"fill_constant", {"shape"}},
  };
  return attrs;
}

// Variables that only order ops get numbers as they appear.
class Lines {
 public:
  Strings of(const Block& block, const std::function<bool(const Op&)>& wanted = {}) {
    Strings lines;
    for (const Op* op : block.ops()) {
      if (!wanted || wanted(*op)) lines.push_back(line_of(*op));
    }
    return lines;
  }

 private:
  std::string names(const Strings& list) {
    Strings shown;
    for (const std::string& name : list) {
      if (!name.starts_with("__control_var@")) {
        shown.push_back(name);
      } else {
        shown.push_back(cat("<", numbers_.emplace(name, numbers_.size()).first->second, ">"));
      }
    }
    if (!shown.empty() && shown[0].starts_with("<")) std::ranges::sort(shown);
    return list_text(shown);
  }
  std::string line_of(const Op& op) {
    std::string line =
        cat(op.type(), " | ", names(op.input_names()), " | ", names(op.output_names()), " |");
    const auto found = named_attrs().find(op.type());
    if (found == named_attrs().end()) return line;
    for (const std::string& attr : found->second) {
      if (op.has_attr(attr)) line += cat(" ", attr, "=", attr_text(op.attrs().at(attr)));
    }
    return line;
  }
  std::map<std::string, size_t> numbers_;
};

std::string line(const std::string& type, const Strings& in, const Strings& out,
                 const std::string& attrs = "") {
  return cat(type, " | ", list_text(in), " | ", list_text(out), " |", attrs.empty() ? "" : " ",
             attrs);
}

// ---- what follows from the placement

struct Rules {
  Cluster cluster;
  std::vector<Param> params = place_params(cluster);

  std::string suffix() const {
    return cluster.by_trainer() ? cat(".trainer_", cluster.trainer) : "";
  }
  // An uncut gradient gets the trainer's suffix itself.
  std::string grad(const Param& p) const { return p.name + "@GRAD" + (p.split() ? "" : suffix()); }
  Strings sent(const Param& p) const {
    if (cluster.split_at_run) return {grad(p)};
    return p.names(p.name + "@GRAD", suffix());
  }
  std::string all_servers() const {
    return cat("endpoints=", list_text(cluster.endpoints()), " trainer_id=", cluster.trainer);
  }

  void add_send(Strings& lines, const Param& p, int number) const {
    if (p.split() && !cluster.split_at_run) {
      lines.push_back(line("split_byref", {grad(p)}, sent(p),
                           cat("sections=", list_text(p.rows), " op_role=", kDist)));
    }
    const auto sections = cluster.split_at_run ? p.rows : std::vector<int64_t>{};
    const Strings names = cluster.split_at_run ? p.names(p.name + "@GRAD") : Strings{};
    lines.push_back(line("send", sent(p), {cat("<", number, ">")},
                         cat("epmap=", list_text(p.endpoints), " sections=", list_text(sections),
                             " send_varnames=", list_text(names),
                             " merge_add=False use_send_handler=True op_role=", kRpc,
                             " op_role_var=", list_text(Strings{p.name, grad(p)}))));
  }

  std::string recv(const Param& p, const Strings& after, bool first_values) const {
    const bool joined = cluster.split_at_run && !first_values;
    const Strings pair = first_values ? Strings{} : Strings{p.name, grad(p)};
    return line(
        "recv", after, joined ? Strings{p.name} : p.names(p.name),
        cat("epmap=", list_text(p.endpoints), " recv_varnames=",
            list_text(joined ? p.names(p.name) : Strings{}), " trainer_id=", cluster.trainer,
            " with_barrier=True do_not_run=0 op_role=", kRpc, " op_role_var=", list_text(pair)));
  }

  void add_joins(Strings& lines) const {
    for (const Param& p : params) {
      if (!p.split()) continue;
      lines.push_back(line("concat", p.names(p.name), {p.name}, cat("axis=0 op_role=", kDist)));
    }
  }

  // From the first gradient that is sent on.
  Strings trainer_main() const {
    const Param &b = params[0], &w = params[1];
    const auto backward = [&](const Param& p, const char* type, const Strings& in,
                              const Strings& out) {
      return line(type, in, out, cat("op_role_var=", list_text(Strings{p.name, grad(p)})));
    };
    Strings lines = {backward(b, "elementwise_add_grad", {"fc_0.tmp_1@GRAD", "fc_0.tmp_0", "fc_b"},
                              {"fc_0.tmp_0@GRAD", grad(b)})};
    add_send(lines, b, 0);
    lines.push_back(backward(w, "mul_grad", {"fc_0.tmp_0@GRAD", "x", "fc_w"}, {grad(w)}));
    add_send(lines, w, 1);
    if (cluster.sync) {
      lines.push_back(line("send_barrier", {"<0>", "<1>"}, {"<2>"},
                           cat(all_servers(), " half_async=False op_role=", kRpc)));
    }
    Strings received;
    for (size_t i = 0; i < params.size(); ++i) {
      const Strings after = {cluster.sync ? "<2>" : cat("<", i, ">")};
      lines.push_back(recv(params[i], after, false));
      for (const std::string& name : params[i].names(params[i].name)) received.push_back(name);
    }
    if (cluster.sync) {
      lines.push_back(
          line("fetch_barrier", {"<2>"}, received, cat(all_servers(), " op_role=", kRpc)));
    }
    if (!cluster.split_at_run) add_joins(lines);
    return lines;
  }

  Strings trainer_startup() const {
    Strings lines = {line("fill_constant", {}, {"fc_b"}, "shape=[1000]"),
                     line("uniform_random", {}, {"fc_w"}, "shape=[1000 1000]")};
    for (const Param& p : params) lines.push_back(recv(p, {}, true));
    lines.push_back(line("fetch_barrier", {}, {"<0>"}, cat(all_servers(), " op_role=", kRpc)));
    add_joins(lines);
    return lines;
  }

  struct Held {
    const Param* param;
    size_t block;
    std::string name, grad;
  };
  std::vector<Held> held_by(const std::string& endpoint) const {
    std::vector<Held> held;
    for (const Param& p : params) {
      for (size_t b = 0; b < p.rows.size(); ++b) {
        if (p.endpoints[b] != endpoint) continue;
        held.push_back({&p, b, p.names(p.name)[b], p.names(p.name + "@GRAD")[b]});
      }
    }
    return held;
  }

  Strings update(const Held& held) const {
    Strings lines;
    if (cluster.by_trainer()) {
      Strings parts;
      for (int t = 0; t < cluster.trainers; ++t) parts.push_back(cat(held.grad, ".trainer_", t));
      lines.push_back(line("sum", parts, {held.grad}));
      lines.push_back(line("scale", {held.grad}, {held.grad},
                           "scale=" + to_string(1.0f / static_cast<float>(cluster.trainers))));
    }
    lines.push_back(line("sgd", {held.grad, "learning_rate_0", held.name}, {held.name}));
    return lines;
  }

  // The rate, then whatever the original startup program makes first.
  Strings server_startup(const std::string& endpoint) const {
    Strings lines;
    const auto held = held_by(endpoint);
    if (!held.empty()) {
      lines.push_back(line("fill_constant", {}, {"learning_rate_0"}, "shape=[1]"));
    }
    for (const Held& one : held) {
      lines.push_back(line(one.param->name == "fc_b" ? "fill_constant" : "uniform_random", {},
                           {one.name}, "shape=" + list_text(one.param->shape(one.block))));
    }
    return lines;
  }
};

void expect_server(const Rules& rules, const std::string& endpoint, const Program& main,
                   const Program& startup) {
  const Cluster& cluster = rules.cluster;
  const auto held = rules.held_by(endpoint);
  const Strings endpoints = cluster.endpoints();
  const Op& serve = nth(main, "listen_and_serv");
  EXPECT_EQ(main.global_block().size(), 1u);
  EXPECT_EQ(serve.attr<std::string>("endpoint"), endpoint);
  EXPECT_EQ(endpoints.at(static_cast<size_t>(serve.attr<int32_t>("pserver_id"))), endpoint);
  EXPECT_EQ(serve.attr<int32_t>("Fanin"), cluster.trainers);
  EXPECT_EQ(serve.attr<int32_t>("distributed_mode"),
            cluster.sync ? 0 : (cluster.split_at_run ? 1 : 2));
  EXPECT_EQ(serve.attr<int32_t>("lr_decay_block_id"), -1);
  Strings received, blocks;
  std::vector<int> indices;
  for (size_t i = 0; i < held.size(); ++i) {
    const auto& [param, block, name, grad] = held[i];
    const int index = static_cast<int>(i) + 1;
    indices.push_back(index);
    blocks.push_back(cat(grad, ":", index));
    const Var& merged = main.global_block().var(grad);
    EXPECT_TRUE(merged.persistable());
    for (int t = 0; t < cluster.trainers && cluster.by_trainer(); ++t) {
      received.push_back(cat(grad, ".trainer_", t));
      EXPECT_FALSE(main.global_block().var(received.back()).persistable());
    }
    if (!cluster.by_trainer()) received.push_back(grad);
    const Var& slice = main.global_block().var(name);
    EXPECT_TRUE(slice.persistable());
    EXPECT_EQ(slice.shape().to_vector(), param->shape(block));
    EXPECT_EQ(merged.shape(), slice.shape());
    EXPECT_EQ(main.block(index).parent_index(), 0);
    EXPECT_EQ(Lines().of(main.block(index)), rules.update(held[i]));
  }
  if (held.empty()) indices = {1};  // an empty block: there must be one
  EXPECT_EQ(main.num_blocks(), indices.size() + 1);
  EXPECT_EQ(serve.attr<BlockRefs>("optimize_blocks").indices, indices);
  EXPECT_EQ(strings(serve, "grad_to_block_id"), blocks);
  std::ranges::sort(received);
  Strings given = serve.input("X");
  std::ranges::sort(given);
  EXPECT_EQ(given, received);
  EXPECT_EQ(Lines().of(startup.global_block()), rules.server_startup(endpoint));
}

void expect_by_rules(const Cluster& cluster) {
  SCOPED_TRACE(cluster.describe());
  const Rules rules{cluster};
  ClassicNet net;
  DistributeTranspilerConfig config;
  config.slice_var_up = cluster.cut;
  config.sync_mode = cluster.sync;
  config.runtime_split_send_recv = cluster.split_at_run;
  DistributeTranspiler transpiler(config);
  transpiler.transpile(
      net.request(cluster.trainer, cluster.trainers, join(cluster.endpoints(), ",")));
  bool sending = false;
  const auto from_first_gradient = [&](const Op& op) {
    return sending |= op.type() == "elementwise_add_grad";
  };
  EXPECT_EQ(Lines().of(net.main->global_block(), from_first_gradient), rules.trainer_main());
  EXPECT_EQ(Lines().of(net.startup->global_block()), rules.trainer_startup());
  for (const std::string& endpoint : cluster.endpoints()) {
    const auto [main, startup] = transpiler.get_pserver_programs(endpoint);
    expect_server(rules, endpoint, *main, *startup);
  }
}

TEST(Rules, GiveTheProgramsOfEveryClusterSize) {
  for (const int servers : {1, 2, 3, 4, 7}) {
    for (const int trainers : {1, 2, 5}) {
      for (const bool cut : {true, false}) {
        const int last = trainers - 1;
        expect_by_rules({servers, trainers, last, cut, true, false});
        expect_by_rules({servers, trainers, last, cut, false, false});
        expect_by_rules({servers, trainers, last, cut, false, true});
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
