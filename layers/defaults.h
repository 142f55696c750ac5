// What layer functions build into when nobody says otherwise: the default programs and their
// guards.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "ir/program.h"

namespace trireme {

// Whose habits the ops follow where paddle.fluid 1.8 and paddle.static 2.4 differ: 1.8 puts each
// initializer in front of the startup program, 2.4 at its end; some layers append other ops.
enum class Style { fluid_1_8, static_2_4 };

// The process's belong to the thread that asked first. Another thread has the same until it
// switches something, and from then on its own: threads that build under guards do not meet.
struct Defaults {
  std::shared_ptr<Program> main;
  std::shared_ptr<Program> startup;
  Style style = Style::fluid_1_8;
  DType dtype =
      DType::float32;  // paddle.set_default_dtype: static.data and create_parameter read it
};
Defaults& defaults();

Program& default_main_program();
Program& default_startup_program();
// Both return the previous program. A program that comes in takes over name scope and device.
std::shared_ptr<Program> switch_main_program(std::shared_ptr<Program> program);
std::shared_ptr<Program> switch_startup_program(std::shared_ptr<Program> program);

// While it lives these are the default programs. A null startup keeps the current one.
class ProgramGuard {
 public:
  explicit ProgramGuard(std::shared_ptr<Program> main, std::shared_ptr<Program> startup = nullptr);
  ~ProgramGuard();
  ProgramGuard(const ProgramGuard&) = delete;
  ProgramGuard& operator=(const ProgramGuard&) = delete;

 private:
  std::shared_ptr<Program> old_main_;
  std::shared_ptr<Program> old_startup_;
};

// Ops appended while it lives carry op_namescope `/outer/prefix/`. The second sibling of one prefix
// is prefix_1, as long as the process lives. `program`: one more program to mark, where the ops go
// to another than the default ones.
class NameScope {
 public:
  explicit NameScope(std::string_view prefix, Program* program = nullptr);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

  static std::string current();  // "/" at the top

 private:
  std::shared_ptr<Program> program_;
  std::string old_program_scope_;
};

// Ops appended while it lives carry op_device: "cpu", "gpu", "gpu:N", "npu", ... or "".
class DeviceGuard {
 public:
  explicit DeviceGuard(std::string_view device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  static std::string current();

 private:
  std::string old_;
};

// Ops appended to `program` while it lives carry this role and these role variables.
class RoleGuard {
 public:
  RoleGuard(Program& program, int role, std::vector<std::string> role_vars = {});
  ~RoleGuard();
  RoleGuard(const RoleGuard&) = delete;
  RoleGuard& operator=(const RoleGuard&) = delete;

 private:
  std::shared_ptr<Program> program_;
  int old_role_;
  std::vector<std::string> old_role_vars_;
};
[[nodiscard]] RoleGuard optimized_guard(Program& program, std::vector<std::string> param_and_grad);
[[nodiscard]] RoleGuard lr_schedule_guard(Program& program, bool with_optimizer = false);
[[nodiscard]] RoleGuard backward_role_guard(Program& program);

class StyleGuard {
 public:
  explicit StyleGuard(Style style) : old_(defaults().style) { defaults().style = style; }
  ~StyleGuard() { defaults().style = old_; }
  StyleGuard(const StyleGuard&) = delete;
  StyleGuard& operator=(const StyleGuard&) = delete;

 private:
  Style old_;
};

}  // namespace trireme
