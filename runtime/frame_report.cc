// What a bound frame needs and does, told to people.
#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "core/sha256.h"
#include "core/text.h"
#include "runtime/frame.h"

namespace trireme {
namespace {

constexpr size_t kOwnersShown = 10;

std::string bytes_text(size_t bytes) {
  std::ostringstream out;
  out.precision(3);
  const auto count = static_cast<double>(bytes);
  if (bytes < 10000) {
    out << bytes << " B";
  } else if (count < 999.5e3) {
    out << count / 1e3 << " kB";
  } else if (count < 999.5e6) {
    out << count / 1e6 << " MB";
  } else {
    out << count / 1e9 << " GB";
  }
  return out.str();
}

std::string place_of(const Node& node) {
  if (!node.origin) return node.schema->type();
  if (!node.origin->line.known()) return node.origin->op_type;
  return cat(node.origin->op_type, " at ", node.origin->line.file, ":", node.origin->line.line);
}

}  // namespace

// Of a region: what its passes need, and keep for their gradient.
std::string Frame::region_text() const {
  if (!granted_) {
    return cat(bytes_text(arena_bytes()), " of it, found while running, for the sub-block of ");
  }
  std::string text = bytes_text(planned_bytes_) + " of it";
  const std::optional<size_t> kept = stack_bytes();
  if (plan_.graph.saves_iterations && kept) {
    text +=
        cat(", and ", bytes_text(*kept), " to keep ", passes_, passes_ == 1 ? " pass" : " passes");
  }
  return text + ", for the sub-block of ";
}

std::string Frame::report() const {
  std::ostringstream out;
  struct Owner {
    size_t bytes;
    int value;
  };
  std::vector<Owner> owners;
  size_t values = 0;               // bytes they would take side by side
  size_t packed = 0, packing = 0;  // bytes, and instructions that pack
  std::map<std::string, std::map<std::string, size_t>> kernels;
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
    const std::string& type = (node.members.empty() ? node : node.members[0]).schema->type();
    const BoundKernel& kernel = bound_[i].kernel;
    packed += kernel.packed;
    packing += kernel.packed > 0;
    for (const Kernel* chosen : bound_[i].chosen) {
      ++kernels[type][kernel.detail.empty() ? chosen->name : cat(chosen->name, " ", kernel.detail)];
    }
    for (int value : node.outs) {
      if (value < 0 || home_[plan_.slot_of[value]] == Home::own) continue;
      if (!facts_[value].shape.known()) continue;
      const size_t bytes =
          static_cast<size_t>(facts_[value].shape.count()) * size_of(facts_[value].dtype);
      values += bytes;
      owners.push_back({bytes, value});
    }
  }
  out << "memory\n  arena " << bytes_text(arena_bytes()) << " for values of " << bytes_text(values)
      << " (at most " << bytes_text(live_bytes()) << " at once), scratch "
      << bytes_text(scratch_bytes()) << "\n";
  if (packing > 0) {
    out << "  in every step " << packing << " instructions pack " << bytes_text(packed)
        << " of operands into that scratch\n";
  }
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    for (int number : plan_.instructions[i].region_plans) {
      const Frame& inner = *regions_[static_cast<size_t>(number)];
      out << "  " << inner.region_text() << place_of(plan_.graph.nodes[plan_.instructions[i].node]);
      const auto keeping = std::count_if(inner.bound_.begin(), inner.bound_.end(),
                                         [](const Bound& bound) { return bound.keeps; });
      if (keeping > 0) {
        out << ", where " << keeping << (keeping == 1 ? " instruction packs" : " instructions pack")
            << " what stays the same in all passes before the first, and keeps it";
      }
      out << "\n";
    }
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    out << "  " << bytes_text(buckets_[b].byte_size()) << " of it a bucket of "
        << plan_.buckets[b].entries.size() << " gradients\n";
  }
  std::stable_sort(owners.begin(), owners.end(),
                   [](const Owner& a, const Owner& b) { return a.bytes > b.bytes; });
  for (size_t i = 0; i < std::min(owners.size(), kOwnersShown); ++i) {
    const ValueInfo& info = facts_[owners[i].value];
    const Node& node = plan_.graph.nodes[plan_.graph.values[owners[i].value].node];
    out << "  " << bytes_text(owners[i].bytes) << " " << info.name << " " << name_of(info.dtype)
        << " " << info.shape << " of " << place_of(node) << "\n";
  }
  out << "kernels\n";
  for (const auto& [type, chosen] : kernels) {
    out << "  " << type << ":";
    const char* before = " ";
    for (const auto& [name, count] : chosen) {
      out << std::exchange(before, ", ") << name << " x" << count;
    }
    out << "\n";
  }
  return out.str();
}

std::string Frame::digest() const {
  std::ostringstream out;
  const bool placed = (!outer_ || granted_) && !top_->reads_entries();
  out << plan_.graph.to_text();
  for (const auto& segment : plan_.segments) out << segment.begin << "-" << segment.end << "\n";
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    const Lifetime& life = plan_.lifetimes[s];
    out << s << ": " << life.first_segment << " " << life.first << " " << life.last;
    if (placed && home_[s] == Home::ahead) out << " at " << arena_offset_[s];
    out << "\n";
  }
  for (const auto& region : regions_) out << region->digest() << "\n";
  return hex(sha256(out.str()));
}

}  // namespace trireme
