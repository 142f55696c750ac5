// Requests that are in no snapshot yet, and how they are told again.
#include "ps/sent.h"

#include <algorithm>

namespace trireme {

void Sent::take(const PsMessage& request, const PsMessage& answer) {
  if (!answer.keeps) return;
  server_keeps_ = true;
  const std::lock_guard lock(mutex_);
  forget(answer.kept);
  if (!changes_server(request.kind) || request.sequence <= answer.kept) return;
  PsMessage copy;
  const auto same = std::ranges::find(spare_, request.name, &PsMessage::name);
  if (same != spare_.end()) {
    copy = std::move(*same);
    spare_.erase(same);
  }
  Variable value = std::move(copy.value);
  copy = request;
  copy.value = std::move(value);
  if (copy.value.kind() != request.value.kind()) copy.value.clear();
  if (request.value.kind() != Kind::none) copy.value.copy_from(request.value);
  requests_.push_back(std::move(copy));
}

void Sent::forget(uint64_t kept) {
  while (!requests_.empty() && requests_.front().sequence <= kept) {
    spare_.push_back(std::move(requests_.front()));
    requests_.pop_front();
  }
  while (spare_.size() > requests_.size() + 64) spare_.pop_front();
}

bool Sent::tell_again(int trainer, uint64_t incarnation, std::string* why) {
  const std::lock_guard lock(mutex_);
  if (!channel_) channel_ = make_ps_channel(endpoint_);
  try {
    PsMessage hello, answer;
    hello.kind = PsMessage::Kind::hello;
    hello.trainer = trainer;
    hello.incarnation = incarnation;
    if (!channel_->send(hello, why) || !channel_->receive(answer, why)) return false;
    const uint64_t done = answer.sequence;
    forget(answer.kept);
    for (const PsMessage& request : requests_) {
      if (request.sequence <= done) continue;
      if (!channel_->send(request, why) || !channel_->receive(answer, why)) return false;
    }
  } catch (...) {
    channel_->drop();
    throw;
  }
  channel_->drop();
  return true;
}

}  // namespace trireme
