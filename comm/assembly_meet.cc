// Meeting over the given endpoints: rank 0 calls all others at once, and each proves that it
// belongs to the job.
#include <poll.h>

#include <algorithm>

#include "comm/assembly.h"
#include "comm/assembly_frames.h"
#include "comm/token.h"
#include "core/error.h"
#include "core/random.h"
#include "core/text.h"

namespace trireme {
namespace {

using Millis = std::chrono::milliseconds;

std::string nonce() { return cat(fresh_seed(), "-", fresh_seed()); }

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorKind::precondition, why).fix("start all ranks with the same arguments");
}

}  // namespace

// How far rank 0 is with one of the others.
struct Assembly::Call {
  enum class Stage { waits, connects, greeted, proved, there } stage = Stage::waits;
  int other = 0;
  size_t tries = 0;
  Connection to;
  std::string problem;       // of its last connection
  std::string mine;          // the number that this end has chosen
  Clock::time_point next{};  // it is tried again, or given up
};

std::string Assembly::facts() const {
  return pack_texts({options_.purpose, join(options_.endpoints, ",")});
}

void Assembly::call_all(Clock::time_point end) {
  allow_descriptors(static_cast<size_t>(size()));
  std::vector<Call> calls(static_cast<size_t>(size() - 1));
  for (size_t i = 0; i < calls.size(); ++i) calls[i].other = static_cast<int>(i) + 1;
  const auto there = [](const Call& call) { return call.stage == Call::Stage::there; };
  Clock::time_point next_poll = Clock::now();
  while (!std::ranges::all_of(calls, there)) {
    if (Clock::now() >= end) give_up(calls);
    if (options_.poll && Clock::now() >= next_poll) {
      options_.poll();
      next_poll = Clock::now() + kTry / 2;
    }
    std::vector<pollfd> waiting;
    for (Call& call : calls) {
      if (call.stage == Call::Stage::waits && Clock::now() >= call.next) begin(call);
      const bool speaks = call.stage != Call::Stage::there && call.to.open();
      const short events = call.stage == Call::Stage::connects ? POLLOUT : POLLIN;
      waiting.push_back({.fd = speaks ? call.to.socket() : -1, .events = events, .revents = 0});
    }
    poll(waiting.data(), waiting.size(), static_cast<int>(kTry.count() / 10));
    for (size_t i = 0; i < calls.size(); ++i) {
      if (waiting[i].revents != 0 && !go_on(calls[i])) drop(calls[i]);
      const bool late = calls[i].to.open() && !there(calls[i]) && Clock::now() >= calls[i].next;
      if (late) drop(calls[i]);
    }
  }
  for (Call& call : calls) to_others_.push_back(std::move(call.to));
}

void Assembly::begin(Call& call) {
  call.to = begin_connect(options_.endpoints[static_cast<size_t>(call.other)], call.tries++);
  call.stage = Call::Stage::connects;
  call.next = Clock::now() + kTry;
  if (!call.to.open()) drop(call);
}

void Assembly::drop(Call& call) {
  if (const std::string why = call.to.problem(); !why.empty()) call.problem = why;
  call.to.close();
  call.stage = Call::Stage::waits;
  call.next = Clock::now() + kTry;
}

// Something has come. Both prove that they know the job's token, each with a number that the other
// has chosen. False: it is none of ours, or not yet.
bool Assembly::go_on(Call& call) {
  const std::string of = std::to_string(call.other);
  if (call.stage == Call::Stage::connects) {
    if (!is_connected(call.to.socket())) return false;
    call.mine = nonce();
    call.stage = Call::Stage::greeted;
    call.next = Clock::now() + kGreetLimit;
    return call.to.send(hello, pack_texts({kAssemblyProtocol, call.mine, of, facts()}));
  }
  const bool open = call.to.fill();
  const auto said = call.to.next();
  if (!said) return open && call.to.open();  // a part of it
  if (said->kind == refusal) refuse(said->bytes);
  if (call.stage == Call::Stage::proved) {
    call.stage = Call::Stage::there;
    return said->kind == proof;
  }
  const auto parts = said->kind == challenge ? unpack_texts(said->bytes) : std::nullopt;
  if (!parts || parts->size() != 2) return false;
  const std::string& number = (*parts)[0];
  if ((*parts)[1] != token_proof(cat("called ", of, call.mine, number))) {
    refuse(cat("rank ", call.other, " was started with another FLAGS_job_token"));
  }
  call.stage = Call::Stage::proved;
  return call.to.send(proof, token_proof(cat("caller ", of, number, call.mine)));
}

