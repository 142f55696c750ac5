// Puts slices together before saving, and cuts them after loading.
#include "transpiler/sliced_files.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/text.h"
#include "ir/distributed.h"
#include "transpiler/edit.h"

namespace trireme {
namespace {

const DistributedFacts& facts_of(const Program& program, const char* who) {
  if (!program.distributed || program.distributed->mode != "pserver") {
    throw Error(ErrorKind::precondition, "the program was not made for parameter servers").in(who);
  }
  return *program.distributed;
}

std::string path_of(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : cat(directory, "/", name);
}

std::string shape_text(const Shape& shape) { return join(shape.to_vector(), ","); }

}  // namespace

std::vector<std::string> remote_names(const Program& trainer) {
  std::set<std::string> names;
  const DistributedFacts& facts = facts_of(trainer, "save_persistables");
  for (const VarSlice& slice : facts.slices) {
    if (slice.use != VarSlice::Use::parameter) names.insert(slice.origin.name);
  }
  return {names.begin(), names.end()};
}

std::shared_ptr<Program> sliced_save_program(const Program& trainer, const std::string& directory) {
  const DistributedFacts& facts = facts_of(trainer, "save_persistables");
  std::map<std::string, std::vector<const VarSlice*>> remote;
  for (const VarSlice& slice : facts.slices) {
    if (slice.use == VarSlice::Use::parameter) continue;
    std::vector<const VarSlice*>& list = remote[slice.origin.name];
    // State that is not cut is the same on every server that has it.
    if (slice.is_slice || list.empty()) list.push_back(&slice);
  }
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  for (const auto& [name, slices] : remote) {
    std::vector<std::string> names, remote_names, shapes, endpoints;
    for (const VarSlice* slice : slices) {
      names.push_back(slice->is_slice ? cat(name, ".block", slice->block_id) : name);
      remote_names.push_back(slice->slice.name);
      shapes.push_back(shape_text(slice->slice.shape));
      endpoints.push_back(slice->endpoint);
    }
    append_filled(block,
                  {.type = "recv_save",
                   .attrs = {{"file_path", path_of(directory, name)},
                             {"shape", slices.front()->origin.shape.to_vector()},
                             {"slice_varnames", names},
                             {"remote_varnames", remote_names},
                             {"slice_shapes", shapes},
                             {"endpoints", endpoints},
                             {"trainer_id", int32_t{facts.trainer_id}},
                             {"dtype", static_cast<int32_t>(slices.front()->origin.dtype)}}},
                  op_role::kRpc);
  }
  return program;
}

std::shared_ptr<Program> sliced_load_program(const Program& server, const std::string& directory) {
  const DistributedFacts& facts = facts_of(server, "load_persistables");
  if (std::ranges::find(facts.endpoints, facts.ps_endpoint) == facts.endpoints.end()) {
    throw Error(cat("the program is not for a server: current_endpoint is '", facts.ps_endpoint,
                    "', which is not among pservers ", join(facts.endpoints, ",")))
        .in("load_persistables")
        .fix("give transpile current_endpoint, or load into a program of get_pserver_programs");
  }
  std::shared_ptr<Program> program = Program::create();
  Block& block = program->global_block();
  for (const VarSlice& slice : facts.slices) {
    if (slice.endpoint != facts.ps_endpoint) continue;
    VarSpec spec = slice.slice;
    spec.persistable = true;
    block.create_var(spec);
    Attrs attrs{{"file_path", path_of(directory, slice.origin.name)}};
    if (slice.is_slice) {
      attrs["seek"] = slice.offset;
      attrs["shape"] = slice.slice.shape.to_vector();
    }
    append_filled(
        block,
        {.type = "load", .outputs = {{"Out", {slice.slice.name}}}, .attrs = std::move(attrs)},
        op_role::kForward);
  }
  return program;
}

}  // namespace trireme
