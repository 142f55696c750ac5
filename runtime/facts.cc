// Takes type, shape and LoD off variables, and compares them.
#include "runtime/facts.h"

namespace trireme {

void take_facts(const Variable& variable, ValueInfo& info) {
  switch (variable.kind()) {
    case Kind::dense: {
      const Tensor& tensor = variable.tensor();
      info.type = VarType::lod_tensor;
      info.dtype = tensor.dtype();
      info.shape = tensor.shape();
      info.lod = tensor.lod();
      info.lod_level = static_cast<int>(tensor.lod().size());
      break;
    }
    case Kind::rows:
      info.type = VarType::selected_rows;
      info.dtype = variable.rows().value.dtype();
      info.shape = variable.rows().value.shape();
      info.height = variable.rows().height;
      break;
    case Kind::array:
      info.type = VarType::lod_tensor_array;
      break;
    case Kind::none:
    case Kind::host:
      break;
  }
}

bool same_facts(const Variable& variable, const ValueInfo& info) {
  switch (variable.kind()) {
    case Kind::dense:
      return info.type == VarType::lod_tensor && variable.tensor().dtype() == info.dtype &&
             variable.tensor().shape() == info.shape && variable.tensor().lod() == info.lod;
    case Kind::rows:
      return info.type == VarType::selected_rows && variable.rows().value.dtype() == info.dtype &&
             variable.rows().value.shape() == info.shape && variable.rows().height == info.height;
    default:
      return true;
  }
}

bool same_facts(const ValueInfo& a, const ValueInfo& b) {
  if (a.type != b.type) return false;
  return a.type == VarType::lod_tensor_array ||
         (a.dtype == b.dtype && a.shape == b.shape && a.lod == b.lod && a.height == b.height);
}

size_t byte_count(const ValueInfo& info) {
  return info.shape.known() ? static_cast<size_t>(info.shape.count()) * size_of(info.dtype) : 0;
}

}  // namespace trireme
