// Numbers the parts of all members, and calls the member that a part belongs to.
#include "runtime/group.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

#include "core/device.h"

namespace trireme {
namespace {

constexpr size_t kGroupPartBytes = size_t{128} << 10;
constexpr size_t kMostGroupParts = 64;
constexpr size_t kScratchUnit = 64;

using SharedMembers = std::shared_ptr<const std::vector<GroupMember>>;

// One call of one member's kernel.
struct MemberCall {
  const GroupMember* member;
  const KernelFn* run;
  size_t scratch;  // where the member's begins
  int part, parts;
};

void make_call(const MemberCall& call, KernelArgs args) {
  args.ins = call.member->ins.data();
  args.outs = call.member->outs.data();
  args.part = call.part;
  args.parts = call.parts;
  if (args.scratch) args.scratch += call.scratch;
  try {
    (*call.run)(args);
  } catch (Error& e) {
    call.member->explain(e);
    throw;
  }
}

void make_calls(std::span<const MemberCall> calls, const KernelArgs& args) {
  for (const MemberCall& call : calls) make_call(call, args);
}

// The queue is told whose work is whose.
void put_calls(std::span<const MemberCall> calls, const KernelArgs& args, Queue& queue) {
  queue.begin_members();
  try {
    for (const MemberCall& call : calls) {
      queue.next_member();
      make_call(call, args);
    }
  } catch (...) {
    queue.end_members();
    throw;
  }
  queue.end_members();
}

// The number of a phase's parts and where each begins among the calls.
std::vector<size_t> begins_of(const std::vector<size_t>& bytes) {  // by call
  const size_t all = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
  const size_t parts =
      std::clamp<size_t>(all / kGroupPartBytes, 1, std::min(kMostGroupParts, bytes.size()));
  std::vector<size_t> begins{0};
  size_t before = 0;
  for (size_t c = 0; c < bytes.size(); ++c) {
    while (begins.size() < parts && before >= all / parts * begins.size()) begins.push_back(c);
    before += bytes[c];
  }
  begins.resize(parts, bytes.size());
  begins.push_back(bytes.size());
  return begins;
}

BoundKernel grouped_phase(const SharedMembers& members, const std::vector<size_t>& scratch,
                          size_t number) {
  std::vector<MemberCall> calls;
  std::vector<size_t> bytes;
  for (size_t m = 0; m < members->size(); ++m) {
    const GroupMember& member = (*members)[m];
    if (number > member.kernel.then.size()) continue;
    const BoundKernel& kernel = number == 0 ? member.kernel : member.kernel.then[number - 1];
    const int parts = member.cut ? kernel.parts : 1;
    // After the first phase, one that its kernel does not cut is short.
    const bool short_one = number > 0 && kernel.parts == 1;
    for (int part = 0; part < parts; ++part) {
      calls.push_back({&member, &kernel.run, scratch[m], part, parts});
      bytes.push_back(short_one ? 0 : member.bytes / static_cast<size_t>(parts));
    }
  }
  std::vector<size_t> begins = begins_of(bytes);
  const int parts = static_cast<int>(begins.size()) - 1;
  return {[members, calls = std::move(calls), begins = std::move(begins)](const KernelArgs& k) {
            const bool whole = k.parts == 1;
            const size_t first = whole ? 0 : begins[static_cast<size_t>(k.part)];
            const size_t last = whole ? calls.size() : begins[static_cast<size_t>(k.part) + 1];
            const std::span part(calls.data() + first, calls.data() + last);
            k.queue ? put_calls(part, k, *k.queue) : make_calls(part, k);
          },
          parts};
}

}  // namespace

BoundKernel grouped(std::vector<GroupMember> list) {
  const SharedMembers members = std::make_shared<const std::vector<GroupMember>>(std::move(list));
  std::vector<size_t> scratch;  // by member: where its own begins
  size_t bytes = 0, phases = 1;
  for (const GroupMember& member : *members) {
    scratch.push_back(bytes);
    bytes += (member.kernel.scratch + kScratchUnit - 1) / kScratchUnit * kScratchUnit;
    phases = std::max(phases, member.kernel.then.size() + 1);
  }
  BoundKernel made = grouped_phase(members, scratch, 0);
  for (size_t number = 1; number < phases; ++number) {
    made.then.push_back(grouped_phase(members, scratch, number));
  }
  made.scratch = bytes;
  return made;
}

}  // namespace trireme
