// Edit distance between names, for error texts.
#include "ir/near_match.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace trireme {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Insertions, deletions and replacements that turn a into b; case counts for nothing.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> near_matches(std::string_view name,
                                      const std::vector<std::string>& known) {
  const size_t most = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= most) found.emplace_back(distance, candidate);
  }
  std::sort(found.begin(), found.end());
  if (found.size() > 3) found.resize(3);
  std::vector<std::string> names;
  for (auto& [distance, candidate] : found) names.push_back(std::move(candidate));
  return names;
}

}  // namespace trireme
