// The library that FLAGS_gpu_library names: devices without a GPU, and the CPU's kernels for them.
#include <cstdlib>
#include <memory>
#include <string>

#include "compile/target.h"
#include "core/device_library.h"
#include "core/text.h"
#include "ir/device_kernels.h"
#include "ops/run_context.h"
#include "tests/support/hostgpu/hostgpu.h"

namespace trireme::hostgpu {
namespace {

// What a kernel may ask of the run, as it was when the kernel was put into its queue.
class Remembered : public RunContext {
 public:
  explicit Remembered(const RunContext& run)
      : step_(run.step()),
        process_seed_(run.process_seed()),
        iteration_(run.iteration()),
        offset_(run.stream_offset()) {}
  uint64_t step() const override { return step_; }
  uint64_t process_seed() const override { return process_seed_; }
  uint64_t iteration() const override { return iteration_; }
  StreamOffset stream_offset() const override { return offset_; }
  std::function<void(Error&)> error_context() const override { return nullptr; }
  void run_region(int, StepScopes*) override { refuse(); }
  void begin_iterations(int, int64_t) override { refuse(); }
  void run_iteration(int, const Iteration&) override { refuse(); }
  void end_iterations(int) override { refuse(); }
  Scope& scope() override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw InternalError("a kernel of a device asks for what only the host has");
  }
  uint64_t step_, process_seed_, iteration_;
  StreamOffset offset_;
};

// Operands as the device's work sees them: the same memory, under addresses that it may touch.
class Seen {
 public:
  Seen(const HostGpu& device, Variable* const* variables, size_t count) : views_(count) {
    pointers_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      if (!variables[i]) continue;
      view(device, *variables[i], views_[i]);
      pointers_[i] = &views_[i];
    }
  }
  Variable* const* pointers() const { return pointers_.data(); }

 private:
  // Of the host's memory a copy: it may be another's when the work runs.
  static Tensor tensor(const HostGpu& device, const Tensor& from) {
    if (!from.initialized()) return from;
    if (!device.owns(from.address()) && from.byte_size() > 0) return from.clone();
    Tensor seen(from.dtype(), from.shape(),
                Buffer::adopt(device.reach(from.address()), from.byte_size(), nullptr));
    seen.set_lod(from.lod());
    return seen;
  }
  static void view(const HostGpu& device, const Variable& from, Variable& to) {
    if (from.kind() == Kind::dense) to.tensor() = tensor(device, from.tensor());
    if (from.kind() != Kind::rows) return;
    const SelectedRows& rows = from.rows();
    to.rows().height = rows.height;
    to.rows().value = tensor(device, rows.value);
    to.rows().rows = RowNumbers(Buffer::adopt(device.reach(rows.rows.address()),
                                              rows.rows.size() * sizeof(int64_t), nullptr),
                                rows.rows.size());
  }

  std::vector<Variable> views_;
  std::vector<Variable*> pointers_;
};

KernelFn later(KernelFn run, size_t ins, size_t outs) {
  return [run = std::move(run), ins, outs](const KernelArgs& k) {
    auto& queue = static_cast<HostQueue&>(*k.queue);
    const HostGpu& device = queue.device;
    const auto seen_ins = std::make_shared<Seen>(device, k.ins, ins);
    const auto seen_outs = std::make_shared<Seen>(device, k.outs, outs);
    const auto context = k.run ? std::make_shared<Remembered>(*k.run) : nullptr;
    KernelArgs args = k;
    args.queue = nullptr;
    args.scratch = static_cast<std::byte*>(device.reach(k.scratch));
    args.run = context.get();
    args.ins = seen_ins->pointers();
    args.outs = seen_outs->pointers();
    const auto explain = k.run ? k.run->error_context() : nullptr;
    queue.put([run, args, seen_ins, seen_outs, context, explain] {
      try {
        run(args);
      } catch (Error& e) {
        if (explain) explain(e);
        throw;
      }
    });
  };
}

KernelMake on_queue(KernelMake make) {
  return [make = std::move(make)](const KernelSite& site,
                                  std::string* why_not) -> std::optional<BoundKernel> {
    std::optional<BoundKernel> made = make(site, why_not);
    if (!made) return made;
    const auto put_off = [&](BoundKernel& phase) {
      phase.run = later(std::move(phase.run), site.in_size(), site.out_size());
      phase.runs = Runs::queue;
    };
    put_off(*made);
    for (BoundKernel& phase : made->then) put_off(phase);
    return made;
  };
}

size_t number_of(const char* variable, size_t fallback) {
  const char* text = std::getenv(variable);
  return text && *text ? std::stoull(text) : fallback;
}

}  // namespace
}  // namespace trireme::hostgpu

extern "C" void trireme_open_devices(trireme::DeviceLibrary& library) {
  using namespace trireme::hostgpu;
  library.count = static_cast<int>(number_of("HOSTGPU_COUNT", 4));
  library.device = [](int id) -> trireme::Device* {
    const size_t megabytes = number_of("HOSTGPU_MEMORY_MB", 8192);
    const size_t seed = number_of("HOSTGPU_SEED", 1) + static_cast<size_t>(id);
    return new HostGpu(id, megabytes << 20, seed);
  };
}

extern "C" void trireme_add_kernels(trireme::DeviceKernels& kernels) {
  using namespace trireme;
  const Target& cpu = cpu_target();
  kernels.facts = {.lanes = cpu.lanes,
                   .alignment = cpu.alignment,
                   .blocked_images = cpu.blocked_images,
                   .shared_memory = false};
  for (const OpSchema* row : op_table().rows()) {
    if (row->trait().host) continue;
    for (const Kernel& kernel : row->kernels()) {
      kernels.add(*row, {kernel.name, hostgpu::on_queue(kernel.make)});
    }
  }
}
