# What recipes are laid out on: clusters, host lists, placement.
am_test(cluster_test cluster_test.cc device_mesh_test.cc host_list_test.cc placement_test.cc DEPS am_plan)

if(AMCTL_FUZZ)
  add_executable(host_list_fuzz "${PROJECT_SOURCE_DIR}/tests/fuzz/host_list_fuzz.cc")
  target_link_libraries(host_list_fuzz PRIVATE am_plan -fsanitize=fuzzer)
endif()
