// What may be fed: names, ranks, extents, types and LoD, checked before anything runs.
#include "core/text.h"
#include "core/warning.h"
#include "runtime/executor.h"

namespace trireme {
namespace {

std::string both_sides(const Var& var, const Tensor& tensor) {
  return cat("declared ", name_of(var.dtype()), " ", var.shape().to_string(), ", fed ",
             tensor.describe());
}

bool convertible(DType from, DType to) {
  return (from == DType::int32 && to == DType::int64) ||
         (from == DType::float64 && to == DType::float32);
}

void check_shape(const Var& var, const Tensor& tensor) {
  const Shape& declared = var.shape();
  const Shape& fed = tensor.shape();
  const auto what = [&] {
    return cat("the fed value of ", var.name(), " has the wrong shape: ", both_sides(var, tensor));
  };
  // [4] is what many feed to [None, 1]: last dimensions of 1 may be left out, as in 1.8.
  bool short_of_ones = fed.rank() > 0 && fed.rank() < declared.rank();
  for (int i = fed.rank(); i < declared.rank(); ++i) {
    short_of_ones = short_of_ones && declared[i].known() && declared[i].value() == 1;
  }
  if (declared.rank() != fed.rank() && !short_of_ones) {
    throw Error(what()).fix(cat("feed an array of ", declared.rank(), " dimensions"));
  }
  // With LoD the first extent counts rows of all sequences together: it is free.
  for (int i = tensor.lod().empty() ? 0 : 1; i < fed.rank(); ++i) {
    if (!declared[i].may_equal(fed[i])) {
      throw Error(what()).fix(
          cat("dimension ", i, " must be ", declared[i], ", or declare it None"));
    }
  }
}

}  // namespace

Tensor checked_feed(const Var& var, Tensor tensor) {
  if (!tensor.initialized()) {
    throw Error(cat("the fed value of ", var.name(), " is a tensor that holds nothing"))
        .fix("set its data before feeding it");
  }
  if (!tensor.lod().empty()) {
    const std::string wrong =
        lod_problem(tensor.lod(), tensor.shape().rank() ? tensor.shape().at(0) : 1);
    if (!wrong.empty()) {
      throw Error(cat("the fed value of ", var.name(), " has an invalid LoD: ", wrong));
    }
  }
  if (tensor.dtype() != var.dtype()) {
    if (!convertible(tensor.dtype(), var.dtype())) {
      throw Error(
          cat("the fed value of ", var.name(), " has the wrong type: ", both_sides(var, tensor)))
          .fix(cat("feed array.astype('", name_of(var.dtype()), "')"));
    }
    warn_once(cat("feed of ", var.name(), ": ", name_of(tensor.dtype()), " is converted to ",
                  name_of(var.dtype()), "; feed that type to save the copy"));
    Lod lod = tensor.lod();
    tensor = cast(tensor, var.dtype());
    tensor.set_lod(std::move(lod));
  }
  if (var.need_check_feed()) check_shape(var, tensor);
  return tensor;
}

}  // namespace trireme
