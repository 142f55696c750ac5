// Joins launches of one kernel: a table of all members' arguments, and blocks dealt out among them.
#include "cuda/member_launches.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "cuda/cuda_device.h"
#include "cuda/emit.h"

namespace trireme::cuda {

void MemberLaunches::begin(CudaQueue& queue) {
  settle(queue);
  gathers_ = true;
  place_ = 0;
}

void MemberLaunches::next() { place_ = 0; }

void MemberLaunches::end(CudaQueue& queue) {
  gathers_ = false;
  settle(queue);
}

void MemberLaunches::add(const Launch& what, const void* const* addresses) {
  const size_t count = static_cast<size_t>(address_count(*what.kernel));
  waiting_.push_back({.kernel = what.kernel,
                      .blocks = what.blocks,
                      .threads = what.threads,
                      .numbers = what.numbers,
                      .addresses = std::vector<const void*>(addresses, addresses + count),
                      .place = place_++});
}

namespace {

constexpr size_t kMostCopied = size_t{256} << 10;

// A launch that copies so many units of 16, 4 or 1 bytes.
Launch copying(size_t bytes, uintptr_t aligned) {
  static const std::array<Launch, 3> all = [] {
    const auto make = [](const char* type) {
      return pointwise(Shape{1}, {},
                       cat("((", type, "*)p.at[0])[at] = ((const ", type, "*)p.at[1])[at];\n"), 2);
    };
    return std::array<Launch, 3>{make("uint4"), make("uint32"), make("uint8")};
  }();
  const size_t unit = aligned % 16 == 0 ? 16 : aligned % 4 == 0 ? 4 : 1;
  Launch made = all[unit == 16 ? 0 : unit == 4 ? 1 : 2];
  made.numbers[0] = static_cast<int64_t>(bytes / unit);
  made.blocks = (made.numbers[0] + made.threads - 1) / made.threads;
  return made;
}

}  // namespace

bool MemberLaunches::add_copy(CudaQueue& queue, void* to, const void* from, size_t bytes) {
  if (gathers_ || bytes > kMostCopied || !queue.device.holds(to) || !queue.device.holds(from))
    return false;
  const auto begin = [](const void* address) { return reinterpret_cast<uintptr_t>(address); };
  const auto touches = [&](const void* address, const Copied& other) {
    return begin(address) < begin(other.to) + other.bytes &&
           begin(other.to) < begin(address) + bytes;
  };
  const auto touched = [&](const Copied& other) {
    return begin(to) < begin(other.from) + other.bytes && begin(other.from) < begin(to) + bytes;
  };
  for (const Copied& other : copied_) {
    if (!touches(to, other) && !touches(from, other) && !touched(other)) continue;
    settle(queue);
    break;
  }
  copied_.push_back({to, from, bytes});
  const void* const addresses[] = {to, from};
  place_ = 0;
  add(copying(bytes, begin(to) | begin(from) | bytes), addresses);
  return true;
}

void MemberLaunches::settle(CudaQueue& queue) {
  copied_.clear();
  if (waiting_.empty()) return;
  const std::vector<Waiting> all = std::move(waiting_);
  waiting_.clear();
  std::vector<bool> done(all.size());
  size_t places = 0;
  for (const Waiting& one : all) places = std::max(places, one.place + 1);
  for (size_t place = 0; place < places; ++place) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (done[i] || all[i].place != place) continue;
      Joined together;
      for (size_t j = i; j < all.size(); ++j) {
        const bool alike = !done[j] && all[j].place == place && all[j].kernel == all[i].kernel &&
                           all[j].threads == all[i].threads;
        if (!alike) continue;
        together.push_back(&all[j]);
        done[j] = true;
      }
      put(queue, together);
    }
  }
}

void MemberLaunches::put(CudaQueue& queue, const Joined& together) {
  const Waiting& first = *together.front();
  const size_t most = most_joined(*first.kernel);
  for (size_t begin = 0; begin < together.size(); begin += most) {
    const size_t count = std::min(most, together.size() - begin);
    std::vector<LaunchArguments> members;
    for (size_t i = begin; i < begin + count; ++i) {
      members.push_back(
          {together[i]->blocks, together[i]->numbers.data(), together[i]->addresses.data()});
    }
    launch_joined(first.kernel, first.threads, members, queue);
  }
}

}  // namespace trireme::cuda
