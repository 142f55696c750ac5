// Edit distance between names, for error texts.
#include "ir/near_match.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace trireme {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Insertions, deletions, replacements and swapped neighbours that turn a into b; case counts for
// nothing.
size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [&](size_t i, size_t j) { return lower(a[i - 1]) == lower(b[j - 1]); };
  std::vector<size_t> last(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j - 1] + (same(i, j) ? 0 : 1), row[j] + 1, next[j - 1] + 1});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) {
        next[j] = std::min(next[j], last[j - 2] + 1);
      }
    }
    std::swap(last, row);
    std::swap(row, next);
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
