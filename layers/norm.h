// Normalisation over groups and instances, and prelu: small layers with a parameter per channel.
#pragma once

#include <optional>
#include <string>

#include "layers/arguments.h"
#include "layers/param_attr.h"

namespace trireme::layers {

struct GroupNormOptions {
  int groups = 0;
  double epsilon = 1e-5;
  // As in the original there is no scale and no shift unless one is asked for.
  std::optional<ParamArg> param_attr = std::nullopt;
  std::optional<ParamArg> bias_attr = std::nullopt;
  std::string act = {};
  std::string data_layout = "NCHW";
  std::string name = {};
};
Var& group_norm(Var& input, const GroupNormOptions& options, SourceLine line = SourceLine::here());

struct InstanceNormOptions {
  double epsilon = 1e-5;
  ParamArg param_attr = {};  // false, together with bias_attr: neither scale nor shift
  ParamArg bias_attr = {};
  std::string name = {};
};
Var& instance_norm(Var& input, const InstanceNormOptions& options = {},
                   SourceLine line = SourceLine::here());

struct PreluOptions {
  std::string mode = "all";  // one slope for all, per channel, or per element of a sample
  ParamArg param_attr = {};  // default Constant(0.25)
  std::string name = {};
};
Var& prelu(Var& x, const PreluOptions& options, SourceLine line = SourceLine::here());

struct SpectralNormOptions {
  int dim = 0;  // whose slices are the rows of the matrix
  int power_iters = 1;
  double eps = 1e-12;
  std::string name = {};
};
// `weight` divided by its largest singular value; the vectors it is found from are parameters that
// no gradient reaches.
Var& spectral_norm(Var& weight, const SpectralNormOptions& options = {},
                   SourceLine line = SourceLine::here());

}  // namespace trireme::layers
