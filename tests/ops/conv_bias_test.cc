// conv2d with the bias and the relu that it takes over, against the three ops apart.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/unique_name.h"
#include "layers/layers.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

struct BiasedConv {
  int64_t batch = 1, channels = 16, side = 9;
  layers::Conv2dOptions options;
};

std::string text_of(const BiasedConv& c, bool blocks) {
  return cat("batch ", c.batch, ", ", c.channels, " channels to ", c.options.num_filters, ", side ",
             c.side, ", groups ", c.options.groups.value_or(1), ", act \"", c.options.act, "\"",
             blocks ? ", blocks" : "");
}

// The map behind bias and activation, run as one op or as three.
class BiasedNet {
 public:
  explicit BiasedNet(const BiasedConv& conv) : conv_(conv) {
    const UniqueNameGuard names;
    const ProgramGuard guard(main_, startup_);
    startup_->set_seed(3);
    Var& x = layers::data("x", {conv.channels, conv.side, conv.side});
    out_ = layers::conv2d(x, conv.options).name();
  }
  Tensor run(bool fused, bool blocks, const Tensor& x, const Tensor& bias) const {
    Scope scope;
    Executor executor;
    executor.run(*startup_, {}, {}, {.scope = &scope});
    scope.find("conv2d_0.b_0")->tensor() = bias;
    RunOptions options{.scope = &scope, .threads = 2};
    if (!fused) options.passes_off.push_back("fuse_conv_bias");
    if (!blocks) options.passes_off.push_back("assign_layout");
    return executor.run(*main_, {{"x", x}}, {out_}, options)[0].tensor();
  }

 private:
  BiasedConv conv_;
  std::shared_ptr<Program> main_ = Program::create(), startup_ = Program::create();
  std::string out_;
};

// Some of the numbers become those that sums and relu treat in ways of their own.
void put_oddities(Draw& draw, Tensor& x) {
  const float odd[] = {NAN,      -NAN,      -0.f,
                       INFINITY, -INFINITY, std::numeric_limits<float>::denorm_min()};
  for (int64_t i = draw.size(0, 20); i < x.numel(); i += draw.size(1, 40)) {
    x.data<float>()[i] = odd[draw.size(0, 5)];
  }
}

// Never in both: which of two NaNs a sum is has no rule, and two loops may differ.
enum class Odd { none, image, bias };

TEST(ConvBias, NoBitTellsThatItWasTakenOver) {
  Draw draw(11);
  for (int round = 0; round < 36; ++round) {
    BiasedConv c{.batch = draw.size(1, 5), .side = draw.size(7, 12)};
    c.options = {.filter_size = static_cast<int>(2 * draw.size(0, 2) + 1),
                 .stride = static_cast<int>(draw.size(1, 2)),
                 .padding = static_cast<int>(draw.size(0, 1))};
    int64_t maps = 0;
    switch (round % 6) {
      case 0:  // blocks of 16
        c.channels = 16 * draw.size(15, 18), maps = 16 * draw.size(1, 3);
        c.options.filter_size = 3;
        break;
      case 1:  // channels last
        c.channels = draw.size(17, 60), maps = draw.size(5, 60);
        break;
      case 2:  // few channels
        c.channels = draw.size(1, 4), maps = draw.size(5, 60);
        break;
      case 3:
        c.options.groups = static_cast<int>(draw.size(2, 3));
        c.channels = *c.options.groups * draw.size(1, 40);
        maps = *c.options.groups * draw.size(1, 20);
        break;
      case 4:
        c.options.filter_size = 3, c.options.dilation = 2;
        c.channels = draw.size(0, 1) ? 240 : 30, maps = draw.size(0, 1) ? 32 : 30;
        break;
      default:  // Winograd's
        c.batch = 5, c.side = 12, c.channels = 64, maps = 64;
        c.options.filter_size = 3, c.options.stride = 1;
    }
    c.options.num_filters = static_cast<int>(maps);
    for (const char* act : {"", "relu"}) {
      c.options.act = act;
      const BiasedNet net(c);
      for (const Odd odd : {Odd::none, Odd::image, Odd::bias}) {
        Tensor x = cast(draw.uniform({c.batch, c.channels, c.side, c.side}), DType::float32);
        Tensor bias = cast(draw.uniform({maps}), DType::float32);
        if (odd == Odd::image) put_oddities(draw, x);
        if (odd == Odd::bias) put_oddities(draw, bias);
        for (const bool blocks : {true, false}) {
          const Tensor whole = net.run(true, blocks, x, bias),
                       apart = net.run(false, blocks, x, bias);
          ASSERT_EQ(whole.byte_size(), apart.byte_size());
          EXPECT_EQ(std::memcmp(whole.address(), apart.address(), whole.byte_size()), 0)
              << text_of(c, blocks) << ", odd numbers: " << static_cast<int>(odd);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::testing
