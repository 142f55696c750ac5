// As many CPU places as CPU_NUM says; GPUs are refused by name.
#include "runtime/places.h"

#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {

std::vector<Place> default_places(DeviceKind device) {
  if (device == DeviceKind::cpu) return std::vector<Place>(static_cast<size_t>(cpu_num()));
  const GpuChoice choice = gpus_of_environment();
  std::vector<std::string> names;
  for (int id : choice.ids) names.push_back(to_string(cuda_place(id)));
  throw Error(
      ErrorKind::unimplemented,
      cat("this build runs on CPU only, not on ",
          names.empty() ? "GPUs" : cat(join(names), ", which ", choice.chosen_by, " chooses")))
      .fix("use CPUPlace() (use_cuda=False) and set CPU_NUM to the number of places");
}

}  // namespace trireme
