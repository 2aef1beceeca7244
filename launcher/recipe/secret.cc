#include "launcher/recipe/secret.h"

#include <algorithm>
#include <cctype>

namespace am::recipe {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace

bool IsSecretKey(std::string_view key) {
  std::string name = Lower(key.substr(key.rfind('.') + 1));
  for (std::string_view part : {"password", "passwd", "secret", "api_key", "apikey",
                                "authorization", "credential", "wandb_key", "private_key"}) {
    if (name.find(part) != std::string::npos) return true;
  }
  for (std::string_view whole :
       {"token", "auth", "hf_token", "auth_token", "access_token", "api_token", "use_auth_token"}) {
    if (name == whole) return true;
  }
  return false;
}

bool HoldsSecret(std::string_view line) {
  std::string lower = Lower(line);
  for (std::string_view mark : {"hf_", "sk-"}) {
    // The mark and at least 16 characters of token behind it.
    for (size_t at = lower.find(mark); at != std::string::npos; at = lower.find(mark, at + 1)) {
      size_t end = at + mark.size();
      while (end < lower.size() && std::isalnum(static_cast<unsigned char>(lower[end]))) ++end;
      if (end - at - mark.size() >= 16) return true;
    }
  }
  for (size_t at = 0; at < line.size();) {
    auto in_word = [&](size_t i) {
      return std::isalnum(static_cast<unsigned char>(line[i])) || line[i] == '_';
    };
    while (at < line.size() && !in_word(at)) ++at;
    size_t end = at;
    while (end < line.size() && in_word(end)) ++end;
    size_t next = line.find_first_not_of(" \"'", end);
    bool is_key = next != std::string_view::npos && (line[next] == ':' || line[next] == '=');
    if (is_key && IsSecretKey(line.substr(at, end - at))) return true;
    at = end;
  }
  return false;
}

}  // namespace am::recipe
