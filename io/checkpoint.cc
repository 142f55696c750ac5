// Variables as save_vars writes them, and beside them what is no variable.
#include "io/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <shared_mutex>

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

constexpr const char* kSteps = "trireme_steps";

std::string text_of(const SavedDirectory& saved, const std::string& name) {
  ByteSource file = saved.open(name);
  std::string text(file.left(), '\0');
  file.read(text.data(), text.size(), name);
  return text;
}

}  // namespace

void save_checkpoint(const Scope& scope, const std::string& dirname, const VarList& vars,
                     const CheckpointNotes& notes) {
  for (const Var* var : vars) {
    if (var->name() != kSteps && !notes.contains(var->name())) continue;
    throw Error(cat("a variable is called ", var->name(), ", as a file of a checkpoint is"))
        .fix("give it another name");
  }
  const std::shared_lock lock(scope.run_lock());
  DirectorySave save(dirname);
  add_vars(save, scope, vars);
  save.file(kSteps).write(std::to_string(scope.step().load()));
  for (const auto& [name, text] : notes) save.file(name).write(text);
  save.commit();
}

CheckpointNotes load_checkpoint(Scope& scope, const std::string& dirname, const VarList& vars,
                                const std::vector<std::string>& names) {
  CheckpointNotes notes;
  uint64_t steps = 0;
  {
    const SavedDirectory saved(dirname);
    const std::string text = text_of(saved, kSteps);
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), steps);
    if (problem != std::errc() || end != text.data() + text.size()) {
      throw IoError(cat(dirname, "/", kSteps, " does not hold a number"));
    }
    for (const std::string& name : names) notes[name] = text_of(saved, name);
  }
  load_vars(scope, dirname, vars);
  const std::unique_lock lock(scope.run_lock());
  scope.step() = steps;
  return notes;
}

}  // namespace trireme
