// Steps of a parameter server, and the trainers that take part in them.
#include "ps/server.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/flags.h"
#include "core/tensor_stream.h"
#include "core/text.h"
#include "core/warning.h"
#include "ir/schema.h"

namespace trireme {
namespace {

using ServerNames = std::vector<std::string>;
using MessageKind = PsMessage::Kind;

// Beats come every second. Whose connection has ended may come again for so long.
constexpr std::chrono::seconds kComesAgain{2};
// After a failure trainers that still ask are told about it.
constexpr std::chrono::seconds kLastWords{5};
constexpr std::chrono::seconds kLook{5};  // how often it is seen who waits
// Trainers keep what they have sent since a server's last snapshot. It writes the next one at the
// latest when that is so much, or so many times what it writes; and else so rarely that writing
// takes a twentieth of the time.
constexpr uint64_t kMostSince = uint64_t{256} << 20;
constexpr int kTimesWritten = 4, kRarely = 20;

std::chrono::milliseconds deadline() {
  const std::chrono::milliseconds limit(std::get<int64_t>(get_flag("rpc_deadline")));
  return limit.count() > 0 ? limit : std::chrono::milliseconds(std::chrono::hours(24 * 365));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::chrono::seconds heartbeat_limit() {
  return std::chrono::seconds(std::get<int64_t>(get_flag("heartbeat_limit")));
}

// In a step of sync mode, so that it may have to wait.
bool takes_part(MessageKind kind) {
  return kind == MessageKind::push || kind == MessageKind::get ||
         kind == MessageKind::send_barrier || kind == MessageKind::fetch_barrier;
}

// "name:block" pairs of a program.
std::map<std::string, int> numbered(const ServerNames& pairs) {
  std::map<std::string, int> numbers;
  for (const std::string& pair : pairs) {
    const size_t colon = pair.rfind(':');
    numbers[pair.substr(0, colon)] = std::stoi(pair.substr(colon + 1));
  }
  return numbers;
}

uint64_t bytes_in(const Variable& value) {
  if (value.kind() == Kind::dense) return value.tensor().byte_size();
  return value.kind() == Kind::rows ? value.rows().value.byte_size() : 0;
}

}  // namespace

PsServer::PsServer(const Program& program, Scope& scope)
    : program_(program),
      serve_(program.global_block().op(0)),
      scope_(scope),
      sync_(serve_.attr<int32_t>("distributed_mode") == 0),
      trainers_count_(serve_.attr<int32_t>("Fanin")) {
  block_of_ = numbered(serve_.attr<ServerNames>("grad_to_block_id"));
  lookup_of_ = numbered(serve_.attr<ServerNames>("prefetch_var_name_to_block_id"));
  const auto policy = std::get<std::string>(get_flag("lost_trainer"));
  if (policy != "fail" && policy != "shrink") {
    throw Error(cat("FLAGS_lost_trainer is ", policy)).fix("choose fail or shrink");
  }
  go_on_or_begin();
}

PsServer::~PsServer() {
  std::error_code gone;
  if (!keeps()) return;
  std::filesystem::remove(snapshot_, gone);
  forget_tables(0);
}

void PsServer::go_on_or_begin() {
  const auto directory = std::get<std::string>(get_flag("server_snapshot"));
  const auto endpoint = serve_.attr<std::string>("endpoint");
  if (!directory.empty()) {
    std::string file = endpoint;
    std::ranges::replace(file, ':', '_');
    snapshot_ = cat(directory, "/server_", file);
    for (const int index : serve_.attr<BlockRefs>("optimize_blocks").indices) {
      std::set<std::string> read;
      for (const Op* op : program_.block(index).ops()) {
        for (const std::string& name : op->input_names()) {
          if (!passing_.contains(name)) read.insert(name);
        }
        for (const std::string& name : op->output_names()) {
          if (!read.contains(name)) passing_.insert(name);
        }
      }
    }
  }
  find_tables();
  PsProgress progress;
  if (keeps() && read_snapshot(snapshot_, endpoint, progress, scope_,
                               [this](ByteSource& from) { load_tables(from); })) {
    for (const auto& [number, was] : progress.trainers) {
      trainers_[number] = {.incarnation = was.incarnation,
                           .sequence = was.sequence,
                           .kept = was.sequence,
                           .left = was.left};
      if (!was.left) beat(number, false);  // it has the usual time to come again
    }
    phase_ = progress.sends ? Phase::send : Phase::get;
    came_ = progress.came;
    round_ = progress.round;
    scope_.step() = progress.step;
    goes_on_ = true;
    warn(cat("server ", endpoint, " goes on from its snapshot of step ", progress.step));
    kept_at_ = Clock::now();
    return;
  }
  const int schedule = serve_.attr<int32_t>("lr_decay_block_id");
  if (!sync_ && schedule >= 0) run_block(schedule);
  if (keeps()) keep();
}

// Between two steps what trainers have sent is used up, and what comes of it on the way is made
// again.
std::vector<std::string> PsServer::state_names() const {
  std::vector<std::string> names = scope_.names();
  for (const auto& table : tables_) {
    const auto& columns = table.second.columns;
    std::erase_if(names, [&](const std::string& each) {
      return std::ranges::find(columns, each) != columns.end();
    });
  }
  if (sync_ && (phase_ == Phase::send || round_ != 0)) return names;
  const std::vector<std::string>& sent = serve_.input("X");
  std::erase_if(names, [&](const std::string& name) {
    return passing_.contains(name) || std::ranges::find(sent, name) != sent.end();
  });
  return names;
}

void PsServer::keep() {
  const Clock::time_point begin = Clock::now();
  PsProgress progress{
      .sends = phase_ == Phase::send, .came = came_, .round = round_, .step = scope_.step()};
  for (const auto& [number, trainer] : trainers_) {
    progress.trainers[number] = {trainer.incarnation, trainer.sequence, trainer.left};
  }
  kept_bytes_ = write_snapshot(snapshot_, serve_.attr<std::string>("endpoint"), progress, scope_,
                               state_names(), [this](ByteSink& to) { save_tables(to); });
  forget_tables(checkpoint_);
  for (auto& [number, trainer] : trainers_) trainer.kept = trainer.sequence;
  came_since_ = 0;
  kept_at_ = Clock::now();
  keeping_took_ = kept_at_ - begin;
}

void PsServer::keep_where_due() {
  if (!keeps() || (sync_ && (phase_ == Phase::send || round_ != 0))) return;
  const std::chrono::seconds apart(std::get<int64_t>(get_flag("server_snapshot_seconds")));
  const auto rarely = apart.count() == 0 ? Clock::duration{} : keeping_took_ * kRarely;
  const bool long_ago = Clock::now() - kept_at_ >= std::max<Clock::duration>(apart, rarely);
  if (long_ago || came_since_ >= std::max(kMostSince, kTimesWritten * kept_bytes_)) keep();
}

void PsServer::run_block(int index) {
  const auto table = table_of_.find(index);
  table == table_of_.end() ? run_as_program(index) : update_rows(*table->second, index);
}

// An update block is a program of its own, whose variables are the server's.
void PsServer::run_as_program(int index) {
  std::shared_ptr<Program>& part = blocks_[index];
  if (!part) {
    part = clone(program_, false);
    part->distributed = nullptr;
    Block& to = part->global_block();
    to.remove_ops(0, to.size());
    for (const Var* var : part->block(index).vars()) {
      if (!to.find_var(var->name())) to.create_var(var->spec());
    }
    for (const Op* op : program_.block(index).ops()) to.insert_raw_op(to.size(), op->spec());
    for (Var* var : to.vars()) var->set_persistable(true);
  }
  if (part->global_block().size() == 0) return;
  executor_.run(*part, {}, {}, {.scope = &scope_});
}

std::vector<int> PsServer::present() const {
  std::vector<int> all;
  for (int t = 0; t < trainers_count_; ++t) {
    const auto found = trainers_.find(t);
    if (found == trainers_.end() || !found->second.left) all.push_back(t);
  }
  return all;
}

std::vector<int> PsServer::missing() const {
  std::vector<int> all = present();
  std::erase_if(all, [&](int t) { return came_.contains(t); });
  return all;
}

void PsServer::check_failed() const {
  if (!failed_.empty()) throw Error(ErrorKind::unavailable, failed_);
}

void PsServer::fail(const std::string& why) {
  if (failed_.empty()) failed_ = why;
  changed_.notify_all();
}

PsServer::Trainer& PsServer::who(const PsMessage& request) {
  if (request.trainer < 0 || request.trainer >= trainers_count_) {
    throw Error(cat("trainer ", request.trainer, " asks, but this job has ", trainers_count_))
        .fix("give every process the same number of trainers, and ids from 0 on");
  }
  Trainer& trainer = trainers_[request.trainer];
  if (request.incarnation < trainer.incarnation) {
    throw Error(cat("trainer ", request.trainer, " is another process by now"))
        .fix("give every trainer an id of its own");
  }
  if (trainer.incarnation != request.incarnation) {
    if (trainer.incarnation != 0) {
      warn(cat("trainer ", request.trainer, " has come again as a new process"));
    }
    trainer = {.incarnation = request.incarnation};
  }
  trainer.lost = false;
  beat(request.trainer, false);
  return trainer;
}

PsMessage PsServer::answer(const PsMessage& request) {
  Lock lock(mutex_);
  PsMessage reply;
  if (request.kind == MessageKind::leave) {
    who(request);
    if (!request.error.empty()) lose(request.trainer, "its process ended with " + request.error);
    leave(request.trainer);
    if (keeps()) keep();  // nobody will send again what this trainer has sent
    return reply;
  }
  check_failed();
  Trainer& trainer = who(request);
  reply.keeps = keeps();
  if (request.kind == MessageKind::hello) {
    reply.sequence = trainer.sequence;
    reply.kept = trainer.kept;
    return reply;
  }
  trainer.asked = request.name;
  trainer.asked_at = Clock::now();
  // A repeated request was done: only its answer was lost.
  const bool once = changes_server(request.kind);
  if (once && done_before(request)) return reply;
  if (request.after > trainer.sequence) {
    throw Error(cat("this server has done ", trainer.sequence, " requests of trainer ",
                    request.trainer, ", which has had answers to ", request.after))
        .fix("it has started again without its snapshot: start the job again");
  }
  if (sync_ && takes_part(request.kind)) {
    const bool gets =
        request.kind == MessageKind::get || request.kind == MessageKind::fetch_barrier;
    if (!wait_for(lock, gets ? Phase::get : Phase::send, request)) return reply;
  }
  switch (request.kind) {
    case MessageKind::get:
    case MessageKind::read:
      read(request, reply);
      break;
    case MessageKind::lookup:
      look_up(request, reply);
      break;
    case MessageKind::save:
      save(request);
      break;
    case MessageKind::answer:
    case MessageKind::leave:
    case MessageKind::hello:
      throw Error("a server was sent an answer");
    default:
      // A barrier may be the last of a step: what it leads to belongs to it.
      trainer.sequence = request.sequence;
      take(request);
      came_since_ += bytes_in(request.value);
      keep_where_due();
  }
  reply.kept = trainer.kept;
  return reply;
}

void PsServer::take(const PsMessage& request) {
  switch (request.kind) {
    case MessageKind::push:
      return push(request);
    case MessageKind::notify:
      return notify(request);
    default:
      return barrier(request.trainer);
  }
}

bool PsServer::done_before(const PsMessage& request) const {
  const Trainer& trainer = trainers_.at(request.trainer);
  return trainer.incarnation != request.incarnation || request.sequence <= trainer.sequence;
}

// There is no limit to it: those that are waited for beat, or are lost within theirs. wait() says
// now and then who waits for whom.
bool PsServer::wait_for(Lock& lock, Phase phase, const PsMessage& request) {
  Trainer& trainer = trainers_.at(request.trainer);
  const bool once = changes_server(request.kind);
  const auto done = [&] { return once && done_before(request); };
  trainer.waits = true;
  // Who sends has received: programs with half_async do not say it.
  if (phase == Phase::send && phase_ == Phase::get && came_.insert(request.trainer).second) {
    end_phase_where_all_came(request.trainer);
  }
  changed_.wait(lock, [&] { return phase_ == phase || !failed_.empty() || done(); });
  trainer.waits = false;
  check_failed();
  return !done();
}

void PsServer::push(const PsMessage& request) {
  const bool known = block_of_.contains(request.name) || scope_.find(request.name) ||
                     program_.global_block().find_var(request.name);
  if (!known) throw Error(cat("this server has no variable ", request.name));
  Variable& to = scope_.var(request.name);
  if (to.kind() != request.value.kind()) to.clear();
  to.copy_from(request.value);
  if (sync_) return;
  if (serve_.attr<bool>("dc_asgd")) {
    scope_.var("@TRAINER_ID@").tensor() = make_tensor<int64_t>({1}, {request.trainer});
  }
  if (const auto block = block_of_.find(request.name); block != block_of_.end()) {
    run_block(block->second);
  }
}

void PsServer::notify(const PsMessage& request) {
  const Variable* count = scope_.find(request.name);
  if (!count || request.value.kind() != Kind::dense ||
      request.value.tensor().dtype() != DType::int64 || request.value.tensor().numel() != 1) {
    throw Error(cat(request.name, " is not a counter of this server"));
  }
  count->tensor().data<int64_t>()[0] += request.value.tensor().data<int64_t>()[0];
  run_block(serve_.attr<int32_t>("lr_decay_block_id"));
}

void PsServer::read(const PsMessage& request, PsMessage& reply) {
  if (const auto table = tables_.find(request.name); table != tables_.end()) {
    return read_rows(table->second, reply.value);
  }
  const Variable* value = scope_.find(request.name);
  if (!value || !value->initialized()) {
    throw Error(cat("this server has no variable ", request.name))
        .fix("run the server's startup program first");
  }
  // After the update it stays as it is until this trainer, too, has said that it has got all.
  if (sync_ && request.kind == MessageKind::get) {
    reply.value = *value;
  } else {
    reply.value.copy_from(*value);
  }
  if (!serve_.attr<bool>("dc_asgd")) return;
  scope_.var(cat(request.name, ".trainer_", request.trainer, "_bak")).copy_from(*value);
}

void PsServer::save(const PsMessage& request) {
  Variable rows_made;
  const Variable* value = scope_.find(request.name);
  if (const auto table = tables_.find(request.name); table != tables_.end()) {
    read_rows(table->second, rows_made);
    value = &rows_made;
  }
  if (!value || !value->initialized()) {
    throw Error(cat("this server has no variable ", request.name, " to save"));
  }
  Variable named = *value;  // without the room for rows that have no number yet
  if (named.kind() == Kind::rows) {
    SelectedRows& rows = named.rows();
    rows.value = rows.value.slice_rows(0, static_cast<int64_t>(rows.rows.size()));
  }
  AtomicFile file(request.path);
  write_variable(file, named, request.name);
  file.commit();
}

void PsServer::look_up(const PsMessage& request, PsMessage& reply) {
  if (const auto block = lookup_of_.find(request.name); block != lookup_of_.end()) {
    scope_.var(request.name).copy_from(request.value);
    run_block(block->second);
    const Op& last = program_.block(block->second).op(program_.block(block->second).size() - 1);
    reply.value.copy_from(scope_.var(last.output_names().front()));
    return;
  }
  if (const auto table = tables_.find(request.name); table != tables_.end()) {
    return look_up_rows(table->second, request.value.tensor(), reply);
  }
  const Variable* table = scope_.find(request.name);
  if (!table || table->kind() != Kind::dense || request.value.kind() != Kind::dense ||
      request.value.tensor().dtype() != DType::int64) {
    throw Error(cat("this server has no table ", request.name));
  }
  const Tensor& rows = table->tensor();
  const Tensor& ids = request.value.tensor();
  Shape shape = rows.shape();
  const int64_t height = shape.at(0);
  const size_t width = height ? rows.byte_size() / static_cast<size_t>(height) : 0;
  shape[0] = ids.numel();
  Tensor found(rows.dtype(), shape);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const int64_t id = ids.data<int64_t>()[i];
    if (id < 0 || id >= height) throw Error(cat("row ", id, " of ", height, " is asked for"));
    std::memcpy(found.bytes().data() + static_cast<size_t>(i) * width,
                rows.bytes().data() + static_cast<size_t>(id) * width, width);
  }
  reply.value.tensor() = std::move(found);
}

void PsServer::barrier(int trainer) {
  if (!sync_) return;
  came_.insert(trainer);
  end_phase_where_all_came(trainer);
}

// `last` came, or left, now.
void PsServer::end_phase_where_all_came(int last) {
  if (came_.size() == 1) first_came_ = std::chrono::steady_clock::now();
  if (!sync_ || came_.empty() || !missing().empty()) return;
  if (profiling_on() && came_.size() > 1) {
    record_event({.op = cat("waits for trainer ", last), .kind = ProfileEvent::Kind::wait},
                 first_came_);
  }
  if (phase_ == Phase::send) {
    try {
      forget_the_left();
      update();
    } catch (const std::exception& error) {
      fail(cat("the update failed: ", error.what()));
      check_failed();
    }
  }
  phase_ = phase_ == Phase::send ? Phase::get : Phase::send;
  came_.clear();
  changed_.notify_all();
}

// Blocks sum what all trainers sent and divide by their number at the start. Who has left adds
// nothing, and the others count for more: the average is that of those who are here.
void PsServer::forget_the_left() {
  const std::vector<int> here = present();
  if (here.size() == static_cast<size_t>(trainers_count_)) return;
  const double more = static_cast<double>(trainers_count_) / static_cast<double>(here.size());
  for (const std::string& name : serve_.input("X")) {
    const size_t at = name.rfind(".trainer_");
    if (at == name.npos) continue;
    Variable* value = &scope_.var(name);
    const int of = std::stoi(name.substr(at + std::strlen(".trainer_")));
    const bool stays = std::ranges::find(here, of) != here.end();
    if (!value->initialized()) {  // it left before it had sent any: as one of the others, of zeros
      const Variable* other = scope_.find(cat(name.substr(0, at), ".trainer_", here.front()));
      if (stays || !other || !other->initialized()) continue;
      value->copy_from(*other);
    }
    Tensor& numbers = value->kind() == Kind::rows ? value->rows().value : value->tensor();
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      if (numbers.dtype() == DType::float32) {
        float& number = numbers.data<float>()[i];
        number = stays ? static_cast<float>(number * more) : 0.0f;
      } else if (numbers.dtype() == DType::float64) {
        double& number = numbers.data<double>()[i];
        number = stays ? number * more : 0.0;
      }
    }
  }
}

