// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The shared memory of kernels/cuda/budget.json, from which tests/sasscheck counts resident blocks: what the launchers
// (kernels/cuda/ops) ask for.
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/cuda/attention_cluster_kernels.h"
#include "kernels/cuda/attention_joined_kernels.h"
#include "kernels/cuda/attention_refresh_kernels.h"
#include "kernels/cuda/few_parts_kernels.h"
#include "kernels/cuda/few_rows_kernels.h"
#include "kernels/cuda/head_product_kernels.h"
#include "kernels/cuda/moe_roles_kernels.h"
#include "kernels/cuda/moe_tensor_kernels.h"

namespace unmask::cuda::emulated {
namespace {

std::size_t tensor(int dim, int rows) {
  return tensor_shared_bytes(dim, rows, tensor_stages);
}
static_assert(few_shared_bytes<few_shape<64>> ==
              few_shared_bytes<few_shape<few_most_rows>>);  // one line of both
template <int tile_rows, int parts>
constexpr std::size_t of_parts = few_shared_bytes<parts_shape<tile_rows, parts>>;

// Dynamic bytes by the beginning of a kernel's name and its template's arguments. An item of attention has 16 rows a
// warp, and as many again for each further row tile.
std::map<std::string, std::size_t> launched() {
  std::map<std::string, std::size_t> all{
      {"attention_cluster_kernel<64, 4", cluster_shared_bytes(64, 64)},
      {"attention_joined_kernel<128, 8", tensor(128, 128) + joined_ticket_bytes},
      {"attention_joined_kernel<128, 4, 2", tensor(128, 128) + joined_ticket_bytes},
      {"attention_joined_kernel<128, 4, 1", tensor(128, 64) + joined_ticket_bytes},
      {"attention_refresh_kernel<128", refresh_shared_bytes<128>},
      {"attention_refresh_kernel<64", refresh_shared_bytes<64>},
      {"attention_tensor_kernel<128, 8", tensor(128, 128)},
      {"attention_tensor_kernel<128, 4, 2, 2", tensor(128, 128)},
      {"attention_tensor_kernel<128, 4, 2, 1, false", tensor(128, 64)},
      {"few_parts_kernel<192, 8", of_parts<192, 8>},
      {"few_parts_kernel<192, 4", of_parts<192, 4>},
      {"few_parts_kernel<64, 8", of_parts<64, 8>},
      {"few_parts_kernel<64, 4", of_parts<64, 4>},
      {"few_rows_kernel<", few_shared_bytes<few_shape<few_most_rows>>},
      {"grouped_roles_kernel<1", roles_shared_bytes},
      {"head_product_kernel<", head_product_shared_bytes},
      {"grouped_wide_kernel<1", wide_shared_bytes},
      {"grouped_tensor_kernel<1", routed_shared_bytes}};
  for (const int warps : {1, 2, 4}) {
    const std::string of = "_kernel<128, " + std::to_string(warps);
    all["attention_cluster" + of] = cluster_shared_bytes(128, warps * 16);
    if (warps == 4) continue;
    all["attention_joined" + of] = tensor(128, warps * 16) + joined_ticket_bytes;
    all["attention_tensor" + of] = tensor(128, warps * 16);
  }
  return all;
}

TEST(budget, shared_memory_is_what_launchers_ask_for) {
  std::ifstream file(std::string(UNMASK_SOURCE_DIR) + "/kernels/cuda/budget.json");
  const auto lines = nlohmann::json::parse(file).at("resident_blocks");
  std::map<std::string, std::size_t> budgeted;
  for (const auto& [kernel, line] : lines.items()) budgeted[kernel] = line.at("shared");
  const std::map<std::string, std::size_t> asked = launched();
  EXPECT_EQ(budgeted.size(), asked.size());
  for (const auto& [kernel, bytes] : asked) EXPECT_EQ(budgeted[kernel], bytes) << kernel;
}

}  // namespace
}  // namespace unmask::cuda::emulated
