// Tests that the op table generates: every row with samples is run on fresh random operands.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/op_runner.h"
#include "tests/support/seed.h"

namespace trireme::testing {
namespace {

constexpr int kDraws = 3;  // fresh operands per sample rule

template <class Check>
void for_each_sample(Check check) {
  const uint64_t seed = test_seed();
  for (const OpSchema* row : op_table().rows()) {
    uint64_t rule_index = 0;
    for (const SampleRule& rule : row->samples()) {
      for (int i = 0; i < kDraws; ++i) {
        Draw draw(seed * 1000 + rule_index * 10 + static_cast<uint64_t>(i));
        const OpSample sample = rule(draw);
        OpCall call{.type = row->type(),
                    .inputs = sample.inputs,
                    .attrs = sample.attrs,
                    .out_counts = sample.out_counts};
        SCOPED_TRACE(cat(row->type(), " sample ", rule_index, " draw ", i, " seed ", seed));
        try {
          check(*row, call);
        } catch (const std::exception& e) {
          ADD_FAILURE() << e.what();
        }
      }
      ++rule_index;
    }
  }
}

std::string describe(const OpCall& call) {
  std::string text;
  for (const auto& [slot, tensors] : call.inputs) {
    for (const Tensor& tensor : tensors) text += cat(" ", slot, "=", tensor.describe());
  }
  for (const auto& [name, value] : call.attrs) text += cat(" ", name, "=", to_string(value));
  return text;
}

TEST(OpTable, EveryDifferentiableOpMatchesFiniteDifferences) {
  std::map<std::string, int> shapes;
  int64_t elements = 0;
  for_each_sample([&](const OpSchema& row, const OpCall& call) {
    if (!row.differentiable()) return;
    const GradCheck check = check_grad(call);
    EXPECT_LE(check.worst, row.grad_tolerance()) << check.where << describe(call);
    ++shapes[row.type()];
    elements += check.elements;
  });
  int total = 0;
  for (const auto& [type, count] : shapes) total += count;
  std::printf("gradients: %zu ops, %d draws, %lld elements checked\n", shapes.size(), total,
              static_cast<long long>(elements));
}

// These take more than tensors (arrays, rank tables, sub-blocks): tests/layers compares whole
// programs of them with differences.
const std::set<std::string> kInPrograms = {"array_to_lod_tensor",
                                           "conditional_block",
                                           "lod_tensor_to_array",
                                           "merge_lod_tensor",
                                           "read_from_array",
                                           "recurrent",
                                           "select_input",
                                           "shrink_rnn_memory",
                                           "reorder_lod_tensor_by_rank",
                                           "split_lod_tensor",
                                           "while",
                                           "write_to_array",
                                           "tensor_array_to_tensor"};

TEST(OpTable, EveryDifferentiableOpHasASample) {
  std::vector<std::string> without;
  for (const OpSchema* row : op_table().rows()) {
    if (!row->differentiable() || row->forward()) continue;
    const bool in_programs = kInPrograms.contains(row->type());
    if (row->samples().empty() != in_programs) without.push_back(row->type());
  }
  EXPECT_TRUE(without.empty()) << join(without);
}

// What samples of one op hold, over all of its draws.
struct Drawn {
  bool lod = false, two_levels = false, empty_sequence = false, sparse = false;
};

Drawn drawn_by(const OpSchema& row) {
  Drawn drawn;
  for (const SampleRule& rule : row.samples()) {
    for (uint64_t i = 0; i < 20; ++i) {
      Draw draw(i + 1);
      const OpSample sample = rule(draw);
      const auto sparse = sample.attrs.find("is_sparse");
      drawn.sparse |= sparse != sample.attrs.end() && attr_as<bool>(sparse->second, "is_sparse");
      for (const auto& [slot, tensors] : sample.inputs) {
        for (const Tensor& tensor : tensors) {
          drawn.lod |= !tensor.lod().empty();
          drawn.two_levels |= tensor.lod().size() == 2;
          for (const auto& level : tensor.lod()) {
            drawn.empty_sequence |= std::adjacent_find(level.begin(), level.end()) != level.end();
          }
        }
      }
    }
  }
  return drawn;
}

TEST(OpTable, SamplesHoldSequencesEmptyOnesAndSparseGradients) {
  std::vector<std::string> lod, two_levels, empty, full, sparse;
  for (const OpSchema* row : op_table().rows()) {
    if (!row->differentiable() || row->forward()) continue;
    const Drawn drawn = drawn_by(*row);
    if (drawn.lod) lod.push_back(row->type());
    if (drawn.two_levels) two_levels.push_back(row->type());
    if (drawn.lod) (drawn.empty_sequence ? empty : full).push_back(row->type());
    if (row->sparse_grad_slot().empty()) continue;
    EXPECT_TRUE(drawn.sparse) << row->type() << " has no sample with a sparse gradient";
    sparse.push_back(row->type());
  }
  std::printf("samples with LoD: %zu ops, two levels: %zu, empty sequences: %zu (not: %s)\n",
              lod.size(), two_levels.size(), empty.size(), join(full).c_str());
  std::printf("samples with SelectedRows gradients: %s\n", join(sparse).c_str());
  EXPECT_THAT(two_levels, ::testing::SizeIs(::testing::Ge(5)));
}

TEST(OpTable, AWiderToleranceHasAReason) {
  for (const OpSchema* row : op_table().rows()) {
    if (row->grad_tolerance() > 1e-6) {
      EXPECT_FALSE(row->tolerance_reason().empty()) << row->type();
      std::printf("%s: %g because %s\n", row->type().c_str(), row->grad_tolerance(),
                  row->tolerance_reason().c_str());
    }
  }
}

TEST(OpTable, PartsGiveTheSameBits) {
  int runs = 0;
  for_each_sample([&](const OpSchema&, const OpCall& call) {
    const Tensors whole = run_op(call);
    OpCall cut = call;
    cut.cut = true;
    const Tensors parts = run_op(cut);
    for (const auto& [slot, tensors] : whole) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor &a = tensors[i], &b = parts.at(slot)[i];
        ASSERT_EQ(a.initialized(), b.initialized());
        if (!a.initialized()) continue;
        ASSERT_EQ(a.byte_size(), b.byte_size()) << slot << describe(call);
        EXPECT_EQ(std::memcmp(a.address(), b.address(), a.byte_size()), 0)
            << slot << describe(call);
      }
    }
    ++runs;
  });
  std::printf("parts: %d runs compared\n", runs);
}

