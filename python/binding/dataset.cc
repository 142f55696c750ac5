// Datasets: files of samples, read ahead or held in memory.
#include "io/multi_slot.h"
#include "python/binding/binding.h"
#include "python/binding/casters.h"
#include "python/binding/without_gil.h"

namespace trireme::binding {
namespace {

py::object feed_of(const MultiSlotFormat& format, std::vector<Tensor> tensors) {
  if (tensors.empty()) return py::none();
  py::dict feed;
  for (size_t i = 0; i < tensors.size(); ++i)
    feed[py::str(format.vars[i].name)] = own_tensor(std::move(tensors[i]));
  return feed;
}

// What Python holds: the reader, and the names that its batches get.
template <class Reader>
struct Named {
  MultiSlotFormat format;
  std::unique_ptr<Reader> reader;
};
using Queued = Named<QueuedBatches>;
using Held = Named<HeldSamples>;

}  // namespace

void bind_datasets(py::module_& m) {
  py::class_<MultiSlotFormat>(m, "MultiSlotFormat")
      .def(py::init<>())
      .def_readwrite("has_id", &MultiSlotFormat::has_id)
      .def_readwrite("has_content", &MultiSlotFormat::has_content)
      .def("add", [](MultiSlotFormat& format, std::string name, bool is_float, bool is_dense,
                     std::vector<int64_t> row_shape) {
        format.vars.push_back({std::move(name), is_float, is_dense, std::move(row_shape)});
      });
  py::class_<Queued>(m, "QueuedBatches")
      .def(py::init([](const MultiSlotFormat& format, std::string pipe, std::string download,
                       const std::vector<std::string>& files, int64_t batch_size, int threads) {
        return new Queued{format, std::make_unique<QueuedBatches>(
                                      format, SampleSource{std::move(pipe), std::move(download)},
                                      files, QueuedBatches::Options{batch_size, threads})};
      }))
      .def("next", [](Queued& queued) {
        std::vector<Tensor> batch;
        {
          const WithoutGil released;
          batch = queued.reader->next();
        }
        return feed_of(queued.format, std::move(batch));
      });
  py::class_<Held>(m, "HeldSamples")
      .def(py::init([](const MultiSlotFormat& format, std::string pipe, std::string download,
                       const std::vector<std::string>& files, int threads) {
        const WithoutGil released;
        return new Held{format, std::make_unique<HeldSamples>(
                                    format, SampleSource{std::move(pipe), std::move(download)},
                                    files, threads)};
      }))
      .def("__len__", [](const Held& held) { return held.reader->size(); })
      .def("shuffle", [](Held& held, uint64_t seed) { held.reader->shuffle(seed); })
      .def("merge_by_id", [](Held& held, size_t count) { return held.reader->merge_by_id(count); })
      .def("batch", [](const Held& held, size_t begin, size_t count) {
        return feed_of(held.format, held.reader->batch(begin, count));
      });
}

}  // namespace trireme::binding