void PsServer::update() {
  const std::vector<int> blocks = serve_.attr<BlockRefs>("optimize_blocks").indices;
  std::vector<int32_t> rounds = serve_.attr<std::vector<int32_t>>("blocks_by_round");
  if (rounds.empty()) rounds = {static_cast<int32_t>(blocks.size())};
  int first = 0;
  for (size_t r = 0; r < round_; ++r) first += rounds[r];
  // All blocks of a step are one step, as they are on one machine: random updates draw by it.
  const uint64_t step = scope_.step();
  for (int i = first; i < first + rounds[round_]; ++i) {
    scope_.step() = step;
    run_block(blocks[static_cast<size_t>(i)]);
  }
  round_ = (round_ + 1) % rounds.size();
  scope_.step() = round_ == 0 ? step + 1 : step;
}

void PsServer::leave(int trainer) {
  trainers_[trainer].left = true;
  came_.erase(trainer);
  end_phase_where_all_came(trainer);
  changed_.notify_all();
}

void PsServer::lose(int trainer, const std::string& how) {
  Trainer& lost = trainers_[trainer];
  if (lost.left || lost.lost) return;
  lost.lost = true;
  const auto policy = std::get<std::string>(get_flag("lost_trainer"));
  const std::string what = cat("trainer ", trainer, " is lost: ", how);
  if (!sync_ || policy == "shrink") {
    warn(what + "; the others go on without it");
    leave(trainer);
    if (keeps()) keep();
  } else {
    fail(what + " (FLAGS_lost_trainer=fail)");
  }
}

