# Installs programs, libraries, headers and the CMake package for other projects: find_package(modular).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/modular)

get_property(libraries GLOBAL PROPERTY MODULAR_LIBRARIES)
install(TARGETS ${libraries} EXPORT modularTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(program modgen modgen-generate modcheck)
  if(TARGET ${program})
    install(TARGETS ${program} EXPORT modularTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET modrun)
  install(TARGETS modrun modrun-sentencepiece RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET modular_cuda)
  cmake_path(GET MODULAR_CUDART PARENT_PATH cuda_runtime)
  set_target_properties(modular_cuda PROPERTIES INSTALL_RPATH "${MODULAR_TORCH_DIR}/lib;${cuda_runtime}")
  install(TARGETS modular_cuda LIBRARY DESTINATION lib)
endif()
if(TARGET modular_parquet_arrow)
  install(TARGETS modular_parquet_arrow LIBRARY DESTINATION lib)
endif()
# Keeps the layout of this tree, so that includes read the same.
install(DIRECTORY modular runtime generated DESTINATION include/modular FILES_MATCHING PATTERN "*.h")

install(EXPORT modularTargets NAMESPACE modular:: DESTINATION ${package_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/modularConfig.cmake.in ${PROJECT_BINARY_DIR}/modularConfig.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/modularConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/modularConfig.cmake ${PROJECT_BINARY_DIR}/modularConfigVersion.cmake
  cmake/Torch.cmake cmake/Modular.cmake cmake/Parity.cmake cmake/Execution.cmake cmake/pch.h cmake/pch.cc DESTINATION ${package_folder})
