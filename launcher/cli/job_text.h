// Jobs and nodes of the controller as text for people. Pure.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <string>

#include "amctl/v1/controller.pb.h"

namespace am::cli {

// A line each, behind a line of titles. `now_unix_ns` for ages.
std::string JobTable(const google::protobuf::RepeatedPtrField<amctl::v1::Job>& jobs,
                     int64_t now_unix_ns);
std::string NodeTable(const google::protobuf::RepeatedPtrField<amctl::v1::Node>& nodes,
                      int64_t now_unix_ns);
// A page: what it is, why it waits or failed, its ranks, where its time went.
std::string JobPage(const amctl::v1::Job& job, int64_t now_unix_ns);
// "2030-05-01 12:00:00  phase     Running: attempt 1"
std::string EventLine(const amctl::v1::Event& event, bool with_job);

// "12 s", "3:07:09"
std::string Age(int64_t from_unix_ns, int64_t to_unix_ns);

bool HasEnded(const amctl::v1::Job& job);

}  // namespace am::cli
