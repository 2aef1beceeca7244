// Which keys hold secrets, so that no message, log or saved recipe repeats them.
#pragma once

#include <string>
#include <string_view>

namespace am::recipe {

inline constexpr std::string_view kStars = "******";

// password, secret, api_key, authorization, hf_token, …; not bos_token or num_tokens.
bool IsSecretKey(std::string_view key);
// A line of YAML or an argument whose key is one, or that holds a well-known form of token (hf_…,
// sk-…).
bool HoldsSecret(std::string_view line);

}  // namespace am::recipe
