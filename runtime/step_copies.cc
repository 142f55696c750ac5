// Copies of scopes, and differences between variables.
#include "runtime/step_copies.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace trireme {

std::vector<Written> results_of(const Program& program) {
  std::vector<Written> written;
  std::set<std::string> seen;
  for (const Op* op : program.global_block().ops()) {
    for (const std::string& name : op->output_names()) {
      const Var* var = program.global_block().find_var(name);
      const bool shown =
          var && (var->type() == VarType::lod_tensor || var->type() == VarType::selected_rows);
      if (shown && seen.insert(name).second) written.push_back({.op = op, .name = name});
    }
  }
  return written;
}

void copy_scope(const Scope& from, Scope& to) {
  if (from.parent()) copy_scope(*from.parent(), to);
  for (const std::string& name : from.names()) to.var(name).copy_from(*from.find_local(name));
  to.step() = from.step().load();
}

namespace {

const Tensor* tensor_of(const Variable& value) {
  if (value.kind() == Kind::dense) return &value.tensor();
  if (value.kind() == Kind::rows) return &value.rows().value;
  return nullptr;
}

}  // namespace

double largest_difference(const Variable& a, const Variable& b, double& scale) {
  const Tensor *x = tensor_of(a), *y = tensor_of(b);
  if (!x || !y) return x == y ? 0 : INFINITY;
  if (x->dtype() != y->dtype() || x->numel() != y->numel()) return INFINITY;
  if (x->initialized() != y->initialized()) return INFINITY;
  double largest = 0;
  for (int64_t i = 0; x->initialized() && i < x->numel(); ++i) {
    const double p = element_as_double(*x, i), q = element_as_double(*y, i);
    if (p == q || (std::isnan(p) && std::isnan(q))) continue;
    const double difference = std::fabs(p - q);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    scale = std::max(scale, std::fabs(p));
  }
  return largest;
}

}  // namespace trireme
