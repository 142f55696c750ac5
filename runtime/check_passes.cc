#include "runtime/check_passes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "compile/pipeline.h"
#include "core/text.h"

namespace trireme {
namespace {

struct Written {
  const Op* op;
  std::string name;
};

// What ops of the first block write and a fetch can show.
std::vector<Written> results_of(const Program& program) {
  std::vector<Written> written;
  std::set<std::string> seen;
  for (const Op* op : program.global_block().ops()) {
    for (const std::string& name : op->output_names()) {
      const Var* var = program.global_block().find_var(name);
      const bool shown =
          var && (var->type() == VarType::lod_tensor || var->type() == VarType::selected_rows);
      if (shown && seen.insert(name).second) written.push_back({op, name});
    }
  }
  return written;
}

void copy_scope(const Scope& from, Scope& to) {
  if (from.parent()) copy_scope(*from.parent(), to);
  for (const std::string& name : from.names()) to.var(name).copy_from(*from.find_local(name));
  to.step() = from.step().load();
}

// By fetch and device.
std::vector<Replicas::Result> run_copy(const Program& program, const std::vector<Feeds>& feeds,
                                       const Scope& scope, const std::vector<std::string>& fetches,
                                       std::vector<std::string> off,
                                       const PassCheckOptions& options) {
  Scope copy;
  copy_scope(scope, copy);
  Executor executor;
  return executor.run_parallel(
      program, feeds, fetches, options.parallel,
      {.scope = &copy, .poll = options.poll, .passes_off = std::move(off), .process_seed = 1});
}

const Tensor* tensor_of(const Variable& value) {
  if (value.kind() == Kind::dense) return &value.tensor();
  if (value.kind() == Kind::rows) return &value.rows().value;
  return nullptr;
}

// Infinite where the two are not even alike.
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

}  // namespace

std::vector<PassCheck> check_passes(const Program& program, const Feeds& feeds, const Scope& scope,
                                    double tolerance) {
  return check_passes(program, std::vector<Feeds>{feeds}, scope, {.tolerance = tolerance});
}

std::vector<PassCheck> check_passes(const Program& program, const std::vector<Feeds>& feeds,
                                    const Scope& scope, const PassCheckOptions& options) {
  if (!(options.tolerance >= 0)) {
    throw Error(cat("tolerance is ", options.tolerance)).fix("give 0, or a small positive number");
  }
  const std::vector<Written> written = results_of(program);
  std::vector<std::string> fetches;
  for (const Written& each : written) fetches.push_back(each.name);
  const std::vector<std::string> passes = pass_names();
  const std::vector<Replicas::Result> plain =
      run_copy(program, feeds, scope, fetches, passes, options);

  std::vector<PassCheck> checks;
  for (size_t p = 0; p <= passes.size(); ++p) {
    PassCheck check;
    check.pass = p < passes.size() ? passes[p] : "all";
    std::vector<std::string> off;
    if (p < passes.size()) {
      off = passes;
      std::erase(off, check.pass);
    }
    const std::vector<Replicas::Result> passed =
        run_copy(program, feeds, scope, fetches, off, options);
    for (size_t i = 0; i < written.size() && check.equal(); ++i) {
      double scale = 0, difference = 0;
      for (size_t device = 0; device < plain[i].by_device.size(); ++device) {
        difference = std::max(difference, largest_difference(plain[i].by_device[device],
                                                             passed[i].by_device[device], scale));
      }
      if (difference <= options.tolerance * scale) continue;
      check.op = written[i].op->type();
      check.variable = written[i].name;
      check.line = written[i].op->line();
      check.difference = difference;
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::string to_text(const std::vector<PassCheck>& checks) {
  std::ostringstream out;
  for (const PassCheck& check : checks) {
    out << check.pass << ": ";
    if (check.equal()) {
      out << "the same numbers\n";
      continue;
    }
    out << check.op << " is the first op that differs, by " << check.difference << " in "
        << check.variable;
    if (check.line.known()) out << ", asked for at " << check.line.file << ":" << check.line.line;
    out << "\n";
  }
  return out.str();
}

}  // namespace trireme
