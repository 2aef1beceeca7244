// ProgressOutput: the lines of a running job, on standard output and standard error, and the live
// line below them.
//
// Writing has a thread of its own: a pager that does not read, or a terminal that was stopped, must
// not keep the loop from hearing Ctrl-C. When the reader of standard output is gone (`amctl run … |
// head`) the training goes on and standard error says so, once.
//   ProgressOutput output(context.out, context.err, {.live = true, .width = 80});
//   output.Line("step 4 | …");        // standard output
//   output.Message("warning: …");     // standard error
//   output.Live("step 4/100 | …");
#pragma once

#include <condition_variable>
#include <deque>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/clock.h"

namespace am::cli {

class ProgressOutput {
 public:
  struct Options {
    bool live = false;         // both streams are terminals
    std::string lines_are_in;  // what to say of the lines when standard output is closed
  };

  ProgressOutput(std::ostream& out, std::ostream& err, Options options);
  ~ProgressOutput();  // Close()

  void Line(std::string text);
  void Message(std::string text);
  void Live(std::string text);  // the newest one counts

  // Writes what is left. False: a reader did not take it within `patience`, and the thread still
  // waits for that reader, as would a flush at exit: end the process with std::_Exit then.
  bool Close(Duration patience = std::chrono::seconds(2));

 private:
  enum class Target { kOut, kErr };
  struct Item {
    Target target;
    std::string text;
  };
  // All that the writing thread touches; it outlives this object when a reader never reads again.
  struct State;

  void Push(Item item);
  static void Serve(State& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace am::cli
