// LoDTensor, SelectedRows and LoDTensorArray as Python sees them.
#include "core/tensor.h"

#include <pybind11/numpy.h>

#include "core/text.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

int64_t rows_of(const Tensor& tensor) { return tensor.shape().rank() ? tensor.shape().at(0) : 0; }

void check_lod(const Tensor& tensor, const Lod& lod) {
  const std::string problem = lod_problem(lod, tensor.initialized() ? rows_of(tensor) : 0);
  if (!lod.empty() && !problem.empty()) {
    throw Error(cat("the LoD ", to_string(lod), " is not valid: ", problem));
  }
}

// None: the place that the tensor has.
Place place_or(const py::object& given, const Place& otherwise) {
  if (given.is_none()) return otherwise;
  if (py::isinstance<Place>(given)) return given.cast<const Place&>();
  throw Error(ErrorKind::type_mismatch,
              cat("place is a ", Py_TYPE(given.ptr())->tp_name, ", not a place"))
      .fix("give CPUPlace(), CUDAPlace(n) or CUDAPinnedPlace()");
}

void set_from_array(Tensor& tensor, py::handle array, const Place& place, bool zero_copy) {
  Tensor given = from_numpy(array);
  if (zero_copy && place != cpu_place()) {
    throw Error(cat("a tensor on ", to_string(place), " cannot share memory with a numpy array"))
        .fix("leave out zero_copy, or set it on CPUPlace()");
  }
  if (zero_copy) {
    given.set_lod(tensor.lod());
    tensor = std::move(given);
    return;
  }
  if (!tensor.initialized() || tensor.dtype() != given.dtype() ||
      !(tensor.shape() == given.shape()) || tensor.place() != place) {
    tensor.resize(given.dtype(), given.shape(), place);
  }
  copy_contents(given, tensor);
}

// numpy 1 passes no `copy`; numpy 2 passes None (if needed), True or False (never).
py::object as_array(const Tensor& tensor, const py::object& dtype, const py::object& copy) {
  py::object array = to_numpy(tensor);
  const bool other =
      !dtype.is_none() && !py::object(array.attr("dtype")).equal(py::dtype::from_args(dtype));
  const bool no_copy = !copy.is_none() && !copy.cast<bool>();
  if (other && no_copy) {
    throw Error(cat("a view of ", tensor.describe(), " cannot have another element type"))
        .fix("leave out copy=False");
  }
  if (no_copy && !in_host_memory(tensor.place())) {
    throw Error(cat("numpy cannot look at ", tensor.describe())).fix("leave out copy=False");
  }
  if (other) return array.attr("astype")(dtype);
  return !copy.is_none() && copy.cast<bool>() ? array.attr("copy")() : array;
}

std::string show(const Tensor& tensor) {
  if (!tensor.initialized()) return "  - not initialized\n";
  std::string text = tensor.lod().empty() ? "" : cat("  - lod: ", to_string(tensor.lod()), "\n");
  text += cat("  - place: Place(", to_string(tensor.place()),
              ")\n  - shape: ", tensor.shape().to_string(),
              "\n  - dtype: ", name_of(tensor.dtype()), "\n  - data: ");
  return text + std::string(py::str(to_numpy(tensor))) + "\n";
}

