// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Numbers of C++ as arrays of numpy, which owns them then.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace unmask::python {

namespace nb = nanobind;

template <class T>
nb::object array_of(std::vector<T> values) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

}  // namespace unmask::python
