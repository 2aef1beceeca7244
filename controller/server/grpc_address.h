// Addresses as gRPC reads them.
#pragma once

#include <string>
#include <string_view>

namespace am::controller {

// "unix:" and the path; gRPC reads it as a URI, so what is no plain character is escaped.
std::string UnixAddress(std::string_view path);

}  // namespace am::controller
