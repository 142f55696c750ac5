// Variables and the tree of scopes.
#include "core/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
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

// Whether the tree's memory epoch rises with `change`.
bool counts(const Scope& scope, const std::function<void()>& change) {
  const uint64_t before = scope.memory_epoch();
  change();
  return scope.memory_epoch() > before;
}

TEST(Scope, MemoryEpochRisesWhereMemoryIsReplaced) {
  Scope root;
  Variable& x = root.new_scope().var("x");
  const auto put = [&] { x.tensor().resize(DType::float32, {2}); };
  EXPECT_TRUE(counts(root, put));
  EXPECT_TRUE(counts(root, [&] { x.tensor().resize(DType::float32, {3}); }));
  EXPECT_TRUE(counts(root, [&] { x.tensor().resize(DType::float32, {2}); })) << "another shape";
  EXPECT_TRUE(counts(root, [&] { x.tensor().resize(DType::int32, {2}); })) << "another type";
  EXPECT_TRUE(counts(root, [&] { x.tensor() = make_tensor<float>({2}, {1, 2}); }));
  const Tensor shared = make_tensor<float>({2}, {1, 2});
  EXPECT_TRUE(counts(root, [&] { x.tensor() = shared; }));
  EXPECT_TRUE(counts(root, [&] { x.tensor().resize(DType::float32, {2}); })) << "it was shared";
  EXPECT_TRUE(counts(root, [&] { const Tensor taken = std::move(x.tensor()); }));
  put();
  Tensor other = shared;
  EXPECT_TRUE(counts(root, [&] { std::swap(x.tensor(), other); }));
  EXPECT_TRUE(counts(root, [&] { x.tensor().copy_from(make_tensor<float>({1}, {1})); }));
  Variable longer;
  longer.tensor() = make_tensor<float>({3}, {1, 2, 3});
  EXPECT_TRUE(counts(root, [&] { x.copy_from(longer); }));
  EXPECT_TRUE(counts(root, [&] { x = longer; }));
  EXPECT_TRUE(counts(root, [&] { const Variable taken = std::move(x); }));
  EXPECT_TRUE(counts(root, [&] { x = longer; }));
  EXPECT_TRUE(counts(root, [&] { x.clear(); }));
  EXPECT_TRUE(counts(root, put)) << "what comes after clear is watched, too";
  EXPECT_TRUE(counts(root, [&] { x.set_host(std::make_shared<WorkQueue>()); }));
  EXPECT_TRUE(counts(root, [&] { x = longer; }));
  EXPECT_TRUE(counts(root, put)) << "and after another kind";
}

TEST(Scope, MemoryEpochRisesWithSelectedRows) {
  Scope root;
  Variable& x = root.var("x");
  const SelectedRows some{.rows = {1, 2}, .height = 5, .value = Tensor(DType::float32, {2, 3})};
  EXPECT_TRUE(counts(root, [&] { x.rows() = some; }));
  EXPECT_TRUE(counts(root, [&] { x.rows().rows = RowNumbers{3, 4}; })) << "by a move";
  EXPECT_TRUE(counts(root, [&] { x.rows().rows.push_back(5); }));
  EXPECT_TRUE(counts(root, [&] { x.rows().value.resize(DType::float32, {3, 3}); }));
  EXPECT_FALSE(counts(root, [&] { x.rows().rows[0] = 1; }));
}

TEST(Scope, MemoryEpochRisesWithSlots) {
  Scope root;
  EXPECT_TRUE(counts(root, [&] { root.new_scope().var("x"); }));
  EXPECT_TRUE(counts(root, [&] { root.drop_kids(); }));
  root.var("y");
  EXPECT_TRUE(counts(root, [&] { root.erase({"y"}); }));
}

TEST(Scope, MemoryEpochStaysWhileMemoryDoes) {
  Scope root;
  Variable& x = root.var("x");
  x.tensor() = make_tensor<float>({2}, {1, 2});
  Variable equal;
  equal.tensor() = make_tensor<float>({2}, {3, 4});
  EXPECT_FALSE(counts(root, [&] { x.tensor().resize(DType::float32, {2}); }));
  EXPECT_FALSE(counts(root, [&] { x.tensor().copy_from(equal.tensor()); }));
  EXPECT_FALSE(counts(root, [&] { x.copy_from(equal); }));
  EXPECT_FALSE(counts(root, [&] { x.tensor().data<float>()[0] = 1; }));
  EXPECT_FALSE(counts(root, [&] { x.tensor().set_lod({{0, 2}}); }));
  EXPECT_FALSE(counts(root, [&] {
    Tensor view = x.tensor();  // copies are not watched
    view = view.slice_rows(0, 1);
    Variable copy = x;
    copy = equal;
    copy.clear();
  }));
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
