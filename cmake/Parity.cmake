# modular_parity_test(FAMILIES <family>… [CASES <dir>] [NAME <name>])
#   Compares families with transformers by four tests that ctest runs in order: <name>.generate computes the cases of <dir>/<family>.py with
#   transformers, <name>.compute compares the generated models with them, <name>.compute_on_meshes does so on meshes, and
#   <name>.check_export loads the trained models with transformers. <dir> defaults to parity/cases in the calling folder; a family that ships with modular needs no file there.
#   <name> defaults to "parity". The program is <name>_test.
#   MODULAR_PYTHON names a Python with torch, transformers and safetensors; if empty, the Python of the project's .venv, of the active
#   virtual environment, of MODULAR_TORCH_DIR and on the PATH are tried.
set(MODULAR_PYTHON "" CACHE FILEPATH "Python with torch, transformers and safetensors, for modular_parity_test")

# Sets <result> to the first interpreter that has the imports of parity tests, or else to the first that runs.
function(modular_find_parity_python result)
  set(candidates ${MODULAR_PYTHON})
  if(NOT candidates)
    set(candidates ${PROJECT_SOURCE_DIR}/.venv/bin/python3 $ENV{VIRTUAL_ENV}/bin/python3 ${MODULAR_TORCH_DIR}/../../../../bin/python3 python3)
  endif()
  set(incomplete)
  foreach(candidate ${candidates})
    execute_process(
      COMMAND ${candidate} -c "import importlib.util as u; print(*[m for m in ('torch', 'transformers', 'safetensors') if not u.find_spec(m)])"
      OUTPUT_VARIABLE missing OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND NOT missing)
      set(${result} ${candidate} PARENT_SCOPE)
      return()
    elseif(NOT failed AND NOT incomplete)
      set(incomplete ${candidate})
      message(STATUS "Parity tests will fail: ${candidate} has no ${missing}. Install it, or set -DMODULAR_PYTHON to another Python")
    endif()
  endforeach()
  if(NOT incomplete)
    list(JOIN candidates ", " tried)
    message(FATAL_ERROR "modular_parity_test: no Python runs (tried ${tried}): set -DMODULAR_PYTHON to one with torch, transformers and safetensors")
  endif()
  set(${result} ${incomplete} PARENT_SCOPE)
endfunction()

function(modular_parity_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CASES;NAME" "FAMILIES")
  if(NOT arg_FAMILIES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "modular_parity_test: invalid arguments: write modular_parity_test(FAMILIES <family>… [CASES <dir>] [NAME <name>])")
  endif()
  if(NOT TARGET modular::parity)
    message(FATAL_ERROR "modular_parity_test: this modular was installed without the parity harness: build its target modular_parity "
                        "(-DMODULAR_TESTS=ON, with GoogleTest) and install it again")
  endif()
  if(NOT arg_NAME)
    set(arg_NAME parity)
  endif()
  if(NOT arg_CASES)
    set(arg_CASES parity/cases)
  endif()
  cmake_path(ABSOLUTE_PATH arg_CASES BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)

  find_package(GTest REQUIRED)  # the harness is a GoogleTest program
  modular_family_objects(objects FAMILIES ${arg_FAMILIES})
  add_executable(${arg_NAME}_test ${objects})
  target_link_libraries(${arg_NAME}_test PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,modular::parity> GTest::gtest_main)
  set_target_properties(${arg_NAME}_test PROPERTIES ENABLE_EXPORTS ON)  # symbol names for the stack traces of ranks that hang

  set(work ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME})
  set(meshes *OnMesh*:*EveryMesh*)
  modular_find_parity_python(python)
  add_test(NAME ${arg_NAME}.generate
    COMMAND ${python} ${MODULAR_PARITY_DIR}/generate.py --cases ${arg_CASES} ${work}/cases ${arg_FAMILIES})
  add_test(NAME ${arg_NAME}.compute COMMAND ${arg_NAME}_test --gtest_filter=-${meshes})
  add_test(NAME ${arg_NAME}.compute_on_meshes COMMAND ${arg_NAME}_test --gtest_filter=${meshes})
  add_test(NAME ${arg_NAME}.check_export
    COMMAND ${python} ${MODULAR_PARITY_DIR}/check_export.py --cases ${arg_CASES} ${work}/exports ${arg_FAMILIES})
  set_tests_properties(${arg_NAME}.generate PROPERTIES FIXTURES_SETUP ${arg_NAME}_cases TIMEOUT 300 COST 500)
  set_tests_properties(${arg_NAME}.compute PROPERTIES FIXTURES_REQUIRED ${arg_NAME}_cases FIXTURES_SETUP ${arg_NAME}_exports TIMEOUT 1200 COST 100
                       ENVIRONMENT MODULAR_PARITY_CASES=${work}/cases)
  set_tests_properties(${arg_NAME}.compute_on_meshes PROPERTIES FIXTURES_REQUIRED ${arg_NAME}_cases TIMEOUT 1200 COST 140 LABELS release
                       ENVIRONMENT MODULAR_PARITY_CASES=${work}/cases)
  set_tests_properties(${arg_NAME}.check_export PROPERTIES FIXTURES_REQUIRED ${arg_NAME}_exports TIMEOUT 300)
endfunction()
