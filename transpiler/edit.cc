#include "transpiler/edit.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/text.h"
#include "ir/schema.h"
#include "transpiler/report.h"

namespace trireme {

Op& insert_filled(Block& block, size_t index, OpSpec spec, int role, const SourceLine& line) {
  spec.attrs.try_emplace("op_role", int32_t{role});
  spec.attrs.try_emplace("op_role_var", std::vector<std::string>{});
  spec.attrs.try_emplace("op_namescope", std::string("/"));
  spec.attrs.try_emplace("op_device", std::string());
  check_and_fill(op_table().get(spec.type), spec);
  return block.insert_raw_op(index, std::move(spec), line);
}

Op& append_filled(Block& block, OpSpec spec, int role, const SourceLine& line) {
  return insert_filled(block, block.size(), std::move(spec), role, line);
}

void remove_ops(Block& block, const std::vector<const Op*>& ops) {
  const std::set<const Op*> gone(ops.begin(), ops.end());
  for (size_t i = block.size(); i-- > 0;) {
    if (gone.contains(&block.op(i))) block.remove_ops(i, i + 1);
  }
}

int find_writer(const Block& block, const std::string& name) {
  for (size_t i = block.size(); i-- > 0;) {
    const auto writes = block.op(i).output_names();
    if (std::ranges::find(writes, name) != writes.end()) return static_cast<int>(i);
  }
  return -1;
}

Var& clone_var(Block& to, const Var& var, const std::string& name, const Shape* shape) {
  VarSpec spec = var.spec();
  if (!name.empty()) spec.name = name;
  if (shape) spec.shape = *shape;
  if (Var* held = to.find_var(spec.name)) return *held;
  return to.create_var(std::move(spec));
}

std::string add_control_var(Block& block) {
  int next = 0;
  while (block.find_var(cat("__control_var@", next))) ++next;
  return block.create_var({.name = cat("__control_var@", next), .has_shape = false}).name();
}

std::vector<std::string> parse_endpoints(const std::string& text, const char* argument) {
  std::vector<std::string> list;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    std::string item = text.substr(begin, comma == std::string::npos ? comma : comma - begin);
    const size_t first = item.find_first_not_of(" \t"), last = item.find_last_not_of(" \t");
    list.push_back(first == std::string::npos ? "" : item.substr(first, last - first + 1));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  check_endpoints(list, argument);
  return list;
}

void check_endpoints(const std::vector<std::string>& endpoints, const char* argument) {
  const auto refuse = [&](const std::string& why) {
    throw transpile_error(cat(argument, " is '", join(endpoints, ","), "': ", why))
        .fix(cat("write ", argument, " as \"ip:port,ip:port\""));
  };
  if (endpoints.empty()) refuse("it names no endpoint");
  std::set<std::string> seen;
  for (const std::string& endpoint : endpoints) {
    if (endpoint.empty()) refuse("one of its endpoints is blank");
    const size_t colon = endpoint.rfind(':');
    int port = -1;
    if (colon != std::string::npos && colon > 0) {
      const char* end = endpoint.data() + endpoint.size();
      const auto [stop, error] = std::from_chars(endpoint.data() + colon + 1, end, port);
      if (error != std::errc() || stop != end) port = -1;
    }
    if (port < 0 || port > 65535 || endpoint.find_first_of(" \t") != std::string::npos) {
      refuse(cat("'", endpoint, "' is not of the form ip:port"));
    }
    if (!seen.insert(endpoint).second) refuse(cat(endpoint, " is there twice"));
  }
}

}  // namespace trireme
