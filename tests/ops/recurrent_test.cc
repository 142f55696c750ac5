// lstm, gru and gru_unit against the same recurrences written row by row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/backward.h"
#include "ir/schema.h"
#include "tests/ops/small.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

using Row = std::vector<double>;

Row row_of(const Tensor& tensor, int64_t row) {
  const int64_t width = tensor.numel() / tensor.shape().at(0);
  const Row all = numbers(tensor);
  return Row(all.begin() + row * width, all.begin() + (row + 1) * width);
}

// The rows of every sequence in the order they are run.
std::vector<std::vector<int64_t>> order(const Lod& lod, bool reverse) {
  std::vector<std::vector<int64_t>> all;
  for (size_t s = 0; s + 1 < lod[0].size(); ++s) {
    std::vector<int64_t> rows;
    for (int64_t row = lod[0][s]; row < lod[0][s + 1]; ++row) rows.push_back(row);
    if (reverse) std::reverse(rows.begin(), rows.end());
    all.push_back(rows);
  }
  return all;
}

constexpr size_t kCells = 2;

struct Lstm {
  bool peephole = true, reverse = false;
  Tensor input, weight, bias, h0, c0;

  explicit Lstm(bool peephole, bool reverse) : peephole(peephole), reverse(reverse) {
    Draw draw(17);
    input = draw.uniform({6, 8});
    input.set_lod({{0, 3, 3, 4, 6}});
    weight = draw.uniform({2, 8});
    bias = draw.uniform({1, peephole ? 14 : 8});
    h0 = draw.uniform({4, 2});
    c0 = draw.uniform({4, 2});
  }
  Tensors run() const {
    return run_op({.type = "lstm",
                   .inputs = {{"Input", {input}},
                              {"Weight", {weight}},
                              {"Bias", {bias}},
                              {"H0", {h0}},
                              {"C0", {c0}}},
                   .attrs = {{"use_peepholes", peephole}, {"is_reverse", reverse}}});
  }
};

TEST(Lstm, IsTheRecurrenceRowByRow) {
  for (const bool peephole : {false, true}) {
    for (const bool reverse : {false, true}) {
      const Lstm lstm(peephole, reverse);
      const Tensors out = lstm.run();
      EXPECT_EQ(out.at("Hidden")[0].lod(), lstm.input.lod());
      EXPECT_EQ(out.at("Cell")[0].lod(), lstm.input.lod());
      const double* w = lstm.weight.data<double>();
      const double* b = lstm.bias.data<double>();
      int64_t sequence = 0;
      for (const auto& rows : order(lstm.input.lod(), reverse)) {
        Row h = row_of(lstm.h0, sequence), c = row_of(lstm.c0, sequence);
        ++sequence;
        for (const int64_t row : rows) {
          Row sum = row_of(lstm.input, row);
          for (size_t j = 0; j < 8; ++j) sum[j] += b[j] + h[0] * w[j] + h[1] * w[8 + j];
          for (size_t j = 0; j < kCells; ++j) {
            const double ic = peephole ? b[8 + j] : 0, fc = peephole ? b[10 + j] : 0;
            const double oc = peephole ? b[12 + j] : 0;
            const double i = sigmoid(sum[2 + j] + ic * c[j]);
            const double f = sigmoid(sum[4 + j] + fc * c[j]);
            c[j] = f * c[j] + i * std::tanh(sum[j]);
            h[j] = sigmoid(sum[6 + j] + oc * c[j]) * std::tanh(c[j]);
          }
          for (size_t j = 0; j < kCells; ++j) {
            EXPECT_NEAR(row_of(out.at("Hidden")[0], row)[j], h[j], 1e-12);
            EXPECT_NEAR(row_of(out.at("Cell")[0], row)[j], c[j], 1e-12);
          }
        }
      }
    }
  }
}

