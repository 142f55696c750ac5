// "did you mean ...": the known name nearest to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The known names few typing errors away, nearest first; at most three.
std::vector<std::string> near_matches(std::string_view name, const std::vector<std::string>& known);

}  // namespace trireme
