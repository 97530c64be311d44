// Modules and functions one behind the other.
#pragma once
#include <functional>

#include "module.hpp"

namespace metac::nn {

// Parts are modules and functions of one Var; parameters are named by their part's position:
//
//   nn::Sequential net(nn::Linear(64, 32), relu, nn::Linear(32, 10), [](const Var& x) { return softmax(x); });
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class... Parts>
  requires(sizeof...(Parts) > 0 && !(sizeof...(Parts) == 1 && (std::same_as<std::remove_cvref_t<Parts>, Sequential> &&
                                                               ...))) explicit Sequential(Parts... parts) {
    (append(std::move(parts)), ...);
  }

  // One more at the end. Also how a Sequential becomes the first part of another one; copies made before do not have it.
  template <class Part>
  void append(Part part) {
    constexpr bool placed = std::is_invocable_r_v<Var, Part&, const Var&, Place>;
    static_assert(placed || std::is_invocable_r_v<Var, Part&, const Var&>,
                  "a part of a Sequential is a module or a function from one Var to another");
    if constexpr (std::derived_from<Part, Module>) add(std::to_string(calls_.size()), part);
    calls_.push_back([part = std::move(part)](const Var& x, [[maybe_unused]] Place where) mutable -> Var {
      if constexpr (placed)
        return part(x, where);
      else
        return part(x);
    });
  }

  Var operator()(const Var& x, Place where = Place::current()) const {
    Var y = x;
    for (const auto& call : calls_) y = call(y, where);
    return y;
  }

 private:
  std::vector<std::function<Var(const Var&, Place)>> calls_;
};

}  // namespace metac::nn