TEST(Lstm, WidthsThatDoNotFitAreErrors) {
  Lstm lstm(true, false);
  lstm.bias = doubles({1, 8}, Row(8, 0));
  std::string error = error_of([&] { lstm.run(); });
  EXPECT_NE(error.find("use_peepholes=True needs [1, 14]"), std::string::npos) << error;
  lstm = Lstm(true, false);
  lstm.h0 = doubles({3, 2}, Row(6, 0));
  error = error_of([&] { lstm.run(); });
  EXPECT_NE(error.find("H0 has shape [3, 2] but there are 4 sequences"), std::string::npos)
      << error;
}

// The original reads no gradient of Cell; a program that uses Cell must still learn through it.
TEST(Lstm, TheGradientReadsCellOnlyWhereCellIsUsed) {
  for (const bool uses_cell : {false, true}) {
    const auto program = Program::create();
    Block& block = program->global_block();
    block.create_var({.name = "x", .shape = {Dim(), 8}, .lod_level = 1, .is_data = true});
    block.create_parameter({.name = "w", .shape = {2, 8}}, {});
    block.create_parameter({.name = "b", .shape = {1, 8}}, {});
    for (const std::string name : {"h", "c", "gate", "pre", "loss"}) {
      block.create_var({.name = name, .has_shape = false});
    }
    block.append_op({.type = "lstm",
                     .inputs = {{"Input", {"x"}}, {"Weight", {"w"}}, {"Bias", {"b"}}},
                     .outputs = {{"Hidden", {"h"}},
                                 {"Cell", {"c"}},
                                 {"BatchGate", {"gate"}},
                                 {"BatchCellPreAct", {"pre"}}},
                     .attrs = {{"use_peepholes", false}}});
    block.append_op({.type = "mean",
                     .inputs = {{"X", {uses_cell ? "c" : "h"}}},
                     .outputs = {{"Out", {"loss"}}},
                     .attrs = {}});
    append_backward(block.var("loss"));
    bool found = false;
    for (const Op* op : block.ops()) {
      if (op->type() != "lstm_grad") continue;
      found = true;
      EXPECT_EQ(!op->input("Cell@GRAD").empty(), uses_cell);
    }
    EXPECT_TRUE(found);
  }
}

// The recurrence again, with the hidden state narrowed from 2 numbers to 1 between the steps.
TEST(Lstmp, ProjectsAndClipsBetweenSteps) {
  for (const float clip : {0.0f, 0.25f}) {
    const Lstm lstm(true, false);
    Draw draw(23);
    const Tensor weight = draw.uniform({1, 8}), projection = draw.uniform({2, 1});
    const Tensors out = run_op({.type = "lstmp",
                                .inputs = {{"Input", {lstm.input}},
                                           {"Weight", {weight}},
                                           {"ProjWeight", {projection}},
                                           {"Bias", {lstm.bias}}},
                                .attrs = {{"cell_clip", clip}, {"proj_clip", clip}}});
    const auto clipped = [&](double x) {
      return clip > 0 ? std::clamp<double>(x, -clip, clip) : x;
    };
    const double* b = lstm.bias.data<double>();
    for (const auto& rows : order(lstm.input.lod(), false)) {
      double r = 0;
      Row c(2), h(2);
      for (const int64_t row : rows) {
        Row sum = row_of(lstm.input, row);
        for (size_t j = 0; j < 8; ++j) sum[j] += b[j] + r * weight.data<double>()[j];
        for (size_t j = 0; j < kCells; ++j) {
          const double i = sigmoid(sum[2 + j] + b[8 + j] * c[j]);
          const double f = sigmoid(sum[4 + j] + b[10 + j] * c[j]);
          c[j] = clipped(f * c[j] + i * std::tanh(sum[j]));
          h[j] = sigmoid(sum[6 + j] + b[12 + j] * c[j]) * std::tanh(c[j]);
          EXPECT_NEAR(row_of(out.at("Cell")[0], row)[j], c[j], 1e-12);
        }
        const double* p = projection.data<double>();
        r = clipped(std::tanh(h[0] * p[0] + h[1] * p[1]));
        EXPECT_NEAR(row_of(out.at("Projection")[0], row)[0], r, 1e-12);
      }
    }
  }
}

