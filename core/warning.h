// Warnings: said once, to whoever listens (stderr until the binding routes them to Python).
#pragma once

#include <functional>
#include <string>

namespace trireme {

using WarningSink = std::function<void(const std::string& text)>;
void set_warning_sink(WarningSink sink);

void warn(const std::string& text);
// Says each text once per process.
void warn_once(const std::string& text);

}  // namespace trireme
