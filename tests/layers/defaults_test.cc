// Default programs, name scopes, devices and roles.
#include "layers/defaults.h"

#include <gmock/gmock.h>

#include "tests/layers/build.h"

namespace trireme {
namespace {

TEST(ProgramGuard, RestoresWhenAnExceptionLeavesIt) {
  Program* const before = &default_main_program();
  try {
    const ProgramGuard guard(Program::create(), Program::create());
    EXPECT_NE(&default_main_program(), before);
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(&default_main_program(), before);
}

TEST(ProgramGuard, KeepsTheStartupProgramWhenNoneIsGiven) {
  Program* const startup = &default_startup_program();
  const ProgramGuard guard(Program::create());
  EXPECT_EQ(&default_startup_program(), startup);
}

TEST(NameScope, ChildrenAndSecondSiblings) {
  const FreshPrograms fresh;
  {
    const NameScope outer("fresh_outer");
    EXPECT_EQ(fresh.main->name_scope, "/fresh_outer/");
    {
      const NameScope inner("s2");
      EXPECT_EQ(fresh.main->name_scope, "/fresh_outer/s2/");
    }
    const NameScope again("s2");
    EXPECT_EQ(fresh.main->name_scope, "/fresh_outer/s2_1/");
    EXPECT_EQ(fresh.startup->name_scope, "/fresh_outer/s2_1/");
  }
  EXPECT_EQ(fresh.main->name_scope, "/");
  const NameScope sibling("fresh_outer");
  EXPECT_EQ(NameScope::current(), "/fresh_outer_1/");
}

TEST(NameScope, FollowsAProgramGuardInsideIt) {
  const NameScope scope("around");
  const auto program = Program::create();
  {
    const ProgramGuard guard(program);
    EXPECT_EQ(program->name_scope, NameScope::current());
  }
  EXPECT_EQ(program->name_scope, "/");
}

TEST(NameScope, EmptyPrefixIsRefused) {
  EXPECT_THAT(error_of([] { NameScope scope(""); }), ::testing::HasSubstr("prefix"));
}

TEST(DeviceGuard, MarksOpsAndRefusesUnknownDevices) {
  const FreshPrograms fresh;
  {
    const DeviceGuard guard("gpu:1");
    EXPECT_EQ(fresh.main->device, "gpu:1");
  }
  EXPECT_EQ(fresh.main->device, "");
  for (const char* wrong : {"tpu", "gpu:", "gpu:x", "cpu:0"}) {
    EXPECT_THAT(error_of([&] { DeviceGuard guard(wrong); }), ::testing::HasSubstr(wrong));
  }
}

TEST(RoleGuard, SetsRolesAndGivesThemBack) {
  const auto program = Program::create();
  {
    const RoleGuard guard = optimized_guard(*program, {"w", "w@GRAD"});
    EXPECT_EQ(program->role, op_role::kOptimize);
    EXPECT_THAT(program->role_vars, ::testing::ElementsAre("w", "w@GRAD"));
    {
      const RoleGuard schedule = lr_schedule_guard(*program, true);
      EXPECT_EQ(program->role, op_role::kLrSched | op_role::kOptimize);
      EXPECT_TRUE(program->role_vars.empty());
    }
    EXPECT_EQ(program->role, op_role::kOptimize);
  }
  EXPECT_EQ(program->role, op_role::kForward);
}

}  // namespace
}  // namespace trireme
