// Steps of trainers and servers, and the queues between them.
#include "tests/support/cluster.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/text.h"
#include "ir/distributed.h"
#include "ir/schema.h"

namespace trireme::testing {
namespace {

using Strings = std::vector<std::string>;
using MessageKind = Message::Kind;

template <class T>
T attr_of(const OpSpec& op, const std::string& name, T otherwise = {}) {
  const auto found = op.attrs.find(name);
  return found == op.attrs.end() ? otherwise : std::get<T>(found->second);
}

const Strings& names_of(const Slots& slots, const std::string& slot) {
  static const Strings none;
  const auto found = slots.find(slot);
  return found == slots.end() ? none : found->second;
}

bool looks_up_remote_rows(const OpSpec& op) {
  return op.type == "distributed_lookup_table" ||
         ((op.type.starts_with("nce") || op.type.starts_with("hierarchical_sigmoid")) &&
          !attr_of<Strings>(op, "table_names").empty());
}

bool talks_to_servers(const OpSpec& op) {
  static const std::set<std::string> types = {"send", "recv", "send_barrier", "fetch_barrier"};
  return types.contains(op.type);
}

Variable copy_of(const Scope& scope, const std::string& name) {
  const Variable* value = scope.find(name);
  if (!value || value->kind() == Kind::none) throw InternalError("nothing to send: " + name);
  Variable copy;
  copy.copy_from(*value);
  return copy;
}

Tensor rows_between(const Tensor& whole, int64_t begin, int64_t end) {
  Shape shape = whole.shape();
  const size_t row = whole.byte_size() / static_cast<size_t>(std::max<int64_t>(1, shape.at(0)));
  shape[0] = end - begin;
  Tensor part(whole.dtype(), shape);
  std::memcpy(part.address(), whole.bytes().data() + static_cast<size_t>(begin) * row,
              part.byte_size());
  return part;
}

// Rows [begin, end) of a value, counted from 0 again.
Variable section(const Variable& value, int64_t begin, int64_t end) {
  Variable part;
  if (value.kind() == Kind::dense) {
    part.tensor() = rows_between(value.tensor(), begin, end);
    return part;
  }
  const SelectedRows& from = value.rows();
  SelectedRows& to = part.rows();
  to.height = end - begin;
  std::vector<Tensor> rows;
  for (size_t r = 0; r < from.rows.size(); ++r) {
    if (from.rows[r] < begin || from.rows[r] >= end) continue;
    to.rows.push_back(from.rows[r] - begin);
    rows.push_back(rows_between(from.value, static_cast<int64_t>(r), static_cast<int64_t>(r) + 1));
  }
  Shape shape = from.value.shape();
  shape[0] = static_cast<int64_t>(rows.size());
  to.value = Tensor(from.value.dtype(), shape);
  size_t at = 0;
  for (const Tensor& row : rows) {
    std::memcpy(to.value.bytes().data() + at, row.address(), row.byte_size());
    at += row.byte_size();
  }
  return part;
}

Tensor joined(const std::vector<Variable>& parts) {
  Shape shape = parts.front().tensor().shape();
  int64_t rows = 0;
  for (const Variable& part : parts) rows += part.tensor().shape().at(0);
  shape[0] = rows;
  Tensor whole(parts.front().tensor().dtype(), shape);
  size_t at = 0;
  for (const Variable& part : parts) {
    std::memcpy(whole.bytes().data() + at, part.tensor().address(), part.tensor().byte_size());
    at += part.tensor().byte_size();
  }
  return whole;
}

}  // namespace

void PartRunner::run(const Program& program, const std::string& key, const std::vector<OpSpec>& ops,
                     const Feeds& feeds, Scope& scope, int block) {
  std::shared_ptr<Program>& part = parts_[key];
  if (!part) {
    part = clone(program, false);
    Block& to = part->global_block();
    to.remove_ops(0, to.size());
    for (const Var* var : part->block(block).vars()) {
      if (!to.find_var(var->name())) to.create_var(var->spec());
    }
    for (const OpSpec& op : ops) to.insert_raw_op(to.size(), op);
    // The parts of a program hand each other their values through the scope.
    for (Var* var : to.vars()) {
      if (!var->is_data()) var->set_persistable(true);
    }
  }
  Feeds used;
  for (const auto& [name, tensor] : feeds) {
    for (const OpSpec& op : ops) {
      for (const auto& [slot, names] : op.inputs) {
        if (std::ranges::find(names, name) != names.end()) used[name] = tensor;
      }
    }
  }
  executor_.run(*part, used, {}, {.scope = &scope});
}

// ---- servers

TestServer::TestServer(std::shared_ptr<Program> main, std::shared_ptr<Program> startup)
    : main_(std::move(main)), startup_(std::move(startup)), serve_(&main_->global_block().op(0)) {
  sync_ = serve_->attr<int32_t>("distributed_mode") == 0;
  fanin_ = serve_->attr<int32_t>("Fanin");
}

void TestServer::start() {
  Executor().run(*startup_, {}, {}, {.scope = &scope_});
  const int schedule = serve_->attr<int32_t>("lr_decay_block_id");
  if (!sync_ && schedule >= 0) run_block(schedule);
}

Tensor TestServer::value(const std::string& name) const { return copy_of(scope_, name).tensor(); }

void TestServer::run_block(int index) {
  std::vector<OpSpec> ops;
  for (const Op* op : main_->block(index).ops()) ops.push_back(op->spec());
  runner_.run(*main_, cat(index), ops, {}, scope_, index);
}

int TestServer::block_of(const std::string& grad) const {
  for (const std::string& pair : serve_->attr<Strings>("grad_to_block_id")) {
    const size_t colon = pair.rfind(':');
    if (pair.substr(0, colon) == grad) return std::stoi(pair.substr(colon + 1));
  }
  return -1;
}

bool TestServer::must_wait(const Message& message) const {
  const bool asks = message.kind == MessageKind::get || message.kind == MessageKind::fetch_barrier;
  const bool tells = message.kind == MessageKind::send || message.kind == MessageKind::send_barrier;
  return sync_ && ((asks && phase_ == Phase::send) || (tells && phase_ == Phase::get));
}

bool TestServer::handle() {
  bool done = false;
  std::deque<Message> waiting = std::move(held_);
  held_.clear();
  for (; !inbox.empty(); inbox.pop_front()) waiting.push_back(std::move(inbox.front()));
  std::set<int> behind;  // trainers of which a message waits: what follows it waits too
  for (Message& message : waiting) {
    if (behind.contains(message.trainer) || must_wait(message)) {
      behind.insert(message.trainer);
      held_.push_back(std::move(message));
      continue;
    }
    take(message);
    done = true;
  }
  return done;
}

void TestServer::take(Message& message) {
  switch (message.kind) {
    case MessageKind::send:
      scope_.var(message.name).clear();
      scope_.var(message.name).copy_from(message.value);
      if (sync_) return;
      if (serve_->attr<bool>("dc_asgd")) {
        scope_.var("@TRAINER_ID@").tensor() = make_tensor<int64_t>({1}, {message.trainer});
      }
      if (const int block = block_of(message.name); block >= 0) {
        run_block(block);
      }
      return;
    case MessageKind::notify: {
      Tensor& count = scope_.var(message.name).tensor();
      count.data<int64_t>()[0] += message.value.tensor().data<int64_t>()[0];
      run_block(serve_->attr<int32_t>("lr_decay_block_id"));
      return;
    }
    case MessageKind::get:
    case MessageKind::read:
      return answer(message);
    case MessageKind::send_barrier:
      if (sync_ && ++sent_ == fanin_) end_of_phase();
      return;
    case MessageKind::fetch_barrier:
      if (sync_ && ++fetched_ == fanin_) end_of_phase();
      return;
  }
}

void TestServer::answer(Message& message) {
  *message.reply = copy_of(scope_, message.name);
  const std::string backup = cat(message.name, ".trainer_", message.trainer, "_bak");
  if (serve_->attr<bool>("dc_asgd")) scope_.var(backup).copy_from(*message.reply);
}

void TestServer::end_of_phase() {
  if (phase_ == Phase::send) {
    const std::vector<int> blocks = serve_->attr<BlockRefs>("optimize_blocks").indices;
    std::vector<int32_t> rounds = serve_->attr<std::vector<int32_t>>("blocks_by_round");
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
  phase_ = phase_ == Phase::send ? Phase::get : Phase::send;
  sent_ = fetched_ = 0;
}

// ---- trainers

TestTrainer::TestTrainer(std::shared_ptr<Program> main, std::shared_ptr<Program> startup, int id,
                         TestServers& servers)
    : main_(std::move(main)), startup_(std::move(startup)), id_(id), servers_(servers) {}

Tensor TestTrainer::value(const std::string& name) const { return copy_of(scope_, name).tensor(); }

std::vector<TestTrainer::Part> TestTrainer::parts_of(const Program& program) const {
  std::vector<Part> parts;
  const auto add_here = [&](OpSpec op) {
    if (parts.empty() || !std::holds_alternative<std::vector<OpSpec>>(parts.back())) {
      parts.push_back(std::vector<OpSpec>());
    }
    std::get<std::vector<OpSpec>>(parts.back()).push_back(std::move(op));
  };
  // A background thread that waits for all trainers says itself when it has received.
  bool receives = false;
  const auto end_receiving = [&] {
    if (!receives) return;
    receives = false;
    parts.push_back(OpSpec{.type = "fetch_barrier",
                           .inputs = {},
                           .outputs = {},
                           .attrs = {{"endpoints", program.distributed->endpoints}}});
  };
  for (const Op* op : program.global_block().ops()) {
    OpSpec spec = op->spec();
    if (spec.type != "recv") end_receiving();
    receives |= spec.type == "send_barrier" && attr_of<bool>(spec, "half_async");
    const bool remote = looks_up_remote_rows(spec);
    if (remote) parts.push_back(spec);
    if (talks_to_servers(spec)) {
      parts.push_back(spec);
    } else if (spec.type == "distributed_lookup_table") {
      for (size_t i = 0; i < names_of(spec.inputs, "Ids").size(); ++i) {
        OpSpec lookup{.type = attr_of<std::string>(spec, "lookup_table_version"),
                      .inputs = {{"W", spec.inputs.at("W")}, {"Ids", {spec.inputs.at("Ids")[i]}}},
                      .outputs = {{"Out", {spec.outputs.at("Outputs")[i]}}},
                      .attrs = {{"padding_idx", attr_of<int64_t>(spec, "padding_idx")},
                                {"op_role", int32_t{op_role::kForward}}}};
        check_and_fill(op_table().get(lookup.type), lookup);
        add_here(std::move(lookup));
      }
    } else {
      if (remote) {  // the rows are here by then
        spec.attrs["epmap"] = spec.attrs["table_names"] = Strings();
        spec.attrs["height_sections"] = std::vector<int64_t>();
      }
      add_here(std::move(spec));
    }
  }
  end_receiving();
  return parts;
}

void TestTrainer::begin(std::shared_ptr<Program> program, const Feeds& feeds) {
  running_ = std::move(program);
  if (!parts_.contains(running_.get())) parts_[running_.get()] = parts_of(*running_);
  feeds_ = feeds;
  next_ = 0;
}
void TestTrainer::begin_startup() { begin(startup_, {}); }
void TestTrainer::begin_step(const Feeds& feeds) { begin(main_, feeds); }

void TestTrainer::post(const std::string& endpoint, Message message) {
  message.trainer = id_;
  servers_.at(endpoint)->inbox.push_back(std::move(message));
}

bool TestTrainer::advance() {
  const std::vector<Part>& parts = parts_.at(running_.get());
  for (; next_ < parts.size(); ++next_) {
    if (const auto* ops = std::get_if<std::vector<OpSpec>>(&parts[next_])) {
      const char* which = running_ == main_ ? "main " : "startup ";
      runner_.run(*running_, cat(which, next_), *ops, feeds_, scope_);
      continue;
    }
    const OpSpec& op = std::get<OpSpec>(parts[next_]);
    if (!asked_) ask(op);
    asked_ = true;
    const auto came = [](const Variable& answer) { return answer.kind() != Kind::none; };
    if (!std::ranges::all_of(answers_, came)) return false;
    take_answers(op);
    answers_.clear();
    asked_ = false;
  }
  return true;
}

void TestTrainer::ask_for(const Strings& endpoints, std::vector<Message> questions) {
  answers_.resize(questions.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    questions[i].reply = &answers_[i];
    post(endpoints[i], std::move(questions[i]));
  }
}

void TestTrainer::ask(const OpSpec& op) {
  const Strings epmap = attr_of<Strings>(op, "epmap");
  if (op.type == "send") {
    const Strings remote = attr_of<Strings>(op, "send_varnames");
    const auto sections = attr_of<std::vector<int64_t>>(op, "sections");
    const Strings& names = names_of(op.inputs, "X");
    const bool notifies = !attr_of<bool>(op, "use_send_handler", true);
    if (notifies) {
      for (const std::string& endpoint : epmap) {
        post(endpoint,
             {.kind = MessageKind::notify, .name = names[0], .value = copy_of(scope_, names[0])});
      }
    } else if (remote.empty()) {
      for (size_t i = 0; i < names.size(); ++i) {
        post(epmap[i], {.name = names[i], .value = copy_of(scope_, names[i])});
      }
    } else if (!sections.empty()) {  // else a note for this process's own background thread
      const Variable whole = copy_of(scope_, names[0]);
      int64_t begin = 0;
      for (size_t i = 0; i < remote.size(); ++i) {
        post(epmap[i], {.name = remote[i], .value = section(whole, begin, begin + sections[i])});
        begin += sections[i];
      }
    }
  } else if (op.type == "recv" || looks_up_remote_rows(op)) {
    const bool table = op.type != "recv";
    Strings names = attr_of<Strings>(op, table ? "table_names" : "recv_varnames");
    if (names.empty()) names = names_of(op.outputs, "Out");
    const Strings servers =
        op.type == "distributed_lookup_table" ? attr_of<Strings>(op, "endpoints") : epmap;
    std::vector<Message> questions;
    for (const std::string& name : names) {
      questions.push_back(
          {.kind = table ? MessageKind::read : MessageKind::get, .name = name, .value = {}});
    }
    ask_for(servers, std::move(questions));
  } else {
    const bool sends = op.type == "send_barrier";
    for (const std::string& endpoint : attr_of<Strings>(op, "endpoints")) {
      post(endpoint, {.kind = sends ? MessageKind::send_barrier : MessageKind::fetch_barrier,
                      .name = {},
                      .value = {}});
    }
  }
}

void TestTrainer::take_answers(const OpSpec& op) {
  if (answers_.empty()) return;
  const std::vector<Variable>& parts = answers_;
  const bool table = looks_up_remote_rows(op);
  if (table || !attr_of<Strings>(op, "recv_varnames").empty()) {
    const char* slot = op.type.starts_with("nce") ? "Weight" : "W";
    const std::string name = table ? op.inputs.at(slot).front() : op.outputs.at("Out").front();
    scope_.var(name).clear();
    scope_.var(name).tensor() = joined(parts);
    return;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    Variable& target = scope_.var(op.outputs.at("Out")[i]);
    target.clear();
    target.copy_from(parts[i]);
  }
}

void run_to_end(std::vector<std::unique_ptr<TestTrainer>>& trainers, TestServers& servers) {
  for (bool finished = false; !finished;) {
    finished = true;
    for (const auto& trainer : trainers) finished &= trainer->advance();
    bool handled = false;
    for (const auto& [endpoint, server] : servers) handled |= server->handle();
    if (!finished && !handled) throw InternalError("trainers and servers wait for each other");
  }
}

}  // namespace trireme::testing
