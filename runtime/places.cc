// As many CPU places as CPU_NUM says; the GPUs that the environment chooses, or all of them.
#include "runtime/places.h"

#include <algorithm>

#include "core/device.h"
#include "core/error.h"
#include "core/flags.h"
#include "core/text.h"

namespace trireme {

std::vector<Place> default_places(DeviceKind device) {
  if (device == DeviceKind::cpu) return std::vector<Place>(static_cast<size_t>(cpu_num()));
  GpuChoice choice = gpus_of_environment();
  const int count = device_count(DeviceKind::cuda);
  if (count == 0) device_of(cuda_place(0));  // says what is missing
  if (choice.ids.empty()) {
    for (int id = 0; id < count; ++id) choice.ids.push_back(id);
  }
  std::vector<Place> places;
  for (const int id : choice.ids) {
    if (id >= count) {
      throw Error(ErrorKind::unavailable,
                  cat(choice.chosen_by, " chooses ", to_string(cuda_place(id)), ", but ", count,
                      count == 1 ? " GPU is there" : " GPUs are there"))
          .fix("choose GPUs that are there, numbered from 0");
    }
    places.push_back(cuda_place(id));
  }
  return places;
}

}  // namespace trireme
