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

# What parameter servers and trainers say to each other. Only ps/grpc_transport.cc and ps/chunks.cc include it.
if(TRIREME_HAVE_GRPC)
  set(servers_proto "${PROJECT_SOURCE_DIR}/ps/servers.proto")
  set(servers_sources "${wire_dir}/ps/servers.pb.cc" "${wire_dir}/ps/servers.grpc.pb.cc")
  file(MAKE_DIRECTORY "${wire_dir}/ps")
  add_custom_command(
    OUTPUT ${servers_sources} "${wire_dir}/ps/servers.pb.h" "${wire_dir}/ps/servers.grpc.pb.h"
    COMMAND protobuf::protoc "--proto_path=${PROJECT_SOURCE_DIR}" "--cpp_out=${wire_dir}"
            "--grpc_out=${wire_dir}" "--plugin=protoc-gen-grpc=${GRPC_PLUGIN}" "${servers_proto}"
    DEPENDS "${servers_proto}" protobuf::protoc
    COMMENT "Generating ps/servers.grpc.pb.h"
    VERBATIM)
  add_library(trireme_servers OBJECT ${servers_sources})
  target_include_directories(trireme_servers SYSTEM PUBLIC "${wire_dir}" "${GRPC_INCLUDE_DIR}")
  target_link_libraries(trireme_servers
    PUBLIC protobuf::libprotobuf "${GRPCPP_LIBRARY}" "${GPR_LIBRARY}")
  target_compile_definitions(trireme_servers INTERFACE TRIREME_HAVE_GRPC)
else()
  add_library(trireme_servers INTERFACE)
endif()