void Assembly::give_up(std::vector<Call>& calls) const {
  std::vector<std::string> missing;
  for (const Call& call : calls) {
    if (call.stage == Call::Stage::there) continue;
    missing.push_back(cat(call.other, " (", options_.endpoints[static_cast<size_t>(call.other)],
                          call.problem.empty() ? "" : ": ", call.problem, ")"));
  }
  const std::string why =
      cat(options_.purpose, ": after ", static_cast<double>(options_.limit.count()) / 1000,
          " s these ranks have not come: ", join(missing));
  for (Call& call : calls) {
    if (call.stage == Call::Stage::there) call.to.send(failed, why);
  }
  throw Error(ErrorKind::timeout, why)
      .fix("start the processes of all ranks; FLAGS_rpc_deadline says how long they may take");
}

void Assembly::be_called(Clock::time_point end) {
  Ear ear(options_.endpoints[static_cast<size_t>(rank())]);
  to_others_.resize(1);
  while (Clock::now() < end) {
    Connection caller = ear.accept(kTry);
    if (options_.poll) options_.poll();
    if (!caller.open() || !welcome(caller, end)) continue;  // one that only looks who listens
    to_others_[0] = std::move(caller);
    return;
  }
  throw Error(ErrorKind::timeout, cat(options_.purpose, ": rank 0 has not called ",
                                      options_.endpoints[static_cast<size_t>(rank())], " in ",
                                      static_cast<double>(options_.limit.count()) / 1000, " s"))
      .fix("start the process of rank 0; FLAGS_rpc_deadline says how long it may take");
}

bool Assembly::welcome(Connection& caller, Clock::time_point end) {
  const Clock::time_point soon = std::min(end, Clock::now() + kGreetLimit);
  const auto said = caller.receive(soon);
  const auto parts = said && said->kind == hello ? unpack_texts(said->bytes) : std::nullopt;
  if (!parts || parts->size() != 4 || (*parts)[0] != kAssemblyProtocol) return false;
  const std::string &theirs = (*parts)[1], &called = (*parts)[2], mine = nonce();
  const std::string own = std::to_string(rank());
  if (!caller.send(challenge,
                   pack_texts({mine, token_proof(cat("called ", called, theirs, mine))}))) {
    return false;
  }
  const auto proved = caller.receive(soon);
  if (!proved || proved->kind != proof) return false;
  if (proved->bytes != token_proof(cat("caller ", called, mine, theirs))) {
    caller.send(refusal, cat("rank ", rank(), " was started with another FLAGS_job_token"));
    return false;
  }
  if (called != own || (*parts)[3] != facts()) {
    const auto given = unpack_texts((*parts)[3]);
    const auto shown = [](const std::vector<std::string>& of) {
      return of.size() == 2 ? cat(of[0], " of ", of[1]) : std::string("something else");
    };
    const std::string why =
        cat("rank ", rank(), " was started for rank ", rank(), ", ",
            shown({options_.purpose, join(options_.endpoints, ",")}), "; rank 0 calls it as rank ",
            called, ", ", given ? shown(*given) : "something else");
    caller.send(refusal, why);
    throw Error(ErrorKind::precondition, why).fix("start all ranks with the same arguments");
  }
  return caller.send(proof, "");
}

std::vector<std::string> Assembly::exchange(const std::string& mine) {
  const Clock::time_point end = Clock::now() + options_.limit;
  const auto lost = [&](int other) -> Error {
    return Error(ErrorKind::unavailable,
                 cat(options_.purpose, ": rank ", other, " is lost: it ended while the ranks met"))
        .fix("see why that process ended");
  };
  std::vector<std::string> all(static_cast<size_t>(size()));
  all[static_cast<size_t>(rank())] = mine;
  if (rank() != 0) {
    const auto given = to_others_[0].send(text, mine) ? to_others_[0].receive(end) : std::nullopt;
    if (given && given->kind == failed) throw Error(ErrorKind::unavailable, given->bytes);
    const auto unpacked = given && given->kind == texts ? unpack_texts(given->bytes) : std::nullopt;
    if (!unpacked || unpacked->size() != all.size()) throw lost(0);
    return *unpacked;
  }
  for (int other = 1; other < size(); ++other) {
    const auto given = to_others_[static_cast<size_t>(other - 1)].receive(end);
    if (!given || given->kind != text) throw lost(other);
    all[static_cast<size_t>(other)] = given->bytes;
  }
  const std::string answer = pack_texts(all);
  for (int other = 1; other < size(); ++other) {
    if (!to_others_[static_cast<size_t>(other - 1)].send(texts, answer)) throw lost(other);
  }
  return all;
}

}  // namespace trireme