void PsServer::beat(int trainer, bool broken) {
  const std::lock_guard lock(beats_mutex_);
  Beat& last = beats_[trainer];
  last.broken = broken;
  const Clock::time_point now = Clock::now();
  // A broken connection is as a silence that has lasted almost to its limit.
  last.seen = broken ? std::min(last.seen, now - heartbeat_limit() + kComesAgain) : now;
}

void PsServer::alive(int trainer, uint64_t) { beat(trainer, false); }
void PsServer::gone(int trainer, uint64_t) { beat(trainer, true); }

void PsServer::lose_the_silent() {
  const std::chrono::seconds limit = heartbeat_limit();
  std::vector<std::pair<int, std::string>> silent;
  {
    const std::lock_guard lock(beats_mutex_);
    for (const auto& [number, last] : beats_) {
      if (Clock::now() - last.seen < limit) continue;
      silent.emplace_back(number, last.broken ? "its process ended without leaving"
                                              : cat("nothing was heard of it for ",
                                                    seconds_since(last.seen), " s"));
    }
  }
  for (const auto& [number, how] : silent) {
    if (trainers_.contains(number)) lose(number, how);
  }
}

std::vector<int> PsServer::absent() const {
  std::vector<int> all = present();
  std::erase_if(all, [&](int t) { return trainers_.contains(t); });
  return all;
}

