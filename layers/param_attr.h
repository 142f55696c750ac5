// What a user may say about a parameter: name, initial value, learning rate, decay.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trireme {

class Initializer;
class Regularizer;

struct ParamAttr {
  std::string name = {};  // empty: made by the layer (fc_0.w_0); equal names share one parameter
  std::shared_ptr<Initializer> initializer = nullptr;  // null: the layer's own choice
  float learning_rate = 1.0f;                          // times the optimizer's
  std::shared_ptr<Regularizer> regularizer = nullptr;  // wins over the optimizer's
  bool trainable = true;
  bool do_model_average = true;
  bool need_clip = true;
  // The parameter is length * direction: what is trained are <name>_v, and <name>_g, the lengths
  // along dimension norm_dim; without one there is one length for all of it.
  bool weight_norm = false;
  std::optional<int> norm_dim = {};
};

// A layer's attr argument: nothing, a ParamAttr, a name, an initializer, a regularizer, or false
// for "no such parameter".
class ParamArg {
 public:
  ParamArg() = default;
  ParamArg(ParamAttr attr) : attr_(std::move(attr)) {}
  ParamArg(const char* name) : ParamArg(ParamAttr{.name = name}) {}
  ParamArg(std::string name) : ParamArg(ParamAttr{.name = std::move(name)}) {}
  ParamArg(bool wanted) : wanted_(wanted) {}
  ParamArg(std::shared_ptr<Initializer> initializer)
      : ParamArg(ParamAttr{.initializer = std::move(initializer)}) {}
  ParamArg(std::shared_ptr<Regularizer> regularizer)
      : ParamArg(ParamAttr{.regularizer = std::move(regularizer)}) {}

  bool wanted() const { return wanted_; }
  const ParamAttr& attr() const { return attr_; }

 private:
  ParamAttr attr_;
  bool wanted_ = true;
};

// One for every input of a layer that has several (fc): one entry serves all.
class ParamArgs {
 public:
  ParamArgs() : list_(1) {}
  template <class T>
  requires std::is_convertible_v<T, ParamArg> ParamArgs(T&& one)
      : list_{ParamArg(std::forward<T>(one))} {}
  ParamArgs(std::vector<ParamArg> several) : list_(std::move(several)) {}

  const std::vector<ParamArg>& list() const { return list_; }

 private:
  std::vector<ParamArg> list_;
};

}  // namespace trireme
