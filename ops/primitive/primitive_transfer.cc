// Copies between the host's memory and a device's. The device itself copies: they have no kernels.
#include "ir/schema.h"

namespace trireme {

void register_primitive_transfer(Registry& ops) {
  ops.primitive("p.upload")
      .doc("The same value in the device's memory.")
      .in("X", "in the host's memory")
      .out("Out", "in the device's")
      .shape(same_as("X"))
      .traits({.transfer = Transfer::upload});
  ops.primitive("p.download")
      .doc("The same value in the host's memory.")
      .in("X", "in the device's memory")
      .out("Out", "in the host's")
      .shape(same_as("X"))
      .traits({.transfer = Transfer::download});
}

}  // namespace trireme
