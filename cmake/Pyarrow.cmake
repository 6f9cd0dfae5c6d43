# Finds Arrow's headers and libraries in the pyarrow of the Python that has torch. If there is none, MODULAR_PYARROW_DIR is empty and
# libmodular_parquet.so is not built.
set(MODULAR_PYARROW_DIR "")
cmake_path(GET MODULAR_TORCH_DIR PARENT_PATH modular_site_packages)
file(GLOB modular_arrow_libraries ${modular_site_packages}/pyarrow/libarrow.so.*)
file(GLOB modular_parquet_libraries ${modular_site_packages}/pyarrow/libparquet.so.*)
if(modular_arrow_libraries AND modular_parquet_libraries AND EXISTS ${modular_site_packages}/pyarrow/include/parquet/arrow/reader.h)
  set(MODULAR_PYARROW_DIR ${modular_site_packages}/pyarrow)
  list(GET modular_arrow_libraries 0 MODULAR_ARROW_LIBRARY)
  list(GET modular_parquet_libraries 0 MODULAR_PARQUET_LIBRARY)
endif()
message(STATUS "Parquet: ${MODULAR_PYARROW_DIR}")
