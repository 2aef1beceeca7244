#include "controller/server/grpc_address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace am::controller {

std::string UnixAddress(std::string_view path) {
  std::string address = "unix:";
  for (unsigned char c : path) {
    if (absl::ascii_isalnum(c) || c == '/' || c == '-' || c == '.' || c == '_') {
      address += static_cast<char>(c);
    } else {
      absl::StrAppend(&address, "%", absl::Hex(c, absl::kZeroPad2));
    }
  }
  return address;
}

}  // namespace am::controller
