// The extension module `_trireme`: everything that the package `paddle` asks of the engine.
#include "python/binding/binding.h"
#include "python/binding/misuse.h"
#include "python/binding/without_gil.h"

PYBIND11_MODULE(_trireme, m) {
  using namespace trireme::binding;
  m.attr("version") = TRIREME_VERSION;
  // What errors and signatures call the classes: programs know them under this name.
  m.attr("__name__") = "paddle.fluid.core";
  // Types come before the functions whose signatures mention them.
  bind_errors(m);
  watch_for_the_end();
  bind_lines(m);
  bind_types(m);
  bind_places(m);
  bind_tensors(m);
  bind_scopes(m);
  bind_variables(m);
  bind_ops(m);
  bind_blocks(m);
  bind_programs(m);
  bind_names(m);
  bind_docstrings(m);
  bind_guards(m);
  bind_backward(m);
  bind_executor(m);
  bind_repeated_run(m);
  bind_compiled_program(m);
  bind_compiled_file(m);
  bind_flags(m);
  bind_profiler(m);
  bind_registry(m);
  bind_initializers(m);
  bind_regularizers(m);
  bind_clips(m);
  bind_param_attrs(m);
  bind_layers_generic(m);
  bind_layers_nn(m);
  bind_layers_tensor(m);
  bind_layers_loss(m);
  bind_layers_sequence(m);
  bind_layers_convolution(m);
  bind_layers_structured(m);
  bind_py_func(m);
  bind_layers_schedule(m);
  bind_layers_control(m);
  bind_layers_array(m);
  bind_layers_step_rnn(m);
  bind_layers_host(m);
  bind_layers_decode(m);
  bind_layers_cell(m);
  bind_layers_remote(m);
  bind_nets(m);
  bind_optimizers(m);
  bind_adaptive_optimizers(m);
  bind_optimizers_around(m);
  bind_mixed_precision(m);
  bind_io(m);
  bind_datasets(m);
  bind_transpilers(m);
  bind_misuse(m);
  m.attr("__name__") = "_trireme";
  watch_for_misuse(m);
}
