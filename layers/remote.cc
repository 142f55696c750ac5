// Appends the ops that serve, send and receive, with their endpoints checked.
#include "layers/remote.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

std::vector<std::string> server_of_each(const std::string& endpoints) {
  std::vector<std::string> each;
  size_t begin = 0;
  while (begin <= endpoints.size()) {
    const size_t end = std::min(endpoints.find(',', begin), endpoints.size());
    each.push_back(endpoints.substr(begin, end - begin));
    begin = end + 1;
  }
  return each;
}

std::vector<std::string> each_once(const std::vector<std::string>& names) {
  const std::set<std::string> once(names.begin(), names.end());
  return {once.begin(), once.end()};
}

void check_servers(const LayerHelper& helper, const std::vector<std::string>& servers,
                   const Vars& vars) {
  if (vars.empty()) throw helper.error("there are no variables").fix("give at least one");
  if (servers.size() == vars.size()) return;
  throw helper
      .error(cat("there are ", servers.size(), " endpoints for ", vars.size(), " variables"))
      .fix("name one server for every variable, separated by commas");
}

}  // namespace

ListenAndServ::ListenAndServ(std::string endpoint, Vars inputs, int fan_in, SourceLine line)
    : endpoint_(std::move(endpoint)),
      inputs_(std::move(inputs)),
      fan_in_(fan_in),
      line_(std::move(line)) {
  const LineScope scope(line_);
  if (fan_in < 1) {
    throw LayerHelper("listen_and_serv")
        .error(cat("fan_in is ", fan_in, "; there is at least one trainer"));
  }
}

void ListenAndServ::complete() {
  promise(open(), "complete follows begin");
  const LineScope scope(line_);
  const int block = inside().index();
  Block& around = parent();
  abandon();
  around.append_op({.type = "listen_and_serv",
                    .inputs = {{"X", inputs_.names()}},
                    .outputs = {},
                    .attrs = {{"endpoint", endpoint_},
                              {"Fanin", fan_in_},
                              {"optimize_blocks", BlockRefs{{block}}},
                              {"distributed_mode", 0},
                              {"grad_to_block_id", std::vector<std::string>{}}}},
                   user_line());
}

void send(const std::string& endpoints, const Vars& send_vars, const RemoteOptions& options,
          SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("Send");
  const std::vector<std::string> servers = server_of_each(endpoints);
  check_servers(helper, servers, send_vars);
  // Variables that stand for 'sent' and 'all sent': they order the ops.
  const Vars sent =
      options.dummy.empty() ? Vars(helper.create_variable({.has_shape = false})) : options.dummy;
  helper.append_op("send", {{"X", send_vars}}, {{"Out", sent}}, {{"epmap", servers}});
  if (!options.sync) return;
  helper.append_op("send_barrier", {{"X", sent}},
                   {{"Out", helper.create_variable({.has_shape = false})}},
                   {{"endpoints", each_once(servers)}});
}

void recv(const std::string& endpoints, const Vars& get_vars, const RemoteOptions& options,
          SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("Recv");
  const std::vector<std::string> servers = server_of_each(endpoints);
  check_servers(helper, servers, get_vars);
  helper.append_op("recv", {{"X", options.dummy}}, {{"Out", get_vars}}, {{"epmap", servers}});
  if (!options.sync) return;
  helper.append_op("fetch_barrier", {}, {{"Out", get_vars}}, {{"endpoints", each_once(servers)}});
}

Var& allreduce(Var& x, const AllReduceOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("allreduce");
  constexpr std::array<const char*, 4> kinds = {"sum", "prod", "max", "min"};
  const auto kind = std::find(kinds.begin(), kinds.end(), options.reduce_type);
  if (kind == kinds.end()) {
    throw helper
        .error(ErrorKind::type_mismatch, cat("reduce_type is \"", options.reduce_type, "\""))
        .fix("use sum, prod, max or min");
  }
  Var& out =
      options.out
          ? *options.out
          : helper.create_variable({.type = x.type(), .dtype = x.dtype(), .shape = x.shape()});
  helper.append_op(
      "allreduce", {{"X", x}}, {{"Out", out}},
      {{"reduce_type", static_cast<int>(kind - kinds.begin())}, {"sync_mode", options.sync_mode}});
  return out;
}

}  // namespace trireme::layers
