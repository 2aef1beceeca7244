// Addresses for the store and for Gloo, all numeric: names are resolved forward, once, and never
// backwards (a slow or absent reverse DNS would delay every start). Throws am::Error (kUser for a
// name that does not resolve or a port in use).
#pragma once

#include <string>

namespace am::engine {

// The numeric address of `host`.
std::string ResolveHost(const std::string& host, int port);
// The numeric address of the local interface by which packets leave for `address`: 127.0.0.1 for a
// store on loopback.
std::string LocalAddressTowards(const std::string& address, int port);
// A listening TCP socket on exactly that address and port; the caller owns the descriptor.
int ListenOn(const std::string& address, int port);

}  // namespace am::engine
