// Programs that save and load what parameter servers keep, as ordinary files of whole variables.
#pragma once

#include <memory>
#include <string>

#include "ir/program.h"

namespace trireme {

// Run on the chief trainer: fetches the slices of every variable that it does not hold, and writes
// one file for each.
std::shared_ptr<Program> sliced_save_program(const Program& trainer, const std::string& directory);
// Names that the trainer does not hold whole: they are not saved from its scope.
std::vector<std::string> remote_names(const Program& trainer);
// Run on a server after its startup program: reads its slices out of the files.
std::shared_ptr<Program> sliced_load_program(const Program& server, const std::string& directory);

}  // namespace trireme