std::string PsServer::waiting_for_whom() const {
  const double limit = static_cast<double>(std::get<int64_t>(get_flag("hang_watchdog")));
  std::string text;
  for (const auto& [number, trainer] : trainers_) {
    if (!trainer.waits || limit == 0 || seconds_since(trainer.asked_at) < limit) continue;
    text += cat("\n  trainer ", number, " waits since ", seconds_since(trainer.asked_at), " s at ",
                trainer.asked);
  }
  if (text.empty()) return text;
  for (const int number : missing()) {
    if (!trainers_.contains(number)) {
      text += cat("\n  trainer ", number, " has not come yet");
      continue;
    }
    const Trainer& trainer = trainers_.at(number);
    if (trainer.waits) continue;
    const std::lock_guard lock(beats_mutex_);
    text += cat("\n  trainer ", number, " is waited for: last asked for ", trainer.asked, " ",
                seconds_since(trainer.asked_at), " s ago, last heard of ",
                seconds_since(beats_.at(number).seen), " s ago");
  }
  return cat("server ", serve_.attr<std::string>("endpoint"), ", step ", scope_.step(),
             phase_ == Phase::get ? ", trainers receive:" : ", trainers send:", text);
}

void PsServer::wait(const std::function<void()>& poll) {
  Lock lock(mutex_);
  const Clock::time_point late = begin_ + deadline();
  Clock::time_point told{}, looked = Clock::now();
  while (true) {
    const std::vector<int> here = present();
    if (!failed_.empty()) {
      const bool all_lost = std::ranges::all_of(
          here, [&](int t) { return trainers_.contains(t) && trainers_.at(t).lost; });
      if (told == Clock::time_point{}) told = Clock::now() + kLastWords;
      if (all_lost || Clock::now() >= told) break;
    } else if (here.empty() && (!goes_on_ || Clock::now() - begin_ >= kComesAgain)) {
      // One that has died before its last answer came says that again.
      fail("the job has ended");
      return;
    } else if (!here.empty() && Clock::now() >= late && !absent().empty()) {
      fail(cat("trainers ", join(absent()), " have not come in ", seconds_since(begin_),
               " s (FLAGS_rpc_deadline)"));
    }
    lose_the_silent();
    changed_.wait_for(lock, std::chrono::milliseconds(100));
    const std::string waits = Clock::now() - looked < kLook ? "" : waiting_for_whom();
    if (Clock::now() - looked >= kLook) looked = Clock::now();
    lock.unlock();
    if (!waits.empty()) warn(waits);
    try {
      if (poll) poll();
      lock.lock();
    } catch (...) {  // whoever still waits for an answer gets one
      lock.lock();
      fail("the server was interrupted");
      throw;
    }
  }
  throw Error(ErrorKind::unavailable, failed_)
      .in("listen_and_serv")
      .fix("see why that trainer ended; FLAGS_lost_trainer=shrink lets the others go on");
}

}  // namespace trireme
