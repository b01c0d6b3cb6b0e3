// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/base/ranks/tcp_connection.h"
#include "harness/base/ranks/transport.h"

namespace unmask {

// Of ranks that have joined: connections to all others, and the one to rank 0. `machine`: of rank 0.
std::unique_ptr<rank_transport> tcp_transport_of_rank_0(std::vector<tcp_connection> others,
                                                        const std::string& machine);
std::unique_ptr<rank_transport> tcp_transport_of_rank(int rank, int ranks, tcp_connection to_first);

}  // namespace unmask