TEST(Lstmp, AWeightAsWideAsTheHiddenStateIsAnError) {
  const Lstm lstm(true, false);
  const std::string error = error_of([&] {
    run_op({.type = "lstmp",
            .inputs = {{"Input", {lstm.input}},
                       {"Weight", {lstm.weight}},
                       {"ProjWeight", {doubles({2, 1}, {1, 2})}},
                       {"Bias", {lstm.bias}}}});
  });
  EXPECT_NE(error.find("D is 2 and P is 1"), std::string::npos) << error;
}

struct Gru {
  bool origin_mode = false, reverse = false;
  Tensor input, weight, bias, h0;

  Gru(bool origin_mode, bool reverse) : origin_mode(origin_mode), reverse(reverse) {
    Draw draw(19);
    input = draw.uniform({6, 6});
    input.set_lod({{0, 1, 4, 4, 6}});
    weight = draw.uniform({2, 6});
    bias = draw.uniform({1, 6});
    h0 = draw.uniform({4, 2});
  }
  // One step. The weight in memory is a 2 x 4 matrix for u and r, then a 2 x 2 matrix for c.
  Row step(Row x, const Row& h) const {
    const double* w = weight.data<double>();
    for (size_t j = 0; j < 6; ++j) x[j] += bias.data<double>()[j];
    Row u(2), reset(2), next(2);
    for (size_t j = 0; j < 2; ++j) {
      u[j] = sigmoid(x[j] + h[0] * w[j] + h[1] * w[4 + j]);
      reset[j] = sigmoid(x[2 + j] + h[0] * w[2 + j] + h[1] * w[6 + j]) * h[j];
    }
    for (size_t j = 0; j < 2; ++j) {
      const double c = std::tanh(x[4 + j] + reset[0] * w[8 + j] + reset[1] * w[10 + j]);
      next[j] = origin_mode ? u[j] * h[j] + (1 - u[j]) * c : u[j] * c + (1 - u[j]) * h[j];
    }
    return next;
  }
};

TEST(Gru, IsTheRecurrenceRowByRow) {
  for (const bool origin_mode : {false, true}) {
    for (const bool reverse : {false, true}) {
      const Gru gru(origin_mode, reverse);
      const Tensors out =
          run_op({.type = "gru",
                  .inputs = {{"Input", {gru.input}},
                             {"Weight", {gru.weight}},
                             {"Bias", {gru.bias}},
                             {"H0", {gru.h0}}},
                  .attrs = {{"origin_mode", origin_mode}, {"is_reverse", reverse}}});
      EXPECT_EQ(out.at("Hidden")[0].lod(), gru.input.lod());
      int64_t sequence = 0;
      for (const auto& rows : order(gru.input.lod(), reverse)) {
        Row h = row_of(gru.h0, sequence++);
        for (const int64_t row : rows) {
          h = gru.step(row_of(gru.input, row), h);
          for (size_t j = 0; j < kCells; ++j) {
            EXPECT_NEAR(row_of(out.at("Hidden")[0], row)[j], h[j], 1e-12);
          }
        }
      }
    }
  }
}

TEST(Gru, AnInputThatIsNotProjectedIsAnError) {
  const Gru gru(false, false);
  Tensor input = doubles({2, 2}, {1, 2, 3, 4});
  input.set_lod({{0, 2}});
  const std::string error = error_of([&] {
    run_op({.type = "gru", .inputs = {{"Input", {input}}, {"Weight", {gru.weight}}}});
  });
  EXPECT_NE(error.find("both need 6 columns"), std::string::npos) << error;
}

TEST(GruUnit, IsOneStep) {
  const Gru gru(true, false);
  const Tensors out = run_op({.type = "gru_unit",
                              .inputs = {{"Input", {gru.input.slice_rows(0, 4)}},
                                         {"HiddenPrev", {gru.h0}},
                                         {"Weight", {gru.weight}},
                                         {"Bias", {gru.bias}}},
                              .attrs = {{"origin_mode", true}}});
  for (int64_t row = 0; row < 4; ++row) {
    const Row h = gru.step(row_of(gru.input, row), row_of(gru.h0, row));
    for (size_t j = 0; j < kCells; ++j) {
      EXPECT_NEAR(row_of(out.at("Hidden")[0], row)[j], h[j], 1e-12);
    }
  }
  const std::string error = error_of([&] {
    run_op(
        {.type = "gru_unit",
         .inputs = {{"Input", {gru.input}}, {"HiddenPrev", {gru.h0}}, {"Weight", {gru.weight}}}});
  });
  EXPECT_NE(error.find("HiddenPrev has shape [4, 2]"), std::string::npos) << error;
}

