#include "worker/engine/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/error.h"

namespace am::engine {
namespace {

constexpr double kPi = 3.14159265358979323846;

[[noreturn]] void Refuse(const std::string& key, const std::string& what) {
  throw UserError("lr_scheduler." + key + ": " + what);
}

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

// From 1 at progress 0 to 0 at progress 1.
double Fall(const std::string& style, double progress) {
  if (style == "linear") return 1 - progress;
  if (style == "cosine") return 0.5 * (1 + std::cos(kPi * progress));
  if (style == "exponential") return 2 * std::pow(0.5, progress) - 1;
  return 1 - std::sqrt(progress);  // minus_sqrt
}

bool OneOf(const std::string& value, std::initializer_list<const char*> allowed) {
  return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

}  // namespace

LrSchedule::LrSchedule(const std::optional<LrSchedulerSpec>& spec, double base_lr,
                       double base_weight_decay, int64_t total_steps)
    : base_lr_(base_lr), base_weight_decay_(base_weight_decay) {
  if (!spec) return;
  constant_ = false;
  const int64_t total = std::max<int64_t>(total_steps, 1);
  spec_ = *spec;
  // What the recipe leaves open, so that the formulas below need no cases.
  if (!spec_.lr_warmup_steps) spec_.lr_warmup_steps = std::min<int64_t>(1000, total / 10);
  if (!spec_.lr_decay_steps) spec_.lr_decay_steps = total;
  if (!spec_.init_lr) spec_.init_lr = 0.1 * base_lr;
  if (!spec_.max_lr) spec_.max_lr = base_lr;
  if (!spec_.min_lr) spec_.min_lr = 0.01 * base_lr;
  if (!spec_.start_wd) spec_.start_wd = base_weight_decay;
  if (!spec_.end_wd) spec_.end_wd = base_weight_decay;
  if (!spec_.wd_incr_steps) spec_.wd_incr_steps = total;

  if (!OneOf(spec_.lr_decay_style,
             {"constant", "linear", "cosine", "inverse-square-root", "WSD"})) {
    Refuse("lr_decay_style", "unknown style '" + spec_.lr_decay_style +
                                 "'; use constant, linear, cosine, inverse-square-root or WSD");
  }
  if (!OneOf(spec_.wd_incr_style, {"constant", "linear", "cosine"})) {
    Refuse("wd_incr_style",
           "unknown style '" + spec_.wd_incr_style + "'; use constant, linear or cosine");
  }
  if (!OneOf(spec_.lr_wsd_decay_style, {"linear", "cosine", "exponential", "minus_sqrt"})) {
    Refuse("lr_wsd_decay_style", "unknown style '" + spec_.lr_wsd_decay_style +
                                     "'; use linear, cosine, exponential or minus_sqrt");
  }
  if (*spec_.min_lr > *spec_.max_lr) {
    Refuse("min_lr", Text(*spec_.min_lr) + " is above max_lr " + Text(*spec_.max_lr));
  }
  if (*spec_.init_lr > *spec_.max_lr) {
    Refuse("init_lr", Text(*spec_.init_lr) + " is above max_lr " + Text(*spec_.max_lr));
  }
  if (*spec_.lr_warmup_steps < 0 || *spec_.lr_warmup_steps >= *spec_.lr_decay_steps) {
    Refuse("lr_warmup_steps", std::to_string(*spec_.lr_warmup_steps) +
                                  "; use 0 to lr_decay_steps - 1, which is " +
                                  std::to_string(*spec_.lr_decay_steps - 1));
  }
  if (spec_.lr_decay_style == "WSD") {
    if (!spec_.wsd_decay_steps) {
      Refuse("wsd_decay_steps", "missing; the style WSD needs the number of steps it falls over");
    }
    if (*spec_.wsd_decay_steps < 1 || *spec_.wsd_decay_steps > *spec_.lr_decay_steps) {
      Refuse("wsd_decay_steps", std::to_string(*spec_.wsd_decay_steps) +
                                    "; use 1 to lr_decay_steps, which is " +
                                    std::to_string(*spec_.lr_decay_steps));
    }
  }
  if (spec_.wd_incr_style == "constant" && *spec_.start_wd != *spec_.end_wd) {
    Refuse("wd_incr_style", "constant, but start_wd is " + Text(*spec_.start_wd) + " and end_wd " +
                                Text(*spec_.end_wd) + "; use linear or cosine");
  }
}

double LrSchedule::LearningRate(int64_t steps_taken) const {
  if (constant_) return base_lr_;
  const double n = static_cast<double>(steps_taken);
  const double warmup = static_cast<double>(*spec_.lr_warmup_steps);
  const double decay = static_cast<double>(*spec_.lr_decay_steps);
  const double max_lr = *spec_.max_lr;
  const double min_lr = *spec_.min_lr;
  if (warmup > 0 && n <= warmup) return *spec_.init_lr + (max_lr - *spec_.init_lr) * n / warmup;
  if (spec_.lr_decay_style == "constant") return max_lr;
  if (n > decay) return min_lr;
  if (spec_.lr_decay_style == "inverse-square-root") {
    return std::max(min_lr,
                    max_lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  }
  double fall = 1;
  if (spec_.lr_decay_style == "WSD") {
    const double length = static_cast<double>(*spec_.wsd_decay_steps);
    const double begin = decay - length;
    if (n > begin) fall = Fall(spec_.lr_wsd_decay_style, (n - begin) / length);
  } else {
    fall = Fall(spec_.lr_decay_style, (n - warmup) / (decay - warmup));
  }
  return min_lr + fall * (max_lr - min_lr);
}

double LrSchedule::WeightDecay(int64_t steps_taken) const {
  if (constant_) return base_weight_decay_;
  const double steps = static_cast<double>(*spec_.wd_incr_steps);
  if (spec_.wd_incr_style == "constant" || steps_taken >= *spec_.wd_incr_steps || steps <= 0) {
    return *spec_.end_wd;
  }
  const double rise = 1 - Fall(spec_.wd_incr_style, static_cast<double>(steps_taken) / steps);
  return *spec_.start_wd + rise * (*spec_.end_wd - *spec_.start_wd);
}

}  // namespace am::engine
