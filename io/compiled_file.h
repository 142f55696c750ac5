// Compiled programs in files: program, strategies, the plans' signatures and digests, parameters
// and a proof. A plan itself is not stored: the loader plans again, and says when the result
// differs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/compiled_program.h"

namespace trireme {

struct SaveCompiledOptions {
  bool parameters = true;  // false: only names, shapes and hashes
  // One step on these feeds is run on copies of the variables, and its results are stored with it.
  Feeds proof_feeds = {};
  std::vector<std::string> proof_fetches = {};
  std::function<void()> poll = nullptr;  // called now and then by that step; throws to end it
};
// `ran_by`: the executor whose plans of this program are remembered; null: none.
void save_compiled(const std::string& path, const CompiledProgram& compiled, const Scope& scope,
                   const Executor* ran_by = nullptr, const SaveCompiledOptions& options = {});

struct LoadedCompiled {
  std::shared_ptr<CompiledProgram> compiled;
  std::vector<PlanSignature> plans;
  // What differs from where it was saved: engine, machine, plans. Empty: nothing.
  std::vector<std::string> notes;
  Feeds proof_feeds;
  std::vector<std::string> proof_fetches;
  std::vector<Tensor> proof_results;
};
// Every byte is hashed: a file that was changed or cut off is an Error. Parameters in the file go
// into the scope; those that are not must be there already, with the hashes they had, or be loaded
// before the first run. The saved plans are made again with `executor`.
LoadedCompiled load_compiled(const std::string& path, Executor& executor, Scope& scope);
// The same from memory, without planning: what a file says.
LoadedCompiled read_compiled(std::string_view bytes, const std::string& name, Scope& scope);

// Runs the proof on copies of the scope's variables and returns the largest difference; an Error
// when there is none in the file. `poll` as above.
double run_proof(const LoadedCompiled& loaded, const Scope& scope,
                 const std::function<void()>& poll = nullptr);

}  // namespace trireme
