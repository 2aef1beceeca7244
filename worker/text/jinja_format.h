// Python's two ways to format strings: `text % values` and `text.format(...)`.
#pragma once

#include <string>

#include "worker/text/jinja_value.h"

namespace am::text::jinja {

// `values`: a tuple, a dict for %(name)s, or a single value.
std::string PercentFormat(const std::string& format, const Value& values);
std::string BraceFormat(const std::string& format, const Arguments& arguments);
// format(value, spec)
std::string FormatValue(const Value& value, const std::string& spec);

}  // namespace am::text::jinja
