// Programs for inference: cut down to what the targets need, saved with their parameters.
#include "io/inference_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <shared_mutex>

#include "core/directory_save.h"
#include "core/text.h"
#include "core/warning.h"
#include "io/vars.h"
#include "ir/schema.h"
#include "ir/wire.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "__model__";

void remove_ops_of(Block& block, std::string_view type) {
  for (size_t i = block.size(); i-- > 0;) {
    if (block.op(i).type() == type) block.remove_ops(i, i + 1);
  }
}

void edit_ops(Program& program, const std::function<void(Op&)>& edit) {
  for (size_t i = 0; i < program.num_blocks(); ++i) {
    for (Op* op : program.block(static_cast<int>(i)).ops()) edit(*op);
  }
}

// The name that the original's first save gives; a program that came from a saved model has it
// already, and then the next number is taken.
std::string scaled_name(const Block& block, size_t i) {
  for (int n = 0;; ++n) {
    std::string name = cat("save_infer_model/scale_", i, ".tmp_", n);
    if (!block.find_var(name)) return name;
  }
}

// Where a target is computed, if its name is not its own any more at the end of the block
// (memory_optimize): behind which op, and under which name.
std::optional<std::pair<size_t, std::string>> find_renamed(const Block& block,
                                                           const std::string& target) {
  std::optional<std::pair<size_t, std::string>> found;
  bool own_at_the_end = true;
  for (const Op* op : block.ops()) {
    for (const std::string& now : op->output_names()) {
      if (op->own_name(now) == target) {
        found = {static_cast<size_t>(op->index()), now};
        own_at_the_end = now == target;
      } else if (now == target) {
        own_at_the_end = false;
      }
    }
  }
  return own_at_the_end ? std::nullopt : found;
}

// A target that is some op's output stays apart from it, whatever is fused or reused later.
std::vector<std::string> append_scales(Block& block, const std::vector<std::string>& targets) {
  std::vector<std::string> scaled;
  for (size_t i = 0; i < targets.size(); ++i) {
    const Var& target = block.var(targets[i]);
    if (target.dtype() == DType::boolean || target.type() != VarType::lod_tensor) {
      scaled.push_back(targets[i]);
      continue;
    }
    const std::string name = scaled_name(block, i);
    block.create_var({.name = name, .dtype = target.dtype(), .shape = {}, .has_shape = false});
    const auto renamed = find_renamed(block, targets[i]);
    block.insert_op(renamed ? renamed->first + 1 : block.size(),
                    {"scale",
                     {{"X", {renamed ? renamed->second : targets[i]}}},
                     {{"Out", {name}}},
                     {{"scale", 1.0f}, {"bias", 0.0f}, {"bias_after_scale", true}}});
    scaled.push_back(name);
  }
  return scaled;
}

void add_feed_and_fetch(Block& block, const std::vector<std::string>& feeds,
                        const std::vector<std::string>& targets) {
  block.create_var(
      {.name = "feed", .type = VarType::feed_minibatch, .shape = {}, .persistable = true});
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!block.find_var(feeds[i])) {
      throw Error(cat("feeded_var_names[", i, "] is ", feeds[i],
                      ", which the targets do not need: the pruned program has no such variable"))
          .fix("feed only variables that the targets are computed from");
    }
    block.prepend_op(
        {"feed", {{"X", {"feed"}}}, {{"Out", {feeds[i]}}}, {{"col", static_cast<int32_t>(i)}}});
  }
  block.create_var(
      {.name = "fetch", .type = VarType::fetch_list, .shape = {}, .persistable = true});
  for (size_t i = 0; i < targets.size(); ++i) {
    block.append_op(
        {"fetch", {{"X", {targets[i]}}}, {{"Out", {"fetch"}}}, {{"col", static_cast<int32_t>(i)}}});
  }
}

void check_names(const Program& program, const std::vector<std::string>& names, const char* what) {
  for (const std::string& name : names) {
    if (!program.global_block().find_var(name)) {
      throw Error(cat(what, " names ", name, ", which the program does not have"))
          .fix("name a variable of this program's global block");
    }
  }
}

// Names by column: `slot` of the ops of this type.
std::vector<std::string> names_by_column(const Program& program, std::string_view type,
                                         bool output) {
  std::map<int, std::string> names;
  for (const Op* op : program.global_block().ops()) {
    if (op->type() != type) continue;
    const std::vector<std::string>& slot = output ? op->output("Out") : op->input("X");
    if (!slot.empty()) names[op->attr_or<int32_t>("col", 0)] = slot.front();
  }
  std::vector<std::string> result;
  for (auto& [col, name] : names) result.push_back(std::move(name));
  return result;
}

InferenceModel described(std::shared_ptr<Program> program) {
  InferenceModel model;
  model.feeds = feed_names(*program);
  model.targets = fetch_names(*program);
  program->for_inference = true;
  model.program = std::move(program);
  return model;
}

// The original takes the last part of such a name, too: a model is one directory.
std::string file_name(const std::string& given, const char* otherwise) {
  return given.empty() ? otherwise : fs::path(given).filename().string();
}

// A program and, unless `vars` is empty, its parameters: both of one save.
void save_model(const std::string& directory, const std::string& model_file, const Program& program,
                const Scope& scope, const VarList& vars, const std::string& params_file) {
  const std::shared_lock lock(scope.run_lock());
  DirectorySave save(directory);
  if (!vars.empty()) add_vars(save, scope, vars, params_file);
  save.file(model_file).write(serialize(program));
  save.commit();
}

InferenceModel load_model(const std::string& directory, const std::string& model_file,
                          const std::string& params_file, Scope& scope) {
  const SavedDirectory saved(directory);
  ByteSource file = saved.open(model_file);
  InferenceModel model = described(parse_program(read_rest(file, kMaxProgramBytes)));
  if (!select_vars(*model.program, is_persistable).empty()) {
    load_persistables(scope, directory, *model.program, params_file);
  }
  return model;
}

}  // namespace

