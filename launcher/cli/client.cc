#include "launcher/cli/client.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <ostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/exit_status.h"
#include "controller/server/grpc_address.h"

namespace am::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kUnix[] = "unix:";
constexpr int kMostMessageBytes = 64 << 20;

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

template <typename Request, typename Reply>
grpc::Status ReadStream(grpc::ClientContext& call, grpc::ClientReader<Reply>& reader,
                        const std::function<bool(const Reply&)>& take) {
  Reply message;
  bool enough = false;
  while (!enough && reader.Read(&message)) enough = !take(message);
  if (enough) call.TryCancel();
  grpc::Status status = reader.Finish();
  return enough ? grpc::Status::OK : status;
}

// One value of a field: the `index`-th of a repeated one, -1 of another.
nlohmann::ordered_json ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& read = *message.GetReflection();
  bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? read.GetInt32(message, &field) : read.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? read.GetInt64(message, &field) : read.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? read.GetUInt32(message, &field) : read.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? read.GetUInt64(message, &field) : read.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? read.GetDouble(message, &field) : read.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? read.GetFloat(message, &field) : read.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? read.GetBool(message, &field) : read.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (one ? read.GetEnum(message, &field) : read.GetRepeatedEnum(message, &field, index))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? read.GetString(message, &field) : read.GetRepeatedString(message, &field, index);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(one ? read.GetMessage(message, &field)
                        : read.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

}  // namespace

Client::Client(ServerContext context) : context_(std::move(context)) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  std::string address = context_.server;
  if (absl::StartsWith(address, kUnix)) {
    address = controller::UnixAddress(std::string_view(address).substr(sizeof kUnix - 1));
  }
  stub_ = v1::ControllerService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

void Client::Prepare(grpc::ClientContext& call) const {
  if (!context_.token.empty()) call.AddMetadata("authorization", "Bearer " + context_.token);
}

grpc::Status Client::Events(const v1::WatchEventsRequest& request,
                            const std::function<bool(const v1::Event&)>& take) {
  grpc::ClientContext call;
  Prepare(call);
  return ReadStream<v1::WatchEventsRequest>(call, *stub_->WatchEvents(&call, request), take);
}

grpc::Status Client::Logs(const v1::ReadLogsRequest& request,
                          const std::function<bool(const v1::LogChunk&)>& take) {
  grpc::ClientContext call;
  Prepare(call);
  return ReadStream<v1::ReadLogsRequest>(call, *stub_->ReadLogs(&call, request), take);
}

int ExitStatusOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return kExitDone;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return kExitUnreachable;
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return kExitRefused;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNIMPLEMENTED:
      return kExitUsage;
    default:
      return kExitInfrastructure;
  }
}

int Client::Fail(const grpc::Status& status, std::string_view command, std::ostream& err) const {
  int exit_status = ExitStatusOf(status.error_code());
  std::string message = status.error_message();
  while (!message.empty() && message.back() == '\n') message.pop_back();
  if (exit_status == kExitUnreachable) {
    err << "amctl " << command << ": the controller at " << context_.server
        << " cannot be reached: " << message
        << "; start am-controller, or name another with --server or AMCTL_SERVER\n";
  } else if (absl::StrContains(message, ": error: ")) {  // diagnostics of a recipe: they say where
    err << message << '\n';
  } else {
    err << "amctl " << command << ": " << message << '\n';
  }
  return exit_status;
}

Opened Open(const Command& command, CommandContext& context,
            std::initializer_list<std::string_view> plain) {
  Opened opened;
  auto fail = [&](absl::string_view message) {
    context.err << "amctl " << command.name << ": " << message << " (amctl help " << command.name
                << ")\n";
    opened.status = kExitUsage;
    return std::move(opened);
  };
  absl::StatusOr<Words> words = SplitWords(command, context.args);
  if (!words.ok()) return fail(words.status().message());
  opened.words = std::move(*words);
  const std::vector<std::string>& given = opened.words.plain;
  if (given.size() < plain.size()) {
    return fail(absl::StrCat(Abseil(std::data(plain)[given.size()]), " is missing"));
  }
  if (given.size() > plain.size()) {
    return fail(absl::StrCat("unexpected word '", given[plain.size()], "'"));
  }
  absl::StatusOr<ServerContext> server = FindServer(opened.words);
  if (!server.ok()) return fail(server.status().message());
  opened.client = std::make_unique<Client>(std::move(*server));
  return opened;
}

nlohmann::ordered_json ToJson(const Message& message) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor& field = *descriptor->field(i);
    if (field.is_repeated()) {
      nlohmann::ordered_json list = nlohmann::ordered_json::array();
      int size = message.GetReflection()->FieldSize(message, &field);
      for (int index = 0; index < size; ++index) list.push_back(ValueOf(message, field, index));
      json[field.name()] = std::move(list);
    } else {
      json[field.name()] = ValueOf(message, field, -1);
    }
  }
  return json;
}

void PrintJson(std::ostream& out, const nlohmann::ordered_json& json) {
  out << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

}  // namespace am::cli
