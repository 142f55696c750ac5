// What recurrent rows share: sequences laid out as steps of a shrinking batch, and activations.
#include "ops/recurrent/recurrent_rules.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"

namespace trireme {

Steps::Steps(std::vector<int64_t> offsets, bool reverse)
    : offsets_(std::move(offsets)), order_(offsets_.size() - 1), reverse_(reverse) {
  const auto length = [this](int64_t s) {
    return offsets_[static_cast<size_t>(s) + 1] - offsets_[static_cast<size_t>(s)];
  };
  std::iota(order_.begin(), order_.end(), int64_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int64_t a, int64_t b) { return length(a) > length(b); });
  int64_t running = sequences();
  for (int64_t step = 0;; ++step) {
    while (running > 0 && length(order_[static_cast<size_t>(running) - 1]) <= step) --running;
    if (running == 0) break;
    active_.push_back(running);
  }
}

std::vector<std::string> activation_names() { return {"sigmoid", "tanh", "relu", "identity"}; }

Activation activation_of(const std::string& name) {
  if (name == "sigmoid") return Activation::sigmoid;
  if (name == "tanh") return Activation::tanh;
  if (name == "relu") return Activation::relu;
  promise(name == "identity", "the row checks names of activations");
  return Activation::identity;
}

Activation activation_of(const OpView& op, int number) {
  if (number < 0 || number > 3) {
    throw op.error(cat("activation number ", number, " is unknown"))
        .fix("choose 0 (identity), 1 (sigmoid), 2 (tanh) or 3 (relu)");
  }
  return static_cast<Activation>(number);
}

}  // namespace trireme
