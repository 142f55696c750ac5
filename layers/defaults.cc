// Each thread's default programs, and the name scope and device that ops appended to them carry.
#include "layers/defaults.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <mutex>
#include <utility>

#include "core/first_thread.h"
#include "core/text.h"

namespace trireme {
namespace {

// A scope once left is never entered again (its next sibling has another name), so a stack is
// enough; only the open scopes need to know which names their children have used.
struct OpenScope {
  std::string path;
  std::map<std::string, int, std::less<>> used;
};

std::vector<OpenScope>& open_scopes() {
  thread_local std::vector<OpenScope> stack = {{"/", {}}};
  return stack;
}

std::string& current_device() {
  thread_local std::string device;
  return device;
}

struct FirstThread {
  std::mutex mutex;  // of its programs: other threads look at them
  Defaults defaults = {.main = Program::create(), .startup = Program::create()};
};
FirstThread& first_thread() {
  static FirstThread held;
  return held;
}

// Another thread's: its own programs, and the first thread's where it has switched none.
struct OtherThread {
  Defaults defaults;
  bool own_main = false, own_startup = false;
};
OtherThread& this_thread() {
  thread_local OtherThread held;
  return held;
}

void mark(Program& program) {
  program.name_scope = open_scopes().back().path;
  program.device = current_device();
}

void unmark(Program& program) {
  program.name_scope = "/";
  program.device.clear();
}

void mark_defaults() {
  mark(default_main_program());
  mark(default_startup_program());
}

using Held = std::shared_ptr<Program> Defaults::*;

// Programs of the first thread keep its marks, whoever looks at them.
std::shared_ptr<Program> switch_on_other_thread(Held which, bool& own,
                                                std::shared_ptr<Program> program) {
  std::shared_ptr<Program> before = defaults().*which;
  if (own) unmark(*before);
  {
    const std::lock_guard lock(first_thread().mutex);
    own = program != first_thread().defaults.*which;
  }
  if (own) mark(*program);
  this_thread().defaults.*which = std::move(program);
  return before;
}

std::shared_ptr<Program> switch_program(Held which, bool OtherThread::*own,
                                        std::shared_ptr<Program> program) {
  if (!program) throw Error(ErrorKind::type_mismatch, "a default program cannot be null");
  if (!on_first_thread()) {
    return switch_on_other_thread(which, this_thread().*own, std::move(program));
  }
  {
    const std::lock_guard lock(first_thread().mutex);
    (first_thread().defaults.*which).swap(program);
  }
  unmark(*program);
  mark_defaults();
  return program;
}

bool is_device(std::string_view device) {
  if (device.empty() || device == "cpu") return true;
  const size_t colon = device.find(':');
  const std::string_view kind = device.substr(0, colon);
  constexpr std::array<std::string_view, 4> kKinds = {"gpu", "npu", "xpu", "mlu"};
  if (std::find(kKinds.begin(), kKinds.end(), kind) == kKinds.end()) return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view number = device.substr(colon + 1);
  return number == "all" ||
         (!number.empty() && std::all_of(number.begin(), number.end(), [](char c) {
           return std::isdigit(static_cast<unsigned char>(c)) != 0;
         }));
}

}  // namespace

Defaults& defaults() {
  FirstThread& first = first_thread();
  if (on_first_thread()) return first.defaults;
  OtherThread& mine = this_thread();
  const std::lock_guard lock(first.mutex);
  if (!mine.own_main) mine.defaults.main = first.defaults.main;
  if (!mine.own_startup) mine.defaults.startup = first.defaults.startup;
  return mine.defaults;
}

Program& default_main_program() { return *defaults().main; }
Program& default_startup_program() { return *defaults().startup; }

std::shared_ptr<Program> switch_main_program(std::shared_ptr<Program> program) {
  return switch_program(&Defaults::main, &OtherThread::own_main, std::move(program));
}

std::shared_ptr<Program> switch_startup_program(std::shared_ptr<Program> program) {
  return switch_program(&Defaults::startup, &OtherThread::own_startup, std::move(program));
}

ProgramGuard::ProgramGuard(std::shared_ptr<Program> main, std::shared_ptr<Program> startup)
    : old_main_(switch_main_program(std::move(main))) {
  if (startup) old_startup_ = switch_startup_program(std::move(startup));
}

ProgramGuard::~ProgramGuard() {
  switch_main_program(std::move(old_main_));
  if (old_startup_) switch_startup_program(std::move(old_startup_));
}

NameScope::NameScope(std::string_view prefix, Program* program) {
  if (prefix.empty()) {
    throw Error(ErrorKind::assertion, "the prefix of a name scope is empty")
        .fix("name_scope needs a prefix such as \"encoder\"");
  }
  OpenScope& parent = open_scopes().back();
  const int times = parent.used[std::string(prefix)]++;
  const std::string name = times == 0 ? std::string(prefix) : cat(prefix, "_", times);
  open_scopes().push_back({cat(parent.path, name, "/"), {}});
  mark_defaults();
  if (program) {
    program_ = program->shared_from_this();
    old_program_scope_ = std::exchange(program_->name_scope, current());
  }
}

NameScope::~NameScope() {
  open_scopes().pop_back();
  if (program_) program_->name_scope = old_program_scope_;
  mark_defaults();
}

std::string NameScope::current() { return open_scopes().back().path; }

DeviceGuard::DeviceGuard(std::string_view device) : old_(current_device()) {
  if (!is_device(device)) {
    throw Error(cat("device_guard got \"", device, "\""))
        .fix("use \"cpu\", \"gpu\", \"gpu:N\", or an empty text for no device");
  }
  current_device() = device;
  mark_defaults();
}

DeviceGuard::~DeviceGuard() {
  current_device() = old_;
  mark_defaults();
}

std::string DeviceGuard::current() { return current_device(); }

RoleGuard::RoleGuard(Program& program, int role, std::vector<std::string> role_vars)
    : program_(program.shared_from_this()),
      old_role_(std::exchange(program.role, role)),
      old_role_vars_(std::exchange(program.role_vars, std::move(role_vars))) {}

RoleGuard::~RoleGuard() {
  program_->role = old_role_;
  program_->role_vars = std::move(old_role_vars_);
}

RoleGuard optimized_guard(Program& program, std::vector<std::string> param_and_grad) {
  return RoleGuard(program, op_role::kOptimize, std::move(param_and_grad));
}

RoleGuard lr_schedule_guard(Program& program, bool with_optimizer) {
  return RoleGuard(program,
                   with_optimizer ? op_role::kLrSched | op_role::kOptimize : op_role::kLrSched);
}

RoleGuard backward_role_guard(Program& program) { return RoleGuard(program, op_role::kBackward); }

}  // namespace trireme
