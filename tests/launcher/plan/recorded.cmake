# Model FLOPs, and the recorded runs against the plan.
am_test(flops_test flops_test.cc DEPS am_plan)
am_test(recorded_test recorded_test.cc recorded_runs.cc DEPS am_plan)
