// Ops by which the ranks of a job meet and exchange tensors.
#pragma once

namespace trireme {

class Registry;
void register_rings(Registry& ops);

}  // namespace trireme
