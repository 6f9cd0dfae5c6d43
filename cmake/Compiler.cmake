# Clang 19 where it is installed, as it is wherever modgen is built, and nothing else was asked for ($CXX, -DCMAKE_CXX_COMPILER): it takes
# half of g++'s time for libtorch's headers. Both use the C++ library and ABI that libtorch was built with.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(MODULAR_CLANGXX_19 clang++-19)
  mark_as_advanced(MODULAR_CLANGXX_19)
  if(MODULAR_CLANGXX_19)
    set(CMAKE_CXX_COMPILER ${MODULAR_CLANGXX_19})
  endif()
endif()
