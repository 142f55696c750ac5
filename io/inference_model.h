// Programs for inference: cut down to what the targets need, saved with their parameters. The
// user's program is never changed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/scope.h"
#include "ir/program.h"

namespace trireme {

struct NormalizeOptions {
  bool clip_extra = false;  // drop roles, name scopes and the like from the ops
};
// A copy that computes `targets` from `feeds`: pruned, in test mode, with feed and fetch ops, each
// target through a scale op named save_infer_model/scale_<i>.
std::shared_ptr<Program> normalize_program(const Program& program,
                                           const std::vector<std::string>& feeds,
                                           const std::vector<std::string>& targets,
                                           const NormalizeOptions& options = {});

struct SaveModelOptions {
  std::string model_filename = {};   // empty: __model__
  std::string params_filename = {};  // empty: one file per variable
  // False: the whole program goes to <model>.main_program, to be trained further.
  bool export_for_deployment = true;
  bool program_only = false;
  bool clip_extra = false;
};
// fluid.io. Returns the targets' names.
std::vector<std::string> save_inference_model(const std::string& dirname,
                                              const std::vector<std::string>& feeds,
                                              const std::vector<std::string>& targets,
                                              const Program& program, const Scope& scope,
                                              const SaveModelOptions& options = {});
// paddle.static: <prefix>.pdmodel, and <prefix>.pdiparams when there is something to put in it.
void save_inference_model(const std::string& prefix, const std::vector<std::string>& feeds,
                          const std::vector<std::string>& targets, const Program& program,
                          const Scope& scope, const NormalizeOptions& options);

struct InferenceModel {
  std::shared_ptr<Program> program;
  std::vector<std::string> feeds;
  std::vector<std::string> targets;
};
struct LoadModelOptions {
  std::string model_filename = {};
  std::string params_filename = {};
};
// From a directory that fluid.io wrote.
InferenceModel load_inference_model(const std::string& dirname, Scope& scope,
                                    const LoadModelOptions& options = {});
// From <prefix>.pdmodel and <prefix>.pdiparams.
InferenceModel load_inference_model_at(const std::string& prefix, Scope& scope);
InferenceModel load_inference_model_from(std::string_view model, std::string_view params,
                                         Scope& scope);

// What a loaded or normalized program's feed and fetch ops name, in the order of their columns.
std::vector<std::string> feed_names(const Program& program);
std::vector<std::string> fetch_names(const Program& program);

std::string serialize_program(const Program& program, const std::vector<std::string>& feeds,
                              const std::vector<std::string>& targets,
                              const NormalizeOptions& options = {});
std::string serialize_persistables(const Program& program, const std::vector<std::string>& feeds,
                                   const std::vector<std::string>& targets, const Scope& scope);
std::shared_ptr<Program> deserialize_program(std::string_view bytes);
void deserialize_persistables(const Program& program, std::string_view bytes, Scope& scope);

}  // namespace trireme
