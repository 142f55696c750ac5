// Parameters as length times direction, so that training changes the two apart.
#pragma once

#include "layers/layer_helper.h"

namespace trireme {

// What a layer reads where `request` asks for weight_norm: g * v / |v|, of the parameters <name>_v
// and <name>_g. The startup program makes v, and g the length of v, so that training begins at v.
Var& weight_normalized(LayerHelper& helper, const ParameterRequest& request);

}  // namespace trireme
