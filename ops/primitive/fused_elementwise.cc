// p.fused: a tile program and one sum behind it as one node, which fuse_elementwise writes;
// p.group.
#include "ir/schema.h"

namespace trireme {

void register_fused_elementwise(Registry& ops) {
  ops.primitive("p.fused")
      .doc(
          "A chain of elementwise primitives and a sum behind it; shapes are inferred by its parts")
      .in_list("X", "float32, and bool as masks")
      .out_list("Out", "what others read of the chain");
  ops.primitive("p.group")
      .doc("Nodes that run as one instruction; each has its own kernel")
      .in_list("X", "what its members read, one after another")
      .out_list("Out", "what its members write");
}

}  // namespace trireme
