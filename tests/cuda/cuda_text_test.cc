// The text of every generated kernel compiles. Needs NVRTC and no GPU: kernels are made for the
// programs of all ops, and not run.
#include <gmock/gmock.h>

#include <set>

#include "compile/lower.h"
#include "compile/pipeline.h"
#include "core/text.h"
#include "cuda/generated.h"
#include "ir/device_kernels.h"
#include "tests/cuda/cuda_places.h"
#include "tests/runtime/every_op.h"

extern "C" void trireme_add_kernels(trireme::DeviceKernels& kernels);

namespace trireme::testing {
namespace {

FeedFacts feed_facts_of(const Tensor& fed) {
  return {
      .dtype = fed.dtype(), .shape = fed.shape(), .lod_level = static_cast<int>(fed.lod().size())};
}

// Facts of all values, as a bind finds them; what follows from computed values stays unknown.
class BoundFacts {
 public:
  BoundFacts(Graph& graph, const OpProgram& built) : graph_(graph) {
    const Feeds& feeds = built.feeds;
    for (Value& value : graph.values) pointers_.push_back(&value.info);
    for (const Graph::Named& feed : graph.feeds) {
      if (feed.value < 0 || !feeds.contains(feed.name)) continue;
      const Tensor& tensor = feeds.at(feed.name);
      graph.values[feed.value].info.shape = tensor.shape();
      graph.values[feed.value].info.lod = tensor.lod();
    }
    for (const Graph::State& state : graph.states) {
      const auto rows = built.states.find(state.name);
      if (state.entry < 0 || rows == built.states.end()) continue;
      graph.values[state.entry].info.dtype = rows->second.value.dtype();
      graph.values[state.entry].info.shape = rows->second.value.shape();
    }
    for (const Node& node : graph.nodes) infer(node);
  }

  // Adds the rows whose nodes on the device got a kernel; returns how many those were.
  int make_kernels(std::set<std::string>& rows) const {
    int made = 0;
    const auto note = [&](const Node& node) {
      if (!make(node)) return;
      rows.insert(node.schema->type());
      ++made;
    };
    for (const Node& node : graph_.nodes) {
      note(node);
      for (const Node& member : node.members) note(member);
    }
    return made;
  }

 private:
  void infer(const Node& node) {
    for (const auto* inner : {&node.parts, &node.members}) {
      for (const Node& part : *inner) infer(part);
    }
    if (!node.schema->shape_rule()) return;
    OpView view = view_of(node, pointers_);
    try {
      node.schema->shape_rule()(view);
    } catch (const Error&) {  // its operands are known when the program runs
    }
  }

  bool known(const Node& node) const {
    for (const auto* values : {&node.ins, &node.outs}) {
      for (const int value : *values) {
        if (value >= 0 && !graph_.values[value].info.shape.known()) return false;
      }
    }
    return true;
  }

  bool make(const Node& node) const {
    if (!node.on_device || !known(node)) return false;
    const OpView view = view_of(node, pointers_);
    for (const Kernel& kernel : kernels_for(*node.schema, DeviceKind::cuda)) {
      std::string why_not;
      try {
        if (kernel.make(view, &why_not)) return true;
      } catch (const Error&) {  // as above
      }
    }
    return false;
  }

  Graph& graph_;
  std::vector<ValueInfo*> pointers_;
};

TEST(CudaText, EveryKernelCompilesWhereThereIsNoCard) {
  // Where there is a card, the opened plugin has added them.
  if (!has_gpu()) set_kernel_source(DeviceKind::cuda, trireme_add_kernels);
  const DeviceFacts& facts = device_kernels(DeviceKind::cuda).facts;
  const Target target{.device = DeviceKind::cuda,
                      .lanes = facts.lanes,
                      .alignment = facts.alignment,
                      .blocked_images = facts.blocked_images,
                      .copy_queues = facts.copy_queues,
                      .half_tiles = facts.half_tiles,
                      .channel_last = facts.channel_last,
                      .rounds_float = facts.channel_last,
                      .shared_memory = facts.shared_memory};
  int programs = 0, kernels = 0;
  std::set<std::string> made;
  for_every_op([&](OpProgram& built) {
    LowerRequest request;
    for (const auto& [name, tensor] : built.feeds) request.feeds[name] = feed_facts_of(tensor);
    for (const Op* op : built.program->global_block().ops()) {
      for (const std::string& name : op->output_names()) {
        if (name != kEmptyVar) built.program->global_block().var(name).set_persistable(true);
      }
    }
    for (const auto& off :
         {std::vector<std::string>{}, std::vector<std::string>{"fuse_elementwise"}}) {
      Graph graph = lower(*built.program, request);
      run_passes(graph, target, off);
      kernels += BoundFacts(graph, built).make_kernels(made);
      ++programs;
    }
  });
  std::vector<std::string> unmade;
  for (const OpSchema* row : op_table().rows()) {
    const bool own = !kernels_for(*row, DeviceKind::cuda).empty();
    if (own && !made.contains(row->type())) unmade.push_back(row->type());
  }
  // Primitives that need more than one op: nets on a card run them (cuda_nets_test.cc).
  EXPECT_THAT(unmade,
              ::testing::ElementsAre("p.batch_norm_relu", "p.batch_norm_relu_grad", "p.from_blocks",
                                     "p.is_finite", "p.mod", "p.squeeze", "p.to_blocks"));
  cuda::ask_for_joined_texts(4);
  const std::vector<cuda::GeneratedText> all = cuda::all_generated_texts();
  ASSERT_GT(all.size(), 200u);
  EXPECT_GT(cuda::compile_texts(all, "sm_90").size(), 0u);
  std::printf("cuda: %d programs, %d kernels made, %zu texts compile for sm_90\n", programs,
              kernels, all.size());
}

}  // namespace
}  // namespace trireme::testing
