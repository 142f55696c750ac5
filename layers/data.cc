// Data variables of the main program's global block.
#include "layers/data.h"

#include <algorithm>

#include "core/text.h"
#include "layers/layer_helper.h"

namespace trireme::layers {
namespace {

Var& make_data(std::string_view name, const std::vector<int64_t>& shape, const VarSpec& like) {
  if (name.empty()) {
    throw Error("a data variable needs a name")
        .in("data")
        .at(user_line())
        .fix("the name is what feed refers to");
  }
  VarSpec spec = like;
  spec.name = std::string(name);
  try {
    spec.shape = Shape(shape);
    spec.is_data = true;
    Var& var = default_main_program().global_block().create_var(spec);
    var.set_is_data(true);
    var.set_need_check_feed(spec.need_check_feed);
    var.set_stop_gradient(spec.stop_gradient);
    return var;
  } catch (Error& error) {
    error.in("data").at(user_line());
    throw;
  }
}

}  // namespace

Var& data(std::string_view name, const std::vector<int64_t>& shape, const DataOptions& options,
          SourceLine line) {
  const LineScope scope(line);
  std::vector<int64_t> dims = shape;
  const bool open = std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
  if (options.append_batch_size && !open) dims.insert(dims.begin(), -1);
  return make_data(name, dims,
                   {.type = options.type,
                    .dtype = options.dtype,
                    .lod_level = options.lod_level,
                    .stop_gradient = options.stop_gradient});
}

Var& checked_data(std::string_view name, const std::vector<int64_t>& shape,
                  const CheckedDataOptions& options, SourceLine line) {
  const LineScope scope(line);
  return make_data(name, shape,
                   {.dtype = options.dtype,
                    .lod_level = options.lod_level,
                    .stop_gradient = true,
                    .need_check_feed = true});
}

}  // namespace trireme::layers
