// Runs copies of a program, each with one pass on, and compares what they leave.
#include "runtime/check_passes.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include "compile/pipeline.h"
#include "core/text.h"
#include "runtime/step_copies.h"

namespace trireme {
namespace {

// What no op reads, and what stays in the scope: a plan that has to give these is the usual one.
bool is_final(const Program& program, const std::string& name) {
  if (program.global_block().var(name).persistable()) return true;
  return std::ranges::none_of(program.global_block().ops(), [&](const Op* op) {
    const std::vector<std::string> read = op->input_names();
    return op->sub_block() || std::ranges::find(read, name) != read.end();
  });
}

// By fetch and device; `copy` is given the scope's variables first.
std::vector<Replicas::Result> run_copy(const Program& program, const std::vector<Feeds>& feeds,
                                       const Scope& scope, const std::vector<std::string>& fetches,
                                       std::vector<std::string> off,
                                       const PassCheckOptions& options, Scope& copy) {
  copy_scope(scope, copy);
  Executor executor;
  return executor.run_parallel(
      program, feeds, fetches, options.parallel,
      {.scope = &copy, .poll = options.poll, .passes_off = std::move(off), .process_seed = 1});
}

}  // namespace

std::vector<PassCheck> check_passes(const Program& program, const Feeds& feeds, const Scope& scope,
                                    double tolerance) {
  return check_passes(program, std::vector<Feeds>{feeds}, scope, {.tolerance = tolerance});
}

namespace {

struct PassRun {
  std::vector<Replicas::Result> results;
  std::unique_ptr<Scope> scope = std::make_unique<Scope>();
};

// The first of `written`, in program order, that differs. A result stands among the fetched ones
// or, where it was not fetched, in the scope.
void compare(const std::vector<Written>& written, const PassRun& plain, const PassRun& passed,
             double tolerance, PassCheck& check) {
  size_t fetched = 0;
  for (const Written& each : written) {
    double scale = 0, difference = 0;
    if (each.fetched) {
      const auto &a = plain.results[fetched].by_device, &b = passed.results[fetched].by_device;
      ++fetched;
      for (size_t device = 0; device < a.size(); ++device) {
        difference = std::max(difference, largest_difference(a[device], b[device], scale));
      }
    } else {
      const Variable *a = plain.scope->find(each.name), *b = passed.scope->find(each.name);
      if (a && b) difference = largest_difference(*a, *b, scale);
    }
    if (difference <= tolerance * scale) continue;
    check.op = each.op->type();
    check.variable = each.name;
    check.line = each.op->line();
    check.difference = difference;
    return;
  }
}

}  // namespace

std::vector<PassCheck> check_passes(const Program& program, const std::vector<Feeds>& feeds,
                                    const Scope& scope, const PassCheckOptions& options) {
  if (!(options.tolerance >= 0)) {
    throw Error(cat("tolerance is ", options.tolerance)).fix("give 0, or a small positive number");
  }
  const auto run = [&](const std::vector<Written>& written, const std::vector<std::string>& off) {
    std::vector<std::string> fetches;
    for (const Written& each : written) {
      if (each.fetched) fetches.push_back(each.name);
    }
    PassRun done;
    done.results = run_copy(program, feeds, scope, fetches, off, options, *done.scope);
    return done;
  };
  const std::vector<std::string> passes = pass_names();
  std::vector<PassCheck> checks;
  const std::vector<Written> written = results_of(program);
  {
    const PassRun plain = run(written, passes);
    for (size_t p = 0; p <= passes.size(); ++p) {
      PassCheck& check = checks.emplace_back();
      check.pass = p < passes.size() ? passes[p] : "all";
      std::vector<std::string> off;
      if (p < passes.size()) {
        off = passes;
        std::erase(off, check.pass);
      }
      compare(written, plain, run(written, off), options.tolerance, check);
    }
  }
  std::vector<Written> last;
  for (const Written& each : written) {
    if (!is_final(program, each.name)) continue;
    last.push_back(each);
    last.back().fetched = !program.global_block().var(each.name).persistable();
  }
  PassCheck& as_it_runs = checks.emplace_back();
  as_it_runs.pass = "all, fetching results alone";
  compare(last, run(last, passes), run(last, {}), options.tolerance, as_it_runs);
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
