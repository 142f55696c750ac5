// Variables and the tree of scopes.
#include "core/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/error.h"

namespace trireme {
namespace {

struct WorkQueue : HostObject {
  std::string describe() const override { return "a queue"; }
};
struct RankTable : HostObject {
  std::string describe() const override { return "a rank table"; }
};

TEST(Variable, EmptySlotBecomesWhatIsAskedFor) {
  Variable variable;
  EXPECT_EQ(variable.kind(), Kind::none);
  EXPECT_FALSE(variable.initialized());
  variable.tensor();
  EXPECT_EQ(variable.kind(), Kind::dense);
  EXPECT_FALSE(variable.initialized());
  variable.tensor().resize(DType::float32, {2, 3});
  EXPECT_TRUE(variable.initialized());
  EXPECT_EQ(variable.describe(), "float32 [2, 3]");
  variable.clear();
  EXPECT_EQ(variable.kind(), Kind::none);
}

TEST(Variable, AnotherKindIsAnError) {
  Variable variable;
  variable.rows().height = 10;
  try {
    variable.tensor();
    FAIL() << "selected rows were taken for a tensor";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("holds selected rows, not a tensor"));
  }
}

TEST(Variable, ReadingAnEmptySlotIsAnError) {
  const Variable variable;
  EXPECT_THROW(variable.tensor(), Error);
  EXPECT_THROW(variable.rows(), Error);
  EXPECT_THROW(variable.array(), Error);
}

TEST(Variable, ArraysHoldDataOnceTheyHaveAnElement) {
  Variable variable;
  variable.array();
  EXPECT_FALSE(variable.initialized());
  variable.array().emplace_back(DType::float32, Shape{1});
  EXPECT_TRUE(variable.initialized());
  EXPECT_EQ(variable.describe(), "array of 1 tensors");
}

TEST(Variable, HostObjectsAreFoundByType) {
  Variable variable;
  variable.set_host(std::make_shared<WorkQueue>());
  EXPECT_NE(variable.host<WorkQueue>(), nullptr);
  EXPECT_EQ(variable.host<RankTable>(), nullptr);
  EXPECT_TRUE(variable.initialized());
  EXPECT_EQ(variable.describe(), "a queue");
}

TEST(Scope, VarAsksNoParentButFindDoes) {
  Scope root;
  Variable& x = root.var("x");
  Scope& kid = root.new_scope();
  EXPECT_EQ(kid.find("x"), &x);
  EXPECT_EQ(kid.find_local("x"), nullptr);
  Variable& own = kid.var("x");
  EXPECT_NE(&own, &x);
  EXPECT_EQ(kid.find("x"), &own);
  EXPECT_EQ(root.find("x"), &x);
  EXPECT_EQ(root.find("y"), nullptr);
}

TEST(Scope, SlotsKeepTheirAddress) {
  Scope scope;
  Variable* first = &scope.var("v");
  for (int i = 0; i < 100; ++i) scope.var("v" + std::to_string(i));
  EXPECT_EQ(&scope.var("v"), first);
  EXPECT_EQ(scope.size(), 101u);
}

TEST(Scope, NamesAreSortedAndLocal) {
  Scope root;
  root.var("b");
  root.var("a");
  root.new_scope().var("c");
  EXPECT_EQ(root.names(), (std::vector<std::string>{"a", "b"}));
}

TEST(Scope, TreeKnowsItsRootAndParents) {
  Scope root;
  Scope& kid = root.new_scope();
  Scope& grandkid = kid.new_scope();
  EXPECT_EQ(grandkid.parent(), &kid);
  EXPECT_EQ(&grandkid.root(), &root);
  EXPECT_EQ(root.parent(), nullptr);
  EXPECT_EQ(&grandkid.run_lock(), &root.run_lock());
  grandkid.step() = 4;
  EXPECT_EQ(root.step(), 4u);
}

TEST(Scope, IdsAreNeverReused) {
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const auto scope = std::make_unique<Scope>();
    EXPECT_GT(scope->id(), last);
    last = scope->id();
  }
}

TEST(Scope, EpochRisesOnlyWhenSlotsComeOrGo) {
  Scope root;
  Scope& kid = root.new_scope();
  const uint64_t before = root.epoch();
  kid.var("x");
  EXPECT_GT(root.epoch(), before);

  const uint64_t steady = root.epoch();
  kid.var("x");
  kid.find("x");
  kid.var("x").tensor();
  root.erase({"absent"});
  EXPECT_EQ(root.epoch(), steady);

  kid.erase({"x"});
  EXPECT_GT(kid.epoch(), steady);
  const uint64_t erased = root.epoch();
  root.drop_kids();
  EXPECT_GT(root.epoch(), erased);
}

TEST(Scope, EraseTakesOnlyItsOwn) {
  Scope root;
  root.var("x");
  Scope& kid = root.new_scope();
  kid.var("x");
  kid.erase({"x"});
  EXPECT_EQ(kid.find_local("x"), nullptr);
  EXPECT_NE(kid.find("x"), nullptr);
}

TEST(Scope, DroppingKidsFreesTheirTensors) {
  Scope root;
  const size_t before = allocated_bytes();
  root.new_scope().var("x").tensor().resize(DType::float32, {1000});
  EXPECT_EQ(allocated_bytes(), before + 4000);
  root.drop_kids();
  EXPECT_EQ(allocated_bytes(), before);
}

TEST(Scope, ThreadsMakeEachSlotOnce) {
  Scope scope;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) scope.var("v" + std::to_string(i));
    });
  }
  threads.clear();
  EXPECT_EQ(scope.size(), 200u);
  EXPECT_EQ(scope.epoch(), 200u);
}

}  // namespace
}  // namespace trireme
