# Installs BUILD into a prefix, then configures and builds PROJECT against it, runs its program and its parity tests and trains with its modrun.
foreach(variable BUILD PROJECT WORK PYTHON LAUNCHER SAVE_TEST AUTHORING_DOCUMENT)
  if(NOT DEFINED ${variable})
    message(FATAL_ERROR "-D${variable}=… is missing")
  endif()
endforeach()

function(step)
  message(STATUS "${ARGV}")
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY ${WORK}/project RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status)
    message(FATAL_ERROR "failed (${status}): ${ARGV}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# A copy elsewhere: nothing of this tree may be found by chance.
file(REMOVE_RECURSE ${WORK})
file(COPY ${PROJECT}/ DESTINATION ${WORK}/project)
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
set(ENV{XDG_CACHE_HOME} ${BUILD}/cache)
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${LAUNCHER}")  # a list, which an argument of step() would not stay
step(${CMAKE_COMMAND} -S . -B ${WORK}/build -G Ninja -DCMAKE_BUILD_TYPE=Release -Dmodular_ROOT=${WORK}/prefix
     -DMODULAR_PYTHON=${PYTHON})
step(${CMAKE_COMMAND} --build ${WORK}/build)

step(${WORK}/build/count_parameters)
if(NOT output MATCHES "^[1-9][0-9]+ parameters, loss [0-9.]+ a token")
  message(FATAL_ERROR "count_parameters printed: ${output}")
endif()
step(${WORK}/build/tinyrun train tiny.toml)
if(NOT EXISTS ${WORK}/project/run/metrics.jsonl)
  message(FATAL_ERROR "the training left no metrics")
endif()
step(${WORK}/prefix/bin/modgen tiny)  # the execution test checks a committed file
step(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --output-on-failure)
if(NOT output MATCHES "100% tests passed, 0 tests failed out of 5")
  message(FATAL_ERROR "the parity tests and the execution test did not run")
endif()

# From saving its spec to training it, again and again.
file(CREATE_LINK ${WORK}/build ${WORK}/project/build SYMBOLIC)
step(${PYTHON} ${SAVE_TEST} ${AUTHORING_DOCUMENT} ${WORK}/project tinyrun tiny.toml)

# Programs find their torch where they are installed, in the project's own .venv too.
step(${CMAKE_COMMAND} --install ${WORK}/build --prefix ${WORK}/own)
foreach(program ${WORK}/prefix/bin/modrun ${WORK}/own/bin/tinyrun)
  step(${program} --version)
endforeach()

# The installed checker knows the installed prelude and llama: the project's own record is clean, an edit is not.
step(${WORK}/prefix/bin/modgen tiny)
step(${WORK}/prefix/bin/modcheck)
file(APPEND ${WORK}/project/generated/tiny.h "// by hand\n")
execute_process(COMMAND ${WORK}/prefix/bin/modcheck WORKING_DIRECTORY ${WORK}/project RESULT_VARIABLE status OUTPUT_QUIET)
if(NOT status EQUAL 1)
  message(FATAL_ERROR "modcheck exited with ${status} on an edited file")
endif()
