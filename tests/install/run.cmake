# Installs the build BUILD into a fresh directory under WORK, builds a program of a user's against it
# and runs it.
file(REMOVE_RECURSE "${WORK}")
foreach(command IN ITEMS
    "--install;${BUILD};--prefix;${WORK}/installed"
    "-S;${SOURCE}/tests/install;-B;${WORK}/user;-G;Ninja;-DCMAKE_PREFIX_PATH=${WORK}/installed;-DCMAKE_CXX_COMPILER=${COMPILER};-DTOY=${SOURCE}/examples/cpp/toy.cc"
    "--build;${WORK}/user")
  execute_process(COMMAND "${CMAKE_COMMAND}" ${command} RESULT_VARIABLE failed OUTPUT_QUIET)
  if(failed)
    message(FATAL_ERROR "cmake ${command} failed")
  endif()
endforeach()
execute_process(COMMAND "${WORK}/user/toy" WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "the installed library's program failed: ${failed}")
endif()
