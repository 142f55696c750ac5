// Variables of a program: what they state, and that every change is an edit of the program.
#include "core/text.h"
#include "ir/program.h"

namespace trireme {

std::string_view name_of(VarType type) {
  switch (type) {
    case VarType::lod_tensor:
      return "LOD_TENSOR";
    case VarType::selected_rows:
      return "SELECTED_ROWS";
    case VarType::feed_minibatch:
      return "FEED_MINIBATCH";
    case VarType::fetch_list:
      return "FETCH_LIST";
    case VarType::step_scopes:
      return "STEP_SCOPES";
    case VarType::lod_rank_table:
      return "LOD_RANK_TABLE";
    case VarType::lod_tensor_array:
      return "LOD_TENSOR_ARRAY";
    case VarType::place_list:
      return "PLACE_LIST";
    case VarType::reader:
      return "READER";
    case VarType::raw:
      return "RAW";
    case VarType::tuple:
      return "TUPLE";
    case VarType::string:
      return "STRING";
    case VarType::strings:
      return "STRINGS";
    case VarType::vocab:
      return "VOCAB";
    case VarType::feed_list:
      return "FEED_LIST";
    case VarType::pstring:
      return "PSTRING";
    case VarType::sparse_coo:
      return "SPARSE_COO";
    case VarType::sparse_csr:
      return "SPARSE_CSR";
  }
  return "UNKNOWN";
}

void Var::set_type(VarType type) {
  spec_.type = type;
  block_->program().touch();
}

void Var::set_dtype(DType dtype) {
  spec_.dtype = dtype;
  block_->program().touch();
}

void Var::set_shape(const Shape& shape) {
  spec_.shape = shape;
  spec_.has_shape = true;
  block_->program().touch();
}

void Var::set_lod_level(int level) {
  spec_.lod_level = level;
  block_->program().touch();
}

void Var::set_persistable(bool on) {
  spec_.persistable = on;
  block_->program().touch();
}

void Var::set_stop_gradient(bool on) {
  spec_.stop_gradient = on;
  block_->program().touch();
}

void Var::set_is_data(bool on) {
  spec_.is_data = on;
  block_->program().touch();
}

void Var::set_need_check_feed(bool on) {
  spec_.need_check_feed = on;
  block_->program().touch();
}

ParameterInfo& Var::edit_parameter() {
  if (!parameter_) parameter_ = std::make_unique<ParameterInfo>();
  block_->program().touch();
  return *parameter_;
}

void Var::drop_parameter() {
  if (!parameter_) return;
  parameter_.reset();
  block_->program().touch();
}

std::string Var::describe() const {
  std::string kind;
  switch (type()) {
    case VarType::lod_tensor:
      break;
    case VarType::selected_rows:
      kind = "selected rows of ";
      break;
    case VarType::lod_tensor_array:
      kind = "array of ";
      break;
    default:
      return std::string(name_of(type()));
  }
  if (!has_shape()) return kind + "(shape and type not known yet)";
  return cat(kind, name_of(dtype()), " ", shape());
}

}  // namespace trireme
