# Model FLOPs, samples of image models, and the recorded runs against the plan.
am_test(flops_test flops_test.cc DEPS am_plan)
am_test(recorded_test recorded_test.cc recorded_runs.cc recorded_page_test.cc DEPS am_plan)
am_test(image_sample_test image_sample_test.cc DEPS am_plan)
