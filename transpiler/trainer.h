// The trainer's side of parameter-server mode.
#pragma once

#include "ir/program.h"
#include "transpiler/placement.h"

namespace trireme {

// Edits `main` in place: gradients are sent, parameters received, updates gone.
void make_trainer(Program& main, const Placement& placement);
// Edits `startup` in place: first values come from the servers.
void make_trainer_startup(Program& startup, const Program& trained, const Placement& placement);

// Declares the slices of a parameter; joins them.
void add_slices_of(Block& block, const PlacedParam& param);
void append_join(Block& block, const PlacedParam& param);

// Geo: trainers update their own parameters; servers add up what changed.
void make_geo_trainer(Program& main, const Placement& placement);
void make_geo_trainer_startup(Program& startup, const Placement& placement);

}  // namespace trireme
