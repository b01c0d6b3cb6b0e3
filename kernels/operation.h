// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What an operation is. An operation is a struct of parameters in namespace op and one free
// function, its body, for each backend that has one:
//
//   struct op::pool { ... };                                            in a header
//   void pool(const op::pool& args) { ... }                             plain loops
//   const register_operations<pool> registered(target::reference);
//   void pool(const device_backend& device, const op::pool& args) { ... }   launches kernels (.cu)
//   const register_operations<pool> registered(this_target);
//
// Whoever needs it says backend.run(op::pool{...}). The reference is the definition of right; the
// CPU backend uses it where it has no body of its own, and another backend without one refuses by
// name. A body may take the backend as its first parameter, to run other operations there. An
// operation that returns a value says `using result = ...;`.
//
// One that sums or averages over heads says so by `head_sum over_heads() const`. If several ranks hold
// the heads of a model (ranks.h), run() then adds up what each of them found.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "kernels/backend.h"

namespace unmask {

// One operation as the registry knows it.
struct operation_entry {
  std::string name;        // "top_indices"
  bool has[targets] = {};  // whether a target has a body of its own
};
// Every operation of this program, by name.
std::vector<operation_entry> registered_operations();

// What an operation makes of all heads it is given: `count` floats, in memory that the host sees.
struct head_sum {
  float* data = nullptr;  // null, or count 0: nothing this time
  std::int64_t count = 0;
  std::int64_t heads = 0;  // of this rank, whose mean data is; 0: data is a sum
  bool grows = false;      // the operation adds to what is there
};

namespace detail {

bool has_ranks();
// The sum over ranks behind an operation: made before it runs, add() after it.
class head_sums {
 public:
  explicit head_sums(const head_sum& of);
  // Collective. Sums and means are taken in float64, in rank order, and rounded once.
  void add();

 private:
  head_sum of_;
  std::vector<float> before_;  // of one that grows
};

template <class P>
struct result_of {
  using type = void;
};
template <class P>
requires requires {
  typename P::result;
}
struct result_of<P> {
  using type = typename P::result;
};

// The bodies of operation P; null where a target has none.
template <class P>
struct bodies {
  using body = typename result_of<P>::type (*)(const backend&, const P&);
  static inline body of[targets] = {};
};

void enter_operation(const std::type_info& params, target where);
[[noreturn]] void refuse_operation(const std::type_info& params, const backend& backend);

// From a body to the one signature that all are called by.
template <auto body, class F = decltype(body)>
struct adapter;
template <auto body, class R, class P>
struct adapter<body, R (*)(const P&)> {
  using params = P;
  static R call(const backend&, const P& args) { return body(args); }
};
template <auto body, class R, class B, class P>
struct adapter<body, R (*)(const B&, const P&)> {
  using params = P;
  static R call(const backend& backend, const P& args) {
    return body(static_cast<const B&>(backend), args);
  }
};

}  // namespace detail

template <auto... body>
class register_operations {
 public:
  explicit register_operations(target where) { (enter<detail::adapter<body>>(where), ...); }

 private:
  template <class A>
  static void enter(target where) {
    using params = typename A::params;
    detail::bodies<params>::of[static_cast<std::size_t>(where)] = A::call;
    detail::enter_operation(typeid(params), where);
  }
};

template <class P>
auto backend::run(const P& args) const {
  auto body = detail::bodies<P>::of[static_cast<std::size_t>(where_)];
  if (body == nullptr && where_ == target::cpu) {
    body = detail::bodies<P>::of[static_cast<std::size_t>(target::reference)];
  }
  if (body == nullptr) detail::refuse_operation(typeid(P), *this);
  if constexpr (requires { args.over_heads(); }) {
    if (detail::has_ranks()) {
      detail::head_sums sums(args.over_heads());
      body(*this, args);
      sums.add();
      return;
    }
  }
  return body(*this, args);
}

// Whether the backend has a body of its own for an operation.
template <class P>
bool has_own(const backend& backend) {
  return detail::bodies<P>::of[static_cast<std::size_t>(backend.where())] != nullptr;
}

}  // namespace unmask
