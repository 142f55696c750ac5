# cmake --install: the library, the rooms' headers under include/trireme, and a package file, so that
# find_package(Trireme) and target_link_libraries(app Trireme::trireme) are all a C++ user writes.

include(CMakePackageConfigHelpers)

install(TARGETS trireme EXPORT TriremeTargets)
foreach(room IN LISTS TRIREME_ROOMS)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${room}")
    install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme
            FILES_MATCHING PATTERN "*.h" PATTERN "wire.h" EXCLUDE)  # wire.h needs protobuf's headers
  endif()
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Trireme)
install(EXPORT TriremeTargets NAMESPACE Trireme:: DESTINATION ${package_dir})
configure_package_config_file(cmake/TriremeConfig.cmake.in TriremeConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(TriremeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TriremeConfig.cmake"
              "${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake"
        DESTINATION ${package_dir})
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
