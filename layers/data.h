// Data variables: what a program is fed with.
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"
#include "layers/defaults.h"

namespace trireme::layers {

struct DataOptions {
  bool append_batch_size = true;  // puts -1 in front, unless a dimension is unknown already
  DType dtype = DType::float32;
  int lod_level = 0;
  VarType type = VarType::lod_tensor;
  bool stop_gradient = true;
};
// fluid.layers.data. What is fed is not checked against the shape.
Var& data(std::string_view name, const std::vector<int64_t>& shape, const DataOptions& options = {},
          SourceLine line = SourceLine::here());

struct CheckedDataOptions {
  DType dtype = defaults().dtype;
  int lod_level = 0;
};
// fluid.data and static.data: the shape as given (-1 unknown), checked when fed.
Var& checked_data(std::string_view name, const std::vector<int64_t>& shape,
                  const CheckedDataOptions& options = {}, SourceLine line = SourceLine::here());

}  // namespace trireme::layers
