// Names of what a slice of a variable is for.
#include "ir/distributed.h"

namespace trireme {

std::string_view name_of(VarSlice::Use use) {
  switch (use) {
    case VarSlice::Use::parameter:
      return "Param";
    case VarSlice::Use::remote_rows:
      return "RemotePrefetch";
    case VarSlice::Use::optimizer:
      return "Optimizer";
  }
  return "Param";
}

}  // namespace trireme
