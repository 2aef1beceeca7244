// FunctionRef: a callable passed down a call without owning it, for hot paths where std::function
// would allocate.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace am::text {

template <typename Signature>
class FunctionRef;

template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Fn>
  requires(!std::is_same_v<std::remove_cvref_t<Fn>, FunctionRef>)
      FunctionRef(Fn&& fn)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Fn>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace am::text
