# Step times: the model's own tests, and recorded runs with the fit of its calibration to them.
am_test(step_time_test step_time_test.cc step_time_recorded_test.cc step_time_fit.cc recorded_rows.cc
  DEPS am_plan)

add_executable(fit_step_time fit_step_time.cc step_time_fit.cc recorded_rows.cc)
am_configure(fit_step_time DEPS am_plan GTest::gtest)