void bind_tensor(py::module_& m) {
  const py::object none = py::none();
  py::class_<TensorHandle>(m, "LoDTensor")
      .def(py::init<>())
      .def(py::init([](const Lod& lengths) {
             Tensor tensor;
             tensor.set_lod(lod_from_lengths(lengths));
             check_lod(tensor, tensor.lod());
             return own_tensor(std::move(tensor));
           }),
           py::arg("recursive_sequence_lengths"))
      .def(
          "set",
          [](TensorHandle& t, const py::object& array, const py::object& place, bool zero_copy) {
            set_from_array(t.get(), array, place_or(place, t.get().place()), zero_copy);
            t.get();  // a run beside this one may have read half of it: the scope counts once more
          },
          py::arg("array"), py::arg("place") = none, py::arg("zero_copy") = false)
      .def("shape", [](TensorHandle& t) { return t.get().shape().to_vector(); })
      .def("lod", [](TensorHandle& t) { return t.get().lod(); })
      .def(
          "set_lod",
          [](TensorHandle& t, Lod lod) {
            check_lod(t.get(), lod);
            t.get().set_lod(std::move(lod));
          },
          py::arg("lod"))
      .def("recursive_sequence_lengths",
           [](TensorHandle& t) { return lengths_from_lod(t.get().lod()); })
      .def(
          "set_recursive_sequence_lengths",
          [](TensorHandle& t, const Lod& lengths) {
            Lod lod = lod_from_lengths(lengths);
            check_lod(t.get(), lod);
            t.get().set_lod(std::move(lod));
          },
          py::arg("recursive_sequence_lengths"))
      .def("has_valid_recursive_sequence_lengths",
           [](TensorHandle& t) {
             const Tensor& tensor = t.get();
             return lod_problem(tensor.lod(), tensor.initialized() ? rows_of(tensor) : 0).empty();
           })
      .def(
          "__array__",
          [](TensorHandle& t, const py::object& dtype, const py::object& copy) {
            return as_array(t.get(), dtype, copy);
          },
          py::arg("dtype") = none, py::arg("copy") = none)
      .def("__getitem__",
           [](TensorHandle& t, const py::object& key) {
             return own_tensor(from_numpy(to_numpy(t.get())[key].attr("copy")()));
           })
      .def("__len__", [](TensorHandle& t) { return rows_of(t.get()); })
      .def("__str__", [](TensorHandle& t) { return show(t.get()); })
      .def("_set_dims",
           [](TensorHandle& t, const std::vector<int64_t>& dims) {
             Tensor& tensor = t.get();
             const Shape shape{std::span<const int64_t>(dims)};
             const bool keeps = tensor.initialized() && tensor.numel() == shape.count();
             tensor =
                 keeps ? tensor.reshaped(shape) : Tensor::without_memory(tensor.dtype(), shape);
           })
      .def("_mutable_data",
           [](TensorHandle& t, const Place& place, DType dtype) {
             t.get().resize(dtype, Shape(t.get().shape()), place);
             return reinterpret_cast<uintptr_t>(t.get().address());
           })
      .def("_dtype", [](TensorHandle& t) { return t.get().dtype(); })
      .def("_place", [](TensorHandle& t) { return t.get().place(); })
      .def("_numel", [](TensorHandle& t) { return t.get().initialized() ? t.get().numel() : 0; })
      .def("_ptr", [](TensorHandle& t) { return reinterpret_cast<uintptr_t>(t.get().address()); })
      .def("_is_initialized", [](TensorHandle& t) { return t.get().initialized(); })
      .def("_clear", [](TensorHandle& t) { t.get() = Tensor(); })
      .def("_share_data_with",
           [](TensorHandle& t, TensorHandle& other) {
             Lod lod = t.get().lod();
             t.get() = other.get();
             t.get().set_lod(std::move(lod));
           })
      .def(
          "_copy",
          [](TensorHandle& t, const py::object& place) {
            return own_tensor(t.get().to(place_or(place, t.get().place())));
          },
          py::arg("place") = none)
      .def("_to_dlpack", [](TensorHandle& t) { return to_numpy(t.get()).attr("__dlpack__")(); })
      .def("_get_float_element",
           [](TensorHandle& t, int64_t i) { return element_as_double(t.get().on_host(), i); })
      .def("_set_float_element", [](TensorHandle& t, int64_t i, double value) {
        const Tensor readable = t.get().on_host();
        to_numpy(readable).attr("flat")[py::int_(i)] = value;
        copy_contents(readable, t.get());
      });
}

std::vector<int64_t> numbers_of(const SelectedRows& rows) {
  const RowNumbers readable = rows.rows.to(cpu_place());
  return {readable.begin(), readable.end()};
}

