// Random bits from the kernel, as text that is safe in names and paths.
#pragma once

#include <string>

namespace am {

// `length` characters of a–z and 2–7, five random bits each.
std::string RandomBase32(int length);

}  // namespace am
