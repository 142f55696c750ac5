// Element and container types: the VarType enumeration, and everything that names an element type.
#include "core/text.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

// The numbers are the file format's.
constexpr std::pair<const char*, int> kWireTypes[] = {
    {"BOOL", 0},
    {"INT16", 1},
    {"INT32", 2},
    {"INT64", 3},
    {"FP16", 4},
    {"FP32", 5},
    {"FP64", 6},
    {"LOD_TENSOR", 7},
    {"SELECTED_ROWS", 8},
    {"FEED_MINIBATCH", 9},
    {"FETCH_LIST", 10},
    {"STEP_SCOPES", 11},
    {"LOD_RANK_TABLE", 12},
    {"LOD_TENSOR_ARRAY", 13},
    {"PLACE_LIST", 14},
    {"READER", 15},
    {"RAW", 17},
    {"TUPLE", 18},
    {"SIZE_T", 19},
    {"UINT8", 20},
    {"INT8", 21},
    {"BF16", 22},
    {"COMPLEX64", 23},
    {"COMPLEX128", 24},
    {"STRING", 25},
    {"STRINGS", 26},
    {"VOCAB", 27},
    {"FEED_LIST", 28},
    {"PSTRING", 29},
    {"SPARSE_COO", 30},
    {"SPARSE_CSR", 31},
};

// numpy.float32 (a type) and numpy.dtype("float32") both say what they are by `name` or `__name__`.
std::string spelling_of(py::handle value) {
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (PyType_Check(value.ptr())) return value.attr("__name__").cast<std::string>();
  if (py::hasattr(value, "name")) return py::str(value.attr("name"));
  return py::str(value);
}

std::string normal_spelling(std::string text) {
  for (const char* prefix : {"paddle.", "numpy.", "np."}) {
    const std::string_view front(prefix);
    if (text.compare(0, front.size(), front) == 0) text.erase(0, front.size());
  }
  if (text == "bool_" || text == "bool8") return "bool";
  if (text == "float") return "float32";
  if (text == "int") return "int64";
  return text;
}

}  // namespace

bool is_dtype_like(py::handle value) {
  if (py::isinstance<py::str>(value) || py::isinstance<WireType>(value)) return true;
  if (PyType_Check(value.ptr())) return true;
  return py::hasattr(value, "itemsize") && py::hasattr(value, "kind");
}

DType dtype_from_python(py::handle value) {
  if (py::isinstance<WireType>(value)) {
    const int number = static_cast<int>(value.cast<WireType>());
    if (const auto dtype = dtype_from_wire(number)) return *dtype;
    throw Error(cat(std::string(py::str(value)), " is not an element type"))
        .fix("use bool, int8 to int64, uint8, float16, bfloat16, float32 or float64");
  }
  const std::string text = spelling_of(value);
  if (const auto dtype = dtype_from_name(normal_spelling(text))) return *dtype;
  throw Error(cat("there is no element type ", text))
      .fix("use bool, int8 to int64, uint8, float16, bfloat16, float32 or float64");
}

void bind_types(py::module_& m) {
  py::enum_<WireType> types(m, "VarType");
  for (const auto& [name, number] : kWireTypes) types.value(name, static_cast<WireType>(number));
  m.def("dtype_name", [](DType dtype) { return std::string(name_of(dtype)); });
  m.def("to_dtype", [](DType dtype) { return dtype; });
  m.def("size_of_dtype", [](DType dtype) { return size_of(dtype); });
}

}  // namespace trireme::binding
