// numpy arrays and tensors on the same memory, in both directions.
#include <pybind11/numpy.h>

#include <map>

#include "core/text.h"
#include "python/binding/binding.h"
#include "python/binding/without_gil.h"

namespace trireme::binding {
namespace {

// bfloat16 travels as uint16, as in the original.
const char* numpy_name(DType dtype) {
  return dtype == DType::bfloat16 ? "uint16" : name_of(dtype).data();
}

// One object for each type, made when it is first asked for.
py::dtype numpy_type(DType dtype) {
  static std::map<DType, PyObject*>& made = *new std::map<DType, PyObject*>;
  PyObject*& type = made[dtype];
  if (!type) type = py::dtype(numpy_name(dtype)).release().ptr();
  return py::reinterpret_borrow<py::dtype>(type);
}

// Sizes are asked of the Python object: numpy 2 moved them in the C structure that pybind11 reads.
std::optional<DType> dtype_of_array(const py::dtype& dtype) {
  const int size = dtype.attr("itemsize").cast<int>();
  switch (dtype.kind()) {
    case 'b':
      return DType::boolean;
    case 'f':
      if (size == 2) return DType::float16;
      if (size == 4) return DType::float32;
      if (size == 8) return DType::float64;
      return std::nullopt;
    case 'i':
      if (size == 1) return DType::int8;
      if (size == 2) return DType::int16;
      if (size == 4) return DType::int32;
      return DType::int64;
    case 'u':
      if (size == 1) return DType::uint8;
      if (size == 2) return DType::bfloat16;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// numpy has one object for each native type: most arrays are known by it, without a question.
std::optional<DType> usual_dtype(const py::dtype& dtype) {
  static const PyObject* const float32 = py::dtype::of<float>().release().ptr();
  static const PyObject* const int64 = py::dtype::of<int64_t>().release().ptr();
  if (dtype.ptr() == float32) return DType::float32;
  if (dtype.ptr() == int64) return DType::int64;
  return std::nullopt;
}

}  // namespace

py::object to_numpy(const Tensor& tensor) {
  if (!tensor.initialized()) {
    throw Error(ErrorKind::precondition, "the tensor holds no data yet")
        .fix("run the startup program, or set its value, before reading it");
  }
  if (!in_host_memory(tensor.place())) return to_numpy(tensor.to(cpu_place()));
  auto owner = py::capsule(new std::shared_ptr<Buffer>(tensor.buffer()),
                           [](void* kept) { delete static_cast<std::shared_ptr<Buffer>*>(kept); });
  const std::vector<int64_t> shape = tensor.shape().to_vector();
  std::vector<int64_t> strides(shape.size());
  auto step = static_cast<int64_t>(size_of(tensor.dtype()));
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return py::array(numpy_type(tensor.dtype()), shape, strides, tensor.address(), owner);
}

Tensor from_numpy(py::handle value) {
  py::array array = py::array::ensure(value);
  if (!array) {
    PyErr_Clear();
    throw Error(ErrorKind::type_mismatch,
                cat("a ", Py_TYPE(value.ptr())->tp_name, " cannot become a tensor"))
        .fix("pass a numpy array or a LoDTensor");
  }
  const py::dtype dtype = array.dtype();
  const std::optional<DType> usual = usual_dtype(dtype);
  const std::optional<DType> element = usual ? usual : dtype_of_array(dtype);
  if (!element) {
    throw Error(cat("numpy arrays of ", std::string(py::repr(dtype)), " cannot become tensors"))
        .fix(
            "convert the array with astype to bool, int8 to int64, uint8, float16, float32 or "
            "float64");
  }
  if (!usual && !dtype.attr("isnative").cast<bool>())
    array = array.attr("astype")(dtype.attr("newbyteorder")("="));
  if (!(array.flags() & py::array::c_style)) {
    array = py::module_::import("numpy").attr("ascontiguousarray")(array);
  }
  if (array.ndim() > kMaxRank) {
    throw Error(
        cat("the array has ", array.ndim(), " dimensions; at most ", kMaxRank, " are possible"));
  }
  const std::vector<int64_t> shape(array.shape(), array.shape() + array.ndim());
  void* data = const_cast<void*>(array.data());
  const Shape extents{std::span<const int64_t>(shape)};
  const size_t bytes = static_cast<size_t>(extents.count()) * size_of(*element);
  // The last tensor may let go on a thread that does not hold the GIL, or after Python has ended.
  PyObject* kept = array.release().ptr();
  auto buffer = Buffer::adopt(data, bytes, [kept] {
    if (const GilIfAny gil; gil) Py_DECREF(kept);
  });
  return Tensor(*element, extents, std::move(buffer));
}

}  // namespace trireme::binding
