#include "launcher/cli/progress_output.h"

#include <memory>
#include <ostream>
#include <utility>

namespace am::cli {
namespace {

constexpr char kEraseLine[] = "\r\x1b[K";

}  // namespace

struct ProgressOutput::State {
  std::ostream& out;
  std::ostream& err;
  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;     // guarded by mutex
  std::string live;           // guarded by mutex
  bool live_changed = false;  // guarded by mutex
  bool closing = false;       // guarded by mutex
  bool done = false;          // guarded by mutex
};

ProgressOutput::ProgressOutput(std::ostream& out, std::ostream& err, Options options)
    : state_(new State{.out = out, .err = err, .options = std::move(options)}),
      thread_([state = state_] { Serve(*state); }) {}

ProgressOutput::~ProgressOutput() { Close(); }

void ProgressOutput::Line(std::string text) { Push({Target::kOut, std::move(text)}); }
void ProgressOutput::Message(std::string text) { Push({Target::kErr, std::move(text)}); }

void ProgressOutput::Live(std::string text) {
  if (!state_->options.live) return;
  std::lock_guard lock(state_->mutex);
  state_->live = std::move(text);
  state_->live_changed = true;
  state_->changed.notify_all();
}

void ProgressOutput::Push(Item item) {
  std::lock_guard lock(state_->mutex);
  state_->items.push_back(std::move(item));
  state_->changed.notify_all();
}

bool ProgressOutput::Close(Duration patience) {
  if (!thread_.joinable()) return true;
  std::unique_lock lock(state_->mutex);
  state_->closing = true;
  state_->live.clear();
  state_->live_changed = true;
  state_->changed.notify_all();
  bool done = state_->changed.wait_for(lock, patience, [&] { return state_->done; });
  lock.unlock();
  if (done) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return done;
}

void ProgressOutput::Serve(State& state) {
  bool live_shown = false;
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.changed.wait(lock,
                       [&] { return !state.items.empty() || state.live_changed || state.closing; });
    std::deque<Item> items = std::exchange(state.items, {});
    std::string live = state.live;
    state.live_changed = false;
    bool closing = state.closing;
    lock.unlock();

    if (live_shown) state.err << kEraseLine << std::flush;
    bool was_good = state.out.good();
    for (const Item& item : items) {
      if (item.target == Target::kErr) {
        state.err << item.text << '\n' << std::flush;
      } else if (state.out.good()) {
        state.out << item.text << '\n' << std::flush;
      }
    }
    if (was_good && !state.out.good()) {
      state.err << "amctl: standard output was closed; the training goes on"
                << (state.options.lines_are_in.empty() ? "" : ", its lines are in ")
                << state.options.lines_are_in << '\n'
                << std::flush;
    }
    live_shown = !live.empty();
    if (live_shown) state.err << live << std::flush;

    lock.lock();
    if (closing && state.items.empty()) break;
  }
  state.done = true;
  state.changed.notify_all();
}

}  // namespace am::cli
