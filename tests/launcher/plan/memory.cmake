# Estimates of memory: terms, published figures, recorded runs.
am_test(memory_test memory_test.cc memory_published_test.cc DEPS am_plan)
# Prints what the estimate counts for a layer: tests/interop compares it with autograd's saved tensors.
add_executable(am-activations activations_main.cc)
target_link_libraries(am-activations PRIVATE am_plan)
