# amctl::torch, an imported target for a CPU or a CUDA wheel alike. find_package(Torch) is not used: it fails
# for CUDA wheels on CMake 3.25 (docs/adr/0002-torch-target.md).
#   AMCTL_TORCH_DIR   .../site-packages/torch; found through python3 when not given
#   AMCTL_HAVE_GLOO   set when Gloo's headers are there (Debian's libgloo-dev; the wheel has the library alone)
#   AMCTL_HAVE_CUDA   set when the wheel is a CUDA build and a toolkit is there
if(NOT AMCTL_TORCH_DIR)
  foreach(python "${PROJECT_SOURCE_DIR}/.venv/bin/python" python3)
    execute_process(COMMAND ${python} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE AMCTL_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(AMCTL_TORCH_DIR)
      break()
    endif()
  endforeach()
endif()
if(NOT EXISTS "${AMCTL_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch was not found. Give -DAMCTL_TORCH_DIR=<site-packages>/torch, or configure with -DAMCTL_ENGINE=OFF.")
endif()
message(STATUS "LibTorch: ${AMCTL_TORCH_DIR}")

set(_torch_lib "${AMCTL_TORCH_DIR}/lib")
add_library(amctl_torch INTERFACE)
add_library(amctl::torch ALIAS amctl_torch)
target_include_directories(amctl_torch SYSTEM INTERFACE
  "${AMCTL_TORCH_DIR}/include" "${AMCTL_TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(amctl_torch INTERFACE USE_DISTRIBUTED)
target_link_options(amctl_torch INTERFACE "-Wl,--no-as-needed" "-Wl,-rpath,${_torch_lib}")
target_link_libraries(amctl_torch INTERFACE "${_torch_lib}/libtorch.so" "${_torch_lib}/libtorch_cpu.so" "${_torch_lib}/libc10.so")

find_path(AMCTL_GLOO_INCLUDE gloo/algorithm.h)
if(AMCTL_GLOO_INCLUDE)
  set(AMCTL_HAVE_GLOO ON)
endif()
if(EXISTS "${_torch_lib}/libtorch_cuda.so")
  find_path(AMCTL_CUDA_INCLUDE cuda_runtime_api.h PATHS /usr/local/cuda/include ENV CUDA_HOME PATH_SUFFIXES include)
  file(GLOB _nccl_dirs "${AMCTL_TORCH_DIR}/../nvidia/nccl")
  if(AMCTL_CUDA_INCLUDE AND _nccl_dirs)
    set(AMCTL_HAVE_CUDA ON)
    list(GET _nccl_dirs 0 _nccl)
    file(GLOB _cuda_wheel "${AMCTL_TORCH_DIR}/../nvidia/cu1[0-9]/include")
    target_include_directories(amctl_torch SYSTEM INTERFACE "${AMCTL_CUDA_INCLUDE}" ${_cuda_wheel} "${_nccl}/include")
    target_compile_definitions(amctl_torch INTERFACE USE_C10D_NCCL)
    target_link_options(amctl_torch INTERFACE "-Wl,-rpath,${_nccl}/lib")
    target_link_libraries(amctl_torch INTERFACE "${_torch_lib}/libtorch_cuda.so" "${_torch_lib}/libc10_cuda.so" "${_nccl}/lib/libnccl.so.2")
  else()
    message(STATUS "a CUDA wheel, but no toolkit headers or NCCL wheel: building the CPU parts alone")
  endif()
endif()