// Rows or sequences that do not meet: all at once are as a few at a time, in groups too small to be
// cut. `batched`: operands with a row or a sequence for each; the others are weights.
struct Apart {
  std::string type;
  Tensors inputs;  // without a LoD, or with one level
  std::set<std::string> batched;
  std::vector<std::string> outputs, kept;  // of the op: compared, and read by its gradient
  std::vector<std::string> gradients;      // of its operands
  Attrs attrs = {};
};

constexpr int64_t kSequences = 70, kApartWidth = 40;

Lod many_sequences() {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < kSequences; ++i) lengths.push_back(i % 5);
  return lod_from_lengths({lengths});
}

// Sequences [begin, end), or rows where there is no LoD.
Tensor some_of(const Tensor& all, int64_t begin, int64_t end) {
  if (all.lod().empty()) return all.slice_rows(begin, end);
  const std::vector<int64_t>& offsets = all.lod()[0];
  const auto at = [&](int64_t i) { return offsets[static_cast<size_t>(i)]; };
  Tensor part = all.slice_rows(at(begin), at(end)).clone();
  std::vector<int64_t> own;
  for (int64_t i = begin; i <= end; ++i) own.push_back(at(i) - at(begin));
  part.set_lod({own});
  return part;
}

// By name: results of the op and gradients, [rows, ...] or summed.
std::map<std::string, Row> run_with_gradient(const Apart& given, const Tensors& inputs) {
  OpCall call{.type = given.type, .inputs = inputs, .attrs = given.attrs};
  call.cut = true;
  const Tensors out = run_op(call);
  std::map<std::string, Row> found;
  for (const std::string& name : given.kept) call.inputs[name] = out.at(name);
  for (const std::string& name : given.outputs) {
    const Tensor& result = out.at(name)[0];
    found[name] = numbers(result);
    Tensor arriving(DType::float64, result.shape());
    for (int64_t i = 0; i < arriving.numel(); ++i) {
      arriving.data<double>()[i] = 0.5 + 0.1 * result.data<double>()[i];
    }
    arriving.set_lod(result.lod());
    call.inputs[name + "@GRAD"] = {arriving};
  }
  call.type += "_grad";
  for (const std::string& name : given.gradients) call.outputs.push_back(name + "@GRAD");
  for (const auto& [name, tensors] : run_op(call)) found[name] = numbers(tensors[0]);
  return found;
}

void expect_apart(const Apart& given) {
  const std::map<std::string, Row> whole = run_with_gradient(given, given.inputs);
  std::map<std::string, Row> parts;
  constexpr int64_t kFew = 14;
  for (int64_t begin = 0; begin < kSequences; begin += kFew) {
    Tensors some = given.inputs;
    for (const std::string& name : given.batched) {
      some[name] = {some_of(given.inputs.at(name)[0], begin, begin + kFew)};
    }
    for (const auto& [name, values] : run_with_gradient(given, some)) {
      const bool weight =
          name.ends_with("@GRAD") && !given.batched.contains(name.substr(0, name.size() - 5));
      Row& all = parts[name];
      if (!weight || all.empty()) {
        all.insert(all.end(), values.begin(), values.end());
      } else {
        for (size_t i = 0; i < all.size(); ++i) all[i] += values[i];
      }
    }
  }
  ASSERT_EQ(whole.size(), parts.size());
  for (const auto& [name, values] : whole) {
    ASSERT_EQ(values.size(), parts[name].size()) << given.type << " " << name;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], parts[name][i], 1e-9) << given.type << " " << name << "[" << i << "]";
    }
  }
}

