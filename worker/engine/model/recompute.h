// Activation checkpointing (Chen et al. 2016): keeps a block's inputs alone and runs it again in
// backward.
#pragma once

#include <functional>

#include "worker/engine/model/causal_lm.h"

namespace am::engine {

// `run` must be a pure function of its argument and of parameters; it is called once now without
// recording, and once in backward.
Stream Recompute(const std::function<Stream(const Stream&)>& run, const Stream& stream);

}  // namespace am::engine