TEST(OpTable, Float32AgreesWithFloat64) {
  std::map<std::string, int> ops;
  for_each_sample([&](const OpSchema& row, const OpCall& call) {
    OpCall single = call;
    bool any = false;
    for (auto& [slot, tensors] : single.inputs) {
      for (Tensor& tensor : tensors) {
        if (tensor.dtype() != DType::float64) continue;
        Lod lod = tensor.lod();
        tensor = cast(tensor, DType::float32);
        tensor.set_lod(lod);
        any = true;
      }
    }
    if (!any) return;
    const Tensors wide = run_op(call), narrow = run_op(single);
    for (const SlotSpec& slot : row.outputs()) {
      if (!wide.contains(slot.name) || slot.intermediate) continue;
      for (size_t i = 0; i < wide.at(slot.name).size(); ++i) {
        const Tensor &a = wide.at(slot.name)[i], &b = narrow.at(slot.name)[i];
        if (!a.initialized() || a.dtype() != DType::float64 || b.dtype() != DType::float32)
          continue;
        double scale = 1;
        for (int64_t k = 0; k < a.numel(); ++k)
          scale = std::max(scale, std::fabs(a.data<double>()[k]));
        EXPECT_LE(max_abs_diff(a, b) / scale, 2e-5) << slot.name << describe(call);
      }
    }
    ++ops[row.type()];
  });
  std::printf("float32 against float64: %zu ops\n", ops.size());
}

TEST(OpTable, ShapesAtAppendAreThoseOfTheRun) {
  int compared = 0;
  for_each_sample([&](const OpSchema& row, const OpCall& call) {
    if (row.trait().no_inference) return;  // its outputs are declared, not inferred
    const Tensors run = run_op(call);
    for (bool hide_batch : {false, true}) {
      for (const auto& [slot, shape] : appended_shapes(call, hide_batch)) {
        if (!run.at(slot).front().initialized()) continue;
        const Shape& real = run.at(slot).front().shape();
        EXPECT_TRUE(shape.may_equal(real))
            << slot << ": appended " << shape << ", run " << real << describe(call);
        ++compared;
      }
    }
  });
  std::printf("shapes: %d compared\n", compared);
}

}  // namespace
}  // namespace trireme::testing
