// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/operation.h"

#include <boost/core/demangle.hpp>
#include <map>
#include <stdexcept>

namespace unmask {
namespace {

// Operations register before main(): the table is made when it is first needed.
std::map<std::string, operation_entry>& table() {
  static std::map<std::string, operation_entry> entries;
  return entries;
}

std::string name_of(const std::type_info& params) {
  const std::string full = boost::core::demangle(params.name());
  return full.substr(full.rfind(':') + 1);
}

}  // namespace

std::vector<operation_entry> registered_operations() {
  std::vector<operation_entry> all;
  for (const auto& [name, entry] : table()) all.push_back(entry);
  return all;
}

void detail::enter_operation(const std::type_info& params, target where) {
  const std::string name = name_of(params);
  operation_entry& entry = table()[name];
  entry.name = name;
  bool& has = entry.has[static_cast<std::size_t>(where)];
  if (has) throw std::logic_error("operation " + name + " has two bodies for one backend");
  has = true;
}

void detail::refuse_operation(const std::type_info& params, const backend& backend) {
  throw environment_error("backend " + backend.name() + " has no kernel for " + name_of(params) +
                          " yet; use the cpu backend");
}

}  // namespace unmask
