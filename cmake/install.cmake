# The C++ library for other programs: `cmake --install BUILD --component development` puts headers, the static library and a CMake
# package under the prefix, and find_package(hushvec) finds them there. The Python wheel has the component `python` alone.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hushvec)
set_target_properties(hushvec_core PROPERTIES OUTPUT_NAME hushvec EXPORT_NAME hushvec)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(hushvec_core INTERFACE "$<INSTALL_INTERFACE:LINKER:-z,relro,-z,now>")   # the reason is beside hushvec_options
endif()

install(TARGETS hushvec_core EXPORT hushvecTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY cpp/include/hushvec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT hushvecTargets NAMESPACE hushvec:: DESTINATION ${package_folder} COMPONENT development)

configure_package_config_file(cmake/hushvecConfig.cmake.in ${PROJECT_BINARY_DIR}/hushvecConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hushvecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hushvecConfig.cmake ${PROJECT_BINARY_DIR}/hushvecConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT development)
