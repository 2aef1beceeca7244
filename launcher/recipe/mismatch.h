// mismatch: what to say of a value that is not what its key asks for: what was read, as it may be
// shown, and what was probably meant. Asked by bind.h where a node fails its type. Pure.
//   out.push_back(Mismatch(key, node, "optimizer.lr", ScalarHint(key, text, node, path)));
#pragma once

#include <optional>
#include <string>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {

inline constexpr size_t kShownText = 80;  // of a value, in a message

// A node for a message: as it was written, so that nothing of the environment is shown; secrets are
// starred out.
std::string Shown(const Node& node, const std::string& path);

// "expected an integer of at least 1, got 1.5".
Diagnostic Mismatch(const Key& key, const Node& node, const std::string& path,
                    std::string hint = "");
// The same where a map of keys is expected.
Diagnostic NotAMap(const Node& node, const std::string& path);

// What was probably meant by a scalar that is not of the key's type; `text` is the node's,
// expanded.
std::string ScalarHint(const Key& key, const std::string& text, const Node& node,
                       const std::string& path);

// `(0.9, 0.95)` or `0.9,0.95`, as Python and its users write it.
std::optional<Node> PythonSequence(const Node& node);

// Quotes that a word processor made are part of the text.
std::optional<Diagnostic> QuoteRemark(const Node& node, const std::string& path);

}  // namespace am::recipe
