# Turns ir/framework.proto into C++ in the build directory, included as "ir/framework.pb.h".
#
# trireme_wire          the generated code, compiled without our warnings
# trireme_wire_headers  what a target links to include the header; the symbols are in libtrireme

set(wire_dir "${PROJECT_BINARY_DIR}/generated")
set(wire_proto "${PROJECT_SOURCE_DIR}/ir/framework.proto")
file(MAKE_DIRECTORY "${wire_dir}/ir")

add_library(trireme_wire_headers INTERFACE)
target_include_directories(trireme_wire_headers SYSTEM INTERFACE "${wire_dir}")
target_link_libraries(trireme_wire_headers INTERFACE protobuf::libprotobuf)
if(NOT EXISTS "${wire_proto}")
  message(STATUS "wire format: off, ir/framework.proto is not here")
  add_library(trireme_wire INTERFACE)
  return()
endif()

add_custom_command(
  OUTPUT "${wire_dir}/ir/framework.pb.h" "${wire_dir}/ir/framework.pb.cc"
  COMMAND protobuf::protoc "--proto_path=${PROJECT_SOURCE_DIR}" "--cpp_out=${wire_dir}" "${wire_proto}"
  DEPENDS "${wire_proto}" protobuf::protoc
  COMMENT "Generating ir/framework.pb.h"
  VERBATIM)

add_library(trireme_wire OBJECT "${wire_dir}/ir/framework.pb.cc" "${wire_dir}/ir/framework.pb.h")
target_include_directories(trireme_wire SYSTEM PUBLIC "${wire_dir}")
target_link_libraries(trireme_wire PUBLIC protobuf::libprotobuf)
# Without it, generated code complains on stderr about names that are not UTF-8; old files have some.
target_compile_definitions(trireme_wire PRIVATE NDEBUG)
# The header must exist before anything that includes it is compiled.
add_dependencies(trireme_wire_headers trireme_wire)
