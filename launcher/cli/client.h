// Client: the controller as the commands see it: a stub, the credential on every call, and what an
// error means to whoever called.
//   Client client(context);
//   v1::Job job;
//   grpc::Status status = client.Call(&v1::ControllerService::Stub::GetJob, request, job);
//   if (!status.ok()) return client.Fail(status, "get", err);
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <iosfwd>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "amctl/v1/controller.grpc.pb.h"
#include "launcher/cli/command.h"
#include "launcher/cli/context.h"
#include "launcher/cli/words.h"

namespace am::cli {

namespace v1 = amctl::v1;

class Client {
 public:
  explicit Client(ServerContext context);

  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (v1::ControllerService::Stub::*method)(grpc::ClientContext*,
                                                                        const Request&, Reply*),
                    const Request& request, Reply& reply) {
    grpc::ClientContext call;
    Prepare(call);
    return (stub_.get()->*method)(&call, request, &reply);
  }
  // Hands each message of a stream to `take` until that is false.
  grpc::Status Events(const v1::WatchEventsRequest& request,
                      const std::function<bool(const v1::Event&)>& take);
  grpc::Status Logs(const v1::ReadLogsRequest& request,
                    const std::function<bool(const v1::LogChunk&)>& take);

  // Says what went wrong, and how amctl exits for it (DECISION table in common/exit_status.h).
  int Fail(const grpc::Status& status, std::string_view command, std::ostream& err) const;

  const std::string& server() const { return context_.server; }

 private:
  void Prepare(grpc::ClientContext& call) const;

  ServerContext context_;
  std::unique_ptr<v1::ControllerService::Stub> stub_;
};

int ExitStatusOf(grpc::StatusCode code);

// What every command of a client begins with: words, the plain ones counted, and a client. Else it
// has said what is wrong, and `status` is the exit status.
struct Opened {
  Words words;
  std::unique_ptr<Client> client;
  int status = 0;
  explicit operator bool() const { return client != nullptr; }
};
// `plain`: what the plain words are called, e.g. "ID"; each is needed.
Opened Open(const Command& command, CommandContext& context,
            std::initializer_list<std::string_view> plain);

// A message with the names of its fields; 64-bit numbers are numbers.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);
void PrintJson(std::ostream& out, const nlohmann::ordered_json& json);

}  // namespace am::cli