std::vector<std::string> feed_names(const Program& program) {
  return names_by_column(program, "feed", true);
}

std::vector<std::string> fetch_names(const Program& program) {
  return names_by_column(program, "fetch", false);
}

std::shared_ptr<Program> normalize_program(const Program& program,
                                           const std::vector<std::string>& feeds,
                                           const std::vector<std::string>& targets,
                                           const NormalizeOptions& options) {
  if (targets.empty()) throw Error("there are no targets").fix("name the variables to compute");
  check_names(program, feeds, "feeds");
  check_names(program, targets, "targets");
  const std::shared_ptr<Program> copy = clone(program, false);
  copy->set_current(0);
  copy->role = op_role::kForward;
  copy->role_vars.clear();
  copy->name_scope = "/";
  copy->device.clear();
  Block& block = copy->global_block();
  bool has_auc = false;
  edit_ops(*copy, [&](Op& op) {
    op.is_target = false;
    op.remove_attr("op_device");
    op.remove_attr("op_callstack");  // paths of the machine it was built on
    has_auc = has_auc || op.type() == "auc";
  });
  if (has_auc) {
    warn("the program has an auc op: set its statistics to 0 before it serves, or take it out");
  }
  remove_ops_of(block, "feed");
  remove_ops_of(block, "fetch");
  const std::vector<std::string> scaled = append_scales(block, targets);
  std::shared_ptr<Program> pruned =
      inference_copy(*prune(*copy, feeds, scaled), /*prune_read_ops=*/true);
  edit_ops(*pruned, [&](Op& op) {
    op.is_target = false;
    if (!options.clip_extra) return;
    const Attrs attrs = op.attrs();
    for (const auto& [name, value] : attrs) {
      if (is_common_attr(name)) op.remove_attr(name);
    }
  });
  add_feed_and_fetch(pruned->global_block(), feeds, scaled);
  pruned->desc_version = kProgramVersion;
  return pruned;
}

std::vector<std::string> save_inference_model(const std::string& dirname,
                                              const std::vector<std::string>& feeds,
                                              const std::vector<std::string>& targets,
                                              const Program& program, const Scope& scope,
                                              const SaveModelOptions& options) {
  const std::string model_file = file_name(options.model_filename, kModelFile);
  const std::shared_ptr<Program> saved =
      options.export_for_deployment
          ? normalize_program(program, feeds, targets, {.clip_extra = options.clip_extra})
          : clone(program, false);
  const VarList vars = options.program_only ? VarList() : select_vars(*saved, is_persistable);
  save_model(dirname, options.export_for_deployment ? model_file : model_file + ".main_program",
             *saved, scope, vars, file_name(options.params_filename, ""));
  return options.export_for_deployment ? fetch_names(*saved) : targets;
}

void save_inference_model(const std::string& prefix, const std::vector<std::string>& feeds,
                          const std::vector<std::string>& targets, const Program& program,
                          const Scope& scope, const NormalizeOptions& options) {
  const std::string model_file = prefix + ".pdmodel", params_file = prefix + ".pdiparams";
  if (prefix.empty() || prefix.back() == '/') {
    throw Error(cat("path_prefix is '", prefix, "', which names no file"))
        .fix("give a path such as 'model/net'");
  }
  for (const std::string& file : {model_file, params_file}) {
    if (fs::is_directory(file)) throw Error(cat(file, " is a directory"));
  }
  const std::shared_ptr<Program> saved = normalize_program(program, feeds, targets, options);
  const auto [directory, name] = split_path(prefix);
  save_model(directory, name + ".pdmodel", *saved, scope, select_vars(*saved, is_persistable),
             name + ".pdiparams");
}

InferenceModel load_inference_model(const std::string& dirname, Scope& scope,
                                    const LoadModelOptions& options) {
  if (!fs::is_directory(dirname)) {
    throw Error(cat("there is no directory ", dirname)).fix("name the directory of a saved model");
  }
  return load_model(dirname, options.model_filename.empty() ? kModelFile : options.model_filename,
                    options.params_filename, scope);
}

InferenceModel load_inference_model_at(const std::string& prefix, Scope& scope) {
  const auto [directory, name] = split_path(prefix);
  return load_model(directory, name + ".pdmodel", name + ".pdiparams", scope);
}

InferenceModel load_inference_model_from(std::string_view model, std::string_view params,
                                         Scope& scope) {
  InferenceModel result = described(parse_program(model));
  deserialize_persistables(*result.program, params, scope);
  return result;
}

std::string serialize_program(const Program& program, const std::vector<std::string>& feeds,
                              const std::vector<std::string>& targets,
                              const NormalizeOptions& options) {
  return serialize(*normalize_program(program, feeds, targets, options));
}

std::string serialize_persistables(const Program& program, const std::vector<std::string>& feeds,
                                   const std::vector<std::string>& targets, const Scope& scope) {
  const std::shared_ptr<Program> normal = normalize_program(program, feeds, targets);
  return serialize_vars(scope, select_vars(*normal, is_persistable));
}

std::shared_ptr<Program> deserialize_program(std::string_view bytes) {
  return parse_program(bytes);
}

void deserialize_persistables(const Program& program, std::string_view bytes, Scope& scope) {
  const VarList vars = select_vars(program, is_persistable);
  if (vars.empty() && bytes.empty()) return;
  if (bytes.empty()) {
    throw Error(ErrorKind::assertion,
                cat("the program has ", vars.size(), " saved variables but there are no bytes"));
  }
  deserialize_vars(scope, vars, bytes);
}

}  // namespace trireme
