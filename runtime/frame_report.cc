// What a bound frame needs and does, told to people.
#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>

#include "core/sha256.h"
#include "core/text.h"
#include "runtime/facts.h"
#include "runtime/frame.h"
#include "runtime/region_runner.h"

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

// Of a region: what its iterations need, and keep for their gradient.
std::string region_text(const Frame& body, const Plan& plan) {
  if (!body.placement().is_lent()) {
    return cat(bytes_text(body.placement().arena_bytes()),
               " of it, found while running, for the sub-block of ");
  }
  std::string text = bytes_text(body.placement().planned_bytes()) + " of it";
  const std::optional<size_t> kept = body.binding().stack_bytes();
  const int64_t iterations = body.binding().iterations();
  if (plan.graph.saves_iterations && kept) {
    text += cat(", and ", bytes_text(*kept), " to keep ", iterations,
                iterations == 1 ? " iteration" : " iterations");
  }
  return text + ", for the sub-block of ";
}

std::string counts_text(const std::map<std::string, size_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += cat(text.empty() ? " " : ", ", name, " x", count);
  }
  return text;
}

// Of a plan for a device that is not the host: what its queues run, and what the host does.
std::string queues_text(const Plan& plan, size_t replayed) {
  size_t on_queue = 0, up = 0, down = 0;
  std::map<std::string, size_t> host;
  for (const Instruction& one : plan.instructions) {
    const Node& node = plan.graph.nodes[one.node];
    const Transfer transfer = node.schema->trait().transfer;
    up += transfer == Transfer::upload;
    down += transfer == Transfer::download;
    on_queue += one.runner == Runner::compute && transfer == Transfer::none;
    if (one.runner != Runner::host) continue;
    ++host[(node.members.empty() ? node : node.members[0]).schema->type()];
  }
  return cat("device\n  ", on_queue, " instructions in its queue, ", replayed,
             replayed == 1 ? " stretch" : " stretches", " of them replayed; ", up, " uploads, ",
             down, " downloads\n  by the host:", host.empty() ? " nothing" : counts_text(host),
             "\n");
}

}  // namespace

std::string Frame::report() const {
  std::ostringstream out;
  struct Owner {
    size_t bytes;
    int value;
  };
  std::vector<Owner> owners;
  size_t values = 0;  // bytes they would take side by side
  struct Packing {
    size_t bytes = 0, instructions = 0;
  };
  std::array<Packing, 2> packing;  // in every step; where states stay: once
  std::map<std::string, std::map<std::string, size_t>> kernels;
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Node& node = plan_.graph.nodes[plan_.instructions[i].node];
    const std::string& type = (node.members.empty() ? node : node.members[0]).schema->type();
    const BoundInstruction& bound = binding_.instructions()[i];
    const BoundKernel& kernel = bound.kernel;
    Packing& own = packing[bound.keeps_scratch ? 1 : 0];
    own.bytes += kernel.packed;
    own.instructions += kernel.packed > 0;
    for (const Kernel* chosen : bound.chosen) {
      ++kernels[type][kernel.detail.empty() ? chosen->name : cat(chosen->name, " ", kernel.detail)];
    }
    for (int value : node.outs) {
      if (value < 0 || placement_.has_own_memory(plan_.slot_of[value])) continue;
      if (!binding_.facts(value).shape.known()) continue;
      const size_t bytes = byte_count(binding_.facts(value));
      values += bytes;
      owners.push_back({bytes, value});
    }
  }
  out << "memory\n  arena " << bytes_text(placement_.arena_bytes()) << " for values of "
      << bytes_text(values) << " (at most " << bytes_text(placement_.live_bytes())
      << " at once), scratch " << bytes_text(placement_.scratch_bytes()) << "\n";
  if (packing[0].instructions > 0) {
    out << "  in every step " << packing[0].instructions << " instructions pack "
        << bytes_text(packing[0].bytes) << " of operands into that scratch\n";
  }
  if (packing[1].instructions > 0) {
    out << "  " << packing[1].instructions << " instructions have packed "
        << bytes_text(packing[1].bytes)
        << " of parameters there, which is kept until these change\n";
  }
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    for (int number : plan_.instructions[i].region_plans) {
      const RegionRunner& region = *regions_[static_cast<size_t>(number)];
      out << "  " << region_text(region.body(), *region.plan().plan)
          << place_of(plan_.graph.nodes[plan_.instructions[i].node]);
      const auto& inner = region.body().binding_.instructions();
      const auto keeping =
          std::count_if(inner.begin(), inner.end(),
                        [](const BoundInstruction& bound) { return bound.keeps_scratch; });
      if (keeping > 0) {
        out << ", where " << keeping << (keeping == 1 ? " instruction packs" : " instructions pack")
            << " what stays the same in all iterations before the first, and keeps it";
      }
      out << "\n";
    }
  }
  for (size_t b = 0; b < placement_.bucket_count(); ++b) {
    out << "  " << bytes_text(placement_.bucket(b).byte_size()) << " of it a bucket of "
        << plan_.buckets[b].entries.size() << " gradients\n";
  }
  std::stable_sort(owners.begin(), owners.end(),
                   [](const Owner& a, const Owner& b) { return a.bytes > b.bytes; });
  for (size_t i = 0; i < std::min(owners.size(), kOwnersShown); ++i) {
    const ValueInfo& info = binding_.facts(owners[i].value);
    const Node& node = plan_.graph.nodes[plan_.graph.values[owners[i].value].node];
    out << "  " << bytes_text(owners[i].bytes) << " " << info.name << " " << name_of(info.dtype)
        << " " << info.shape << " of " << place_of(node) << "\n";
  }
  if (plan_.has_queues) out << queues_text(plan_, replayed());
  out << "kernels\n";
  for (const auto& [type, chosen] : kernels)
    out << "  " << type << ":" << counts_text(chosen) << "\n";
  return out.str();
}

std::string Frame::digest() const {
  std::ostringstream out;
  const bool placed = (!outer_ || placement_.is_lent()) && !top_->binding_.reads_entries();
  out << plan_.graph.to_text();
  for (const auto& segment : plan_.segments) out << segment.begin << "-" << segment.end << "\n";
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    const Lifetime& life = plan_.lifetimes[s];
    out << s << ": " << life.first_segment << " " << life.first << " " << life.last;
    if (placed && placement_.is_ahead(static_cast<int>(s))) {
      out << " at " << placement_.offset(static_cast<int>(s));
    }
    out << "\n";
  }
  for (const auto& region : regions_) out << region->body().digest() << "\n";
  return hex(sha256(out.str()));
}

}  // namespace trireme
