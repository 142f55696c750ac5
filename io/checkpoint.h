// All that a training needs to go on where it was, in one directory.
#pragma once

#include <map>
#include <string>

#include "io/vars.h"

namespace trireme {

// What a caller keeps beside the variables, as files of the same save.
using CheckpointNotes = std::map<std::string, std::string>;

// Variables, how many steps the scope has behind it (random numbers depend on it), and notes: all
// of one moment, whole or not there, with checksums.
void save_checkpoint(const Scope& scope, const std::string& dirname, const VarList& vars,
                     const CheckpointNotes& notes);

// All is read before anything changes. Returns the notes with these names.
CheckpointNotes load_checkpoint(Scope& scope, const std::string& dirname, const VarList& vars,
                                const std::vector<std::string>& names);

}  // namespace trireme