void bind_rows(py::module_& m) {
  py::class_<RowsHandle>(m, "SelectedRows")
      .def(py::init<>())
      .def(py::init([](std::vector<int64_t> rows, int64_t height) {
             auto own = std::make_shared<SelectedRows>();
             own->rows = std::move(rows);
             own->height = height;
             return RowsHandle(std::move(own));
           }),
           py::arg("rows"), py::arg("height"))
      .def("rows", [](RowsHandle& r) { return numbers_of(r.get()); })
      .def("set_rows",
           [](RowsHandle& r, std::vector<int64_t> rows) { r.get().rows = std::move(rows); })
      .def("height", [](RowsHandle& r) { return r.get().height; })
      .def("set_height", [](RowsHandle& r, int64_t height) { r.get().height = height; })
      .def("get_tensor",
           [](const RowsHandle& r) {
             return TensorHandle([r]() -> Tensor& { return r.get().value; });
           })
      .def("numel",
           [](RowsHandle& r) { return r.get().value.initialized() ? r.get().value.numel() : 0; })
      .def("sync_index", [](RowsHandle&) {})  // there is no index beside the rows
      .def("__str__", [](RowsHandle& r) {
        return cat("SelectedRows: height ", r.get().height, ", rows [", join(numbers_of(r.get())),
                   "]\n", show(r.get().value));
      });
}

void bind_array(py::module_& m) {
  const auto element = [](const ArrayHandle& a, int64_t i) {
    const auto size = static_cast<int64_t>(a.get().size());
    if (i < -size || i >= size) {
      throw Error(ErrorKind::out_of_range, cat("element ", i, " of an array of ", size));
    }
    const auto at = static_cast<size_t>(i < 0 ? i + size : i);
    return TensorHandle([a, at]() -> Tensor& { return a.get().at(at); });
  };
  py::class_<ArrayHandle>(m, "LoDTensorArray")
      .def(py::init<>())
      .def("__getitem__", element)
      .def("__setitem__",
           [](ArrayHandle& a, size_t i, TensorHandle& value) { a.get().at(i) = value.get(); })
      .def("__len__", [](ArrayHandle& a) { return a.get().size(); })
      .def("append", [](ArrayHandle& a, TensorHandle& value) { a.get().push_back(value.get()); })
      .def("_move_to_list", [](ArrayHandle& a) {
        py::list items;
        for (const Tensor& tensor : a.get()) items.append(own_tensor(tensor));
        a.get().clear();
        return items;
      });
}

py::object dense_to_python(const Tensor& tensor, bool return_numpy, const std::string& name) {
  if (!return_numpy) return py::cast(own_tensor(tensor));
  if (!tensor.initialized()) return py::none();
  if (!tensor.lod().empty()) {
    throw Error(ErrorKind::precondition,
                cat("the fetched ", name, " has LoD ", to_string(tensor.lod()),
                    ", which a numpy array cannot hold"))
        .fix("run with return_numpy=False and use the LoDTensor it gives");
  }
  return to_numpy(tensor);
}

}  // namespace

py::object fetched_to_python(Variable value, bool return_numpy, const std::string& name) {
  switch (value.kind()) {
    case Kind::none:
      return py::none();
    case Kind::dense:
      return dense_to_python(value.tensor(), return_numpy, name);
    case Kind::rows:
      return py::cast(RowsHandle(std::make_shared<SelectedRows>(std::move(value.rows()))));
    case Kind::array: {
      if (!return_numpy) {
        return py::cast(ArrayHandle(std::make_shared<TensorArray>(std::move(value.array()))));
      }
      py::list items;
      for (const Tensor& tensor : value.array()) items.append(dense_to_python(tensor, true, name));
      return items;
    }
    case Kind::host:
      break;
  }
  throw Error(cat("the fetched ", name, " is ", value.describe(), ", which Python cannot hold"));
}

void bind_tensors(py::module_& m) {
  bind_tensor(m);
  bind_rows(m);
  bind_array(m);
}

}  // namespace trireme::binding
