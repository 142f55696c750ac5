// Which questions of a step wait for others, and which are asked before they come.
#include "ps/gather.h"

#include <algorithm>

namespace trireme {
namespace {

using What = ServerAsk::What;

constexpr size_t kTogether = size_t{4} << 20;  // bytes that are worth one message
constexpr size_t kSmall = size_t{1} << 20;

size_t bytes_of(const Variable& value) {
  if (value.kind() == Kind::dense) {
    return value.tensor().initialized() ? value.tensor().byte_size() : 0;
  }
  return value.kind() == Kind::rows ? value.rows().value.byte_size() : 0;
}

}  // namespace

bool Gather::hold(std::span<const ServerAsk> asks) {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  bool pushes = !asks.empty();
  for (const ServerAsk& each : asks) {
    if (each.what == What::sent_all) sync_ = true;
    pushes = pushes && each.what == What::push;
    bytes += bytes_of(each.value);
  }
  if (!sync_ || !pushes || held_bytes_ + bytes > kTogether) return false;
  for (const ServerAsk& each : asks) {
    Held kept;
    const auto same = std::ranges::find(spare_, *each.name, &Held::name);
    if (same != spare_.end()) {
      kept = std::move(*same);
      spare_.erase(same);
    }
    kept.endpoint = *each.endpoint;
    kept.name = *each.name;
    if (kept.value.kind() != each.value.kind()) kept.value.clear();
    kept.value.copy_from(each.value);
    held_.push_back(std::move(kept));
  }
  held_bytes_ += bytes;
  return true;
}

Gather::Round Gather::begin(std::span<const ServerAsk> asks) {
  const std::lock_guard lock(mutex_);
  Round round;
  round.held.swap(held_);
  held_bytes_ = 0;
  for (const Held& each : round.held) {
    round.asks.push_back({.what = What::push,
                          .endpoint = &each.endpoint,
                          .name = &each.name,
                          .value = each.value,
                          .into = nullptr,
                          .path = {}});
  }
  bool gets = false;
  for (const ServerAsk& each : asks) {
    if (each.what == What::got_all) round.ends_phase = true;
    if (sync_ && each.what == What::get && each.into) {
      Ahead& known = ahead_[{*each.endpoint, *each.name}];
      known.wanted = true;
      if (std::exchange(known.here, false)) {
        if (each.into->kind() != known.value.kind()) each.into->clear();
        each.into->copy_from(known.value);
        continue;
      }
      gets = true;
      round.sizes.emplace_back(&known, each.into);
    }
    round.asks.push_back(each);
  }
  if (!gets || std::exchange(asked_ahead_, true)) return round;
  size_t bytes = 0;
  for (auto& ahead : ahead_) {
    const auto& key = ahead.first;
    auto& known = ahead.second;
    const bool own =
        std::ranges::any_of(round.sizes, [&](const auto& s) { return s.first == &known; });
    if (own || known.bytes == 0 || known.bytes > kSmall || bytes + known.bytes > kTogether)
      continue;
    bytes += known.bytes;
    round.ahead.push_back(&known);
    round.asks.push_back({.what = What::get,
                          .endpoint = &key.first,
                          .name = &key.second,
                          .value = {},
                          .into = &known.value,
                          .path = {}});
  }
  return round;
}

void Gather::end(Round& round, bool answered) {
  const std::lock_guard lock(mutex_);
  for (Held& each : round.held) spare_.push_back(std::move(each));
  for (Ahead* each : round.ahead) each->here = answered;
  for (const auto& [known, value] : round.sizes) known->bytes = bytes_of(*value);
  if (answered && !round.ends_phase) return;
  std::erase_if(ahead_, [](const auto& each) { return !each.second.wanted; });
  for (auto& [key, known] : ahead_) known.wanted = known.here = false;
  asked_ahead_ = false;
}

}  // namespace trireme
