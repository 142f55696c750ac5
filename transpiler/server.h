// The parameter server's side: what one endpoint runs. Pure: nothing given is changed.
#pragma once

#include <memory>
#include <string>

#include "ir/program.h"
#include "transpiler/placement.h"

namespace trireme {

std::shared_ptr<Program> make_server(const Placement& placement, const std::string& endpoint);
std::shared_ptr<Program> make_server_startup(const Placement& placement, const Program& server,
                                             const std::string& endpoint);

std::shared_ptr<Program> make_geo_server(const Placement& placement, const std::string& endpoint);

// What one server's gradients add to the total of a join of clips.
std::string part_name(const std::string& total, size_t server);
// "w.block0.trainer_1_bak": the parameter as that trainer last received it.
std::string backup_name(const std::string& slice, int trainer);

}  // namespace trireme
