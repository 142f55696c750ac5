// Readers as ops: how programs say that data variables come from a queue instead of from feed.
//
// A reader is a source of feeds: whoever runs the program takes a batch out of the queue before the
// run and feeds it, so an exhausted reader ends the run before anything is written. These rows only
// say how the ops in programs look; lowering takes the outputs of `read` as fed, and skips the
// rest.
#include "ir/schema.h"

namespace trireme {
namespace {

OpTraits marks(Marker marker) {
  return {.host = true, .effect = true, .no_inference = true, .marker = marker};
}

}  // namespace

void register_reader(Registry& ops) {
  ops.op("read")
      .doc("Takes a batch out of a reader")
      .in("Reader", "the reader")
      .out_list("Out", "one variable for every tensor of a batch")
      .attr("throw_eof_exp", true, "the end of the data is an exception")
      .attr("drop_last", true, "with several devices: batches that do not reach all are dropped")
      .traits(marks(Marker::read));
  ops.op("create_py_reader")
      .doc("Makes a reader that takes batches from a queue of the process")
      .in("blocking_queue", "the queue")
      .out("Out", "the reader")
      .attr("shape_concat", std::vector<int>{},
            "the shapes of a batch's tensors, one after another")
      .attr("lod_levels", std::vector<int>{}, "their LoD levels")
      .attr("dtypes", std::vector<int>{}, "their element types")
      .attr("need_check_feed", std::vector<int>{}, "whether a tensor must have its declared shape")
      .attr("ranks", std::vector<int>{}, "how many numbers of shape_concat belong to each tensor")
      .attr("device_index", 0, "the device, of several")
      .attr("device_count", 1, "how many devices read from the queue")
      .attr("use_data_config", true, "has no effect")
      .traits(marks(Marker::reader));
  ops.op("create_double_buffer_reader")
      .doc("Makes a reader that takes batches from another one ahead of time")
      .in("UnderlyingReader", "the other reader")
      .out("Out", "the reader")
      .attr("place", "AUTO", "where batches are put")
      .traits(marks(Marker::reader));
}

}  // namespace trireme
