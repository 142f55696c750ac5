// A cluster in one process: trainers and parameter servers run their transpiled programs, and what
// send and recv carry goes through queues. Nobody waits: who cannot go on is asked again later.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/program.h"
#include "runtime/executor.h"

namespace trireme::testing {

struct Message {
  // get waits for the update of the step, read does not.
  enum class Kind { send, notify, get, read, send_barrier, fetch_barrier };
  Kind kind = Kind::send;
  std::string name;  // on the server
  Variable value;
  int trainer = 0;
  Variable* reply = nullptr;
};

// Ops of one program run one after another outside of it, with variables that outlive them.
class PartRunner {
 public:
  // `ops` instead of those of the program's global block; `block`: whose variables they use.
  void run(const Program& program, const std::string& key, const std::vector<OpSpec>& ops,
           const Feeds& feeds, Scope& scope, int block = 0);

 private:
  Executor executor_;
  std::map<std::string, std::shared_ptr<Program>> parts_;  // by key
};

class TestServer {
 public:
  TestServer(std::shared_ptr<Program> main, std::shared_ptr<Program> startup);

  void start();  // runs the startup program
  // Handles what has come as far as the protocol allows; whether anything was done.
  bool handle();
  void run_block(int index);
  Tensor value(const std::string& name) const;
  Scope& scope() { return scope_; }
  const Program& main() const { return *main_; }

  std::deque<Message> inbox;

 private:
  bool must_wait(const Message& message) const;
  void take(Message& message);
  void answer(Message& message);
  void end_of_phase();
  int block_of(const std::string& grad) const;

  enum class Phase { get, send };
  std::shared_ptr<Program> main_, startup_;
  const Op* serve_;
  bool sync_ = true;
  int fanin_ = 1;
  size_t round_ = 0;
  Phase phase_ = Phase::get;  // trainers get first values before anyone sends
  int sent_ = 0, fetched_ = 0;
  std::deque<Message> held_;
  Scope scope_;
  PartRunner runner_;
};

using TestServers = std::map<std::string, std::unique_ptr<TestServer>>;

class TestTrainer {
 public:
  TestTrainer(std::shared_ptr<Program> main, std::shared_ptr<Program> startup, int id,
              TestServers& servers);

  void begin_startup();
  void begin_step(const Feeds& feeds);
  // Runs as far as it can without an answer; whether it is at the end.
  bool advance();
  Tensor value(const std::string& name) const;
  Scope& scope() { return scope_; }

 private:
  // Ops that run here, or one that talks to servers.
  using Part = std::variant<std::vector<OpSpec>, OpSpec>;
  std::vector<Part> parts_of(const Program& program) const;
  void begin(std::shared_ptr<Program> program, const Feeds& feeds);
  void ask(const OpSpec& op);
  void take_answers(const OpSpec& op);
  void post(const std::string& endpoint, Message message);
  void ask_for(const std::vector<std::string>& endpoints, std::vector<Message> questions);

  std::shared_ptr<Program> main_, startup_;
  int id_;
  TestServers& servers_;
  Scope scope_;
  PartRunner runner_;

  std::shared_ptr<Program> running_;
  std::map<const Program*, std::vector<Part>> parts_;
  Feeds feeds_;
  size_t next_ = 0;  // part
  bool asked_ = false;
  std::vector<Variable> answers_;  // one for every question of the op that talks
};

// Lets everybody go on until all trainers are at the end. An InternalError when nobody can.
void run_to_end(std::vector<std::unique_ptr<TestTrainer>>& trainers, TestServers& servers);

}  // namespace trireme::testing
