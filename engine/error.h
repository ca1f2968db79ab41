// SPDX-License-Identifier: MIT
// Three kinds of trouble, never mixed: bad input is an Error, a broken engine is an EngineError,
// and a mistake of this program is an InternalError. That two computations differ is none of them:
// it is a value.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kvcheck {

// Bad input or a refused request: wrong file, wrong option, id out of range. Exit code 2.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The engine under test, or its protocol, failed: no statement about the cache. Exit code 4.
struct EngineError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A mistake of kvcheck itself. Exit code 70.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

// What one line about bad input says.
struct Complaint {
  std::string_view where;     // file, option or field
  std::string_view what;      // what is wrong there
  std::string_view expected;  // what would be right
  std::string_view got;       // what was found
};

// "<where>: <what>, expected <expected>, got <got>"
[[nodiscard]] Error bad_input(const Complaint& complaint);

// Throws InternalError unless `condition` holds; stays on in every build.
inline void require(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace kvcheck
