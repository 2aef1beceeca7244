#include "controller/server/api_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/file.h"
#include "controller/server/grpc_address.h"
#include "tests/support/temporary_folder.h"

namespace am::controller {
namespace {

namespace v1 = amctl::v1;
using testing::HasSubstr;

class NoNodes final : public Backend {
 public:
  void Start(const JobSpec&, const Placement&, const StartRanks&) override {}
  void Rendezvous(const JobSpec&, const Placement&, const SendRendezvous&) override {}
  void Leave(const JobSpec&, const Placement&, const LeaveRanks&) override {}
  void Kill(const JobSpec&, const Placement&, const KillRanks&) override {}
  void Forget(const std::string&, int64_t, const Placement&) override {}
};

// A controller without nodes, on a port and on a unix socket.
class ApiServerTest : public testing::Test {
 protected:
  ApiServerTest() {
    EXPECT_TRUE(controller_.Load().ok());
    for (Role role : {Role::kViewer, Role::kSubmitter, Role::kAdmin}) {
      tokens_.push_back(*AddToken(folder_ / "tokens", {std::string(Name(role)), role}));
    }
    audit_ = *AuditLog::Open(folder_ / "audit.jsonl", clock_);
    context_.emplace(ServiceContext{.loop = loop_,
                                    .controller = controller_,
                                    .store = *store_,
                                    .audit = *audit_,
                                    .clock = clock_,
                                    .machine = plan::LocalCluster({.cores = 2}),
                                    .state_dir = folder_.path(),
                                    .version = "1.2.3"});
    auto tcp = ApiServer::Listen(*context_, {"127.0.0.1:0", folder_ / "tokens"});
    EXPECT_TRUE(tcp.ok()) << tcp.status();
    tcp_ = std::move(*tcp);
    auto local = ApiServer::Listen(*context_, {"unix:" + (folder_ / "c.sock"), ""});
    EXPECT_TRUE(local.ok()) << local.status();
    unix_ = std::move(*local);
    thread_ = std::thread([this] { loop_.Run(); });
  }

  ~ApiServerTest() override {
    tcp_->Shutdown();
    unix_->Shutdown();
    loop_.Stop();
    thread_.join();
  }

  std::unique_ptr<v1::ControllerService::Stub> Stub(const ApiServer& server) {
    return v1::ControllerService::NewStub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  }

  static void Authorize(grpc::ClientContext& call, const std::string& token) {
    call.AddMetadata("authorization", "Bearer " + token);
  }

  std::string Audit() { return ReadFile(folder_ / "audit.jsonl").value_or(""); }

  TemporaryFolder folder_;
  SystemClock clock_;
  EventLoop loop_{clock_};
  std::unique_ptr<Store> store_ = MakeMemoryStore();
  NoNodes backend_;
  Controller controller_{loop_, *store_, backend_, {}};
  std::vector<std::string> tokens_;  // by role
  std::unique_ptr<AuditLog> audit_;
  std::optional<ServiceContext> context_;
  std::unique_ptr<ApiServer> tcp_, unix_;
  std::thread thread_;
};

TEST_F(ApiServerTest, EveryMethodButVersionRefusesACallWithoutACredential) {
  auto channel = grpc::CreateChannel(tcp_->address(), grpc::InsecureChannelCredentials());
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      "amctl.v1.ControllerService");
  ASSERT_NE(service, nullptr);
  ASSERT_GE(service->method_count(), 9);
  for (int i = 0; i < service->method_count(); ++i) {
    std::string name = service->method(i)->name();
    for (const char* token : {"", "wrong"}) {
      grpc::ClientContext call;
      if (*token != '\0') Authorize(call, token);
      std::string path = "/amctl.v1.ControllerService/" + name;
      grpc::internal::RpcMethod method(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
      grpc::ByteBuffer request, reply;
      grpc::Slice nothing;
      request = grpc::ByteBuffer(&nothing, 1);
      grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
          channel.get(), method, &call, request, &reply);
      EXPECT_EQ(status.error_code(),
                name == "Version" ? grpc::StatusCode::OK : grpc::StatusCode::UNAUTHENTICATED)
          << name << " with '" << token << "': " << status.error_message();
    }
  }
}

TEST_F(ApiServerTest, ARoleMayNoMoreThanItsOwn) {
  auto stub = Stub(*tcp_);
  auto submit = [&](Role role) {
    grpc::ClientContext call;
    Authorize(call, tokens_[static_cast<size_t>(role)]);
    v1::SubmitReply reply;
    return stub->Submit(&call, {}, &reply).error_code();
  };
  auto drain = [&](Role role) {
    grpc::ClientContext call;
    Authorize(call, tokens_[static_cast<size_t>(role)]);
    v1::DrainNodeRequest request;
    request.set_name("one");
    v1::Node reply;
    return stub->DrainNode(&call, request, &reply).error_code();
  };
  auto list = [&](Role role) {
    grpc::ClientContext call;
    Authorize(call, tokens_[static_cast<size_t>(role)]);
    v1::ListJobsReply reply;
    return stub->ListJobs(&call, {}, &reply).error_code();
  };
  EXPECT_EQ(list(Role::kViewer), grpc::StatusCode::OK);
  EXPECT_EQ(submit(Role::kViewer), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(submit(Role::kSubmitter), grpc::StatusCode::INVALID_ARGUMENT) << "but admitted";
  EXPECT_EQ(drain(Role::kSubmitter), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(drain(Role::kAdmin), grpc::StatusCode::NOT_FOUND) << "but admitted";
  EXPECT_THAT(Audit(), HasSubstr(R"("who":"viewer","role":"viewer")"));
  EXPECT_THAT(Audit(), HasSubstr(R"("what":"DrainNode","node":"one","status":"NOT_FOUND")"))
      << Audit();
}

TEST_F(ApiServerTest, AProcessOfThisUserIsAnAdminOnTheUnixSocket) {
  auto stub = Stub(*unix_);
  grpc::ClientContext call;
  v1::ListNodesReply nodes;
  EXPECT_TRUE(stub->ListNodes(&call, {}, &nodes).ok());
  grpc::ClientContext again;
  v1::VersionReply version;
  EXPECT_TRUE(stub->Version(&again, {}, &version).ok());
  EXPECT_EQ(version.version(), "1.2.3");
}

TEST_F(ApiServerTest, AnUnknownJobIsNotFound) {
  auto stub = Stub(*unix_);
  v1::GetJobRequest get;
  get.set_id("am-nosuchjob");
  grpc::ClientContext first, second;
  v1::Job job;
  EXPECT_EQ(stub->GetJob(&first, get, &job).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::ReadLogsRequest logs;
  logs.set_job("am-nosuchjob");
  auto reader = stub->ReadLogs(&second, logs);
  v1::LogChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ApiServerTest, AStreamThatFollowsEndsWhenItsClientGoesOrTheServerDoes) {
  auto stub = Stub(*unix_);
  v1::WatchEventsRequest watch;
  watch.set_follow(true);
  grpc::ClientContext mine, other;
  auto first = stub->WatchEvents(&mine, watch);
  auto second = stub->WatchEvents(&other, watch);
  mine.TryCancel();
  EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::CANCELLED);
  unix_->Shutdown();
  v1::Event event;
  EXPECT_FALSE(second->Read(&event));
  EXPECT_FALSE(second->Finish().ok());
}

TEST_F(ApiServerTest, ASocketThatIsInUseIsNotTakenAway) {
  EXPECT_EQ(RemoveStaleSocket(folder_ / "c.sock").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(RemoveStaleSocket(folder_ / "none.sock").ok());
}

}  // namespace
}  // namespace am::controller