TEST(Recurrences, OfManySequencesAreThoseOfAFew) {
  Draw draw(29);
  const Lod lod = many_sequences();
  const int64_t rows = lod[0].back();
  const auto sequences = [&](int64_t columns) {
    Tensor made = draw.uniform({rows, columns});
    made.set_lod(lod);
    return made;
  };
  for (const bool reverse : {false, true}) {
    expect_apart({.type = "lstm",
                  .inputs = {{"Input", {sequences(4 * kApartWidth)}},
                             {"Weight", {draw.uniform({kApartWidth, 4 * kApartWidth})}},
                             {"Bias", {draw.uniform({1, 7 * kApartWidth})}},
                             {"H0", {draw.uniform({kSequences, kApartWidth})}},
                             {"C0", {draw.uniform({kSequences, kApartWidth})}}},
                  .batched = {"Input", "H0", "C0"},
                  .outputs = {"Hidden", "Cell"},
                  .kept = {"Hidden", "Cell", "BatchGate", "BatchCellPreAct"},
                  .gradients = {"Input", "Weight", "Bias", "H0", "C0"},
                  .attrs = {{"is_reverse", reverse}}});
    expect_apart({.type = "gru",
                  .inputs = {{"Input", {sequences(3 * kApartWidth)}},
                             {"Weight", {draw.uniform({kApartWidth, 3 * kApartWidth})}},
                             {"Bias", {draw.uniform({1, 3 * kApartWidth})}},
                             {"H0", {draw.uniform({kSequences, kApartWidth})}}},
                  .batched = {"Input", "H0"},
                  .outputs = {"Hidden"},
                  .kept = {"Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"},
                  .gradients = {"Input", "Weight", "Bias", "H0"},
                  .attrs = {{"is_reverse", reverse}}});
  }
  expect_apart({.type = "gru_unit",
                .inputs = {{"Input", {draw.uniform({kSequences, 3 * kApartWidth})}},
                           {"HiddenPrev", {draw.uniform({kSequences, kApartWidth})}},
                           {"Weight", {draw.uniform({kApartWidth, 3 * kApartWidth})}},
                           {"Bias", {draw.uniform({1, 3 * kApartWidth})}}},
                .batched = {"Input", "HiddenPrev"},
                .outputs = {"Hidden"},
                .kept = {"Gate", "ResetHiddenPrev"},
                .gradients = {"Input", "HiddenPrev", "Weight", "Bias"}});
}

// The same for what each row sees around itself: 140 rows are two parts.
TEST(SequenceConvOfManySequences, IsThatOfAFew) {
  Draw draw(31);
  for (const int start : {-2, 0}) {
    Tensor x = draw.uniform({many_sequences()[0].back(), kApartWidth});
    x.set_lod(many_sequences());
    expect_apart(
        {.type = "sequence_conv",
         .inputs = {{"X", {x}},
                    {"Filter", {draw.uniform({4 * kApartWidth, 5})}},
                    {"PaddingData", {draw.uniform({3, kApartWidth})}}},
         .batched = {"X"},
         .outputs = {"Out"},
         .kept = {},
         .gradients = {"X", "Filter", "PaddingData"},
         .attrs = {{"contextStart", start}, {"contextLength", 4}, {"paddingTrainable", true}}});
  }
}

// Gates stand as input, forget, output, candidate; those of one number each are easy to follow.
TEST(LstmUnit, IsOneStepOfAnLstm) {
  const Tensors out = run_op({.type = "lstm_unit",
                              .inputs = {{"X", {doubles({1, 4}, {0.5, -1, 2, 0.25})}},
                                         {"C_prev", {doubles({1, 1}, {0.75})}}},
                              .attrs = {{"forget_bias", 1.0f}}});
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double cell = sigmoid(0) * 0.75 + sigmoid(0.5) * std::tanh(0.25);
  EXPECT_NEAR(numbers(out.at("C")[0])[0], cell, 1e-12);
  EXPECT_NEAR(numbers(out.at("H")[0])[0], sigmoid(2) * std::tanh(cell), 1e-12);
}

}  // namespace
}  // namespace trireme::testing
