// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The emulator finds the bugs that it is there to find: small kernels, right and then each with
// one planted fault.
#include <gtest/gtest.h>

#include <numeric>
#include <regex>
#include <vector>

#include "kernels/cuda/device/clusters.h"
#include "kernels/cuda/device/portable.h"
#include "kernels/cuda/emulation.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::emulated {
namespace {

using emulator::emulation_error;

enum class fault {
  none,
  no_barrier,        // a tile is read before the other warps have filled it
  no_reuse_barrier,  // a tile is overwritten while other warps still read it
  no_copy_wait,
  wrong_swizzle,
  mask_off_by_one,
  no_copy_fence,
  no_product_wait,  // a tile is overwritten that a product may still read
  no_sum_wait,
  no_begin,             // what registers hold may not be there yet
  other_operands,       // one warp of a group names another tile
  half_a_group,         // two warps of a group leave a product out
  overwritten_operand,  // a register that a product may still read
  divergent_collective,
  divergent_barrier,
  outside_array,
  too_much_shared,
  guard_overwritten,
  unaligned_copy,
  unkept_start,      // a block of the cluster is read that may not have begun
  no_cluster_reuse,  // what a block keeps is overwritten while others of the cluster still read it
  unkept_end,        // a block of the cluster ends while others may still read it
  no_such_block,
  missing_block  // a block of the cluster ends, and others go on
};

// out[i] = a^T b of bfloat16 columns, by ldmatrix and mma over double-buffered swizzled tiles: the
// way a tensor-core kernel of this backend moves its data. a [k, 16], b [k, 8] row-major; out
// [16, 8] sums the first `depth` of k rows.
struct tile_params {
  const std::uint16_t* a;  // [k, 16]
  const std::uint16_t* b;  // [k, 8]
  float* out;              // [warps, 16, 8]
  int k, depth;
  fault plant;
};

// 16 rows of 16 halves: 32 bytes a row, two 16-byte pieces, exchanged on odd row pairs.
int swizzled(int row, int piece) {
  return row * 16 + ((piece ^ ((row >> 2) & 1)) << 3);
}

UNMASK_KERNEL void tile_kernel(tile_params p) {
  shared_allocator shared;
  const shared_array<std::uint16_t> a = shared.take<std::uint16_t>(2 * 16 * 16);
  const shared_array<std::uint16_t> b = shared.take<std::uint16_t>(2 * 16 * 8);
  const int lane = lane_index(), tiles = (p.k + 15) / 16;
  const bool loader = warp_index() == 0;  // for all; the others depend on its barriers
  const auto load = [&](int tile) {
    if (loader) {
      const int stage = tile % 2, row = lane / 2, piece = lane % 2, k = tile * 16 + row;
      const bool valid = k < p.k;
      const int source = valid ? k : 0;
      copy_async_16(a.data() + stage * 256 + swizzled(row, piece), p.a + source * 16 + piece * 8,
                    valid);
      if (lane < 16) {
        const int deep = tile * 16 + lane;
        copy_async_16(b.data() + stage * 128 + lane * 8, p.b + (deep < p.k ? deep : 0) * 8,
                      deep < p.k);
      }
    }
    copy_async_commit();
  };
  float c[4] = {0, 0, 0, 0};
  load(0);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      load(t + 1);
      if (p.plant != fault::no_copy_wait) copy_async_wait<1>();
    } else if (p.plant != fault::no_copy_wait) {
      copy_async_wait<0>();
    }
    if (p.plant != fault::no_barrier) sync_block();
    const int limit = p.plant == fault::mask_off_by_one ? p.depth + 1 : p.depth;
    if (loader && (t + 1) * 16 > limit) {
      for (int i = lane; i < 128; i += warp_size) {
        if (t * 16 + i / 8 >= limit) b[t % 2 * 128 + i] = 0;
      }
    }
    sync_block();
    std::uint32_t fa[4], fb[4];
    const int row = (lane & 7) + (lane >> 4) * 8, piece = (lane >> 3) & 1;
    const int at = p.plant == fault::wrong_swizzle ? row * 16 + piece * 8 : swizzled(row, piece);
    load_matrix_x4_transposed(fa, a.data() + t % 2 * 256 + at);
    load_matrix_x4_transposed(fb, b.data() + t % 2 * 128 + lane % 16 * 8);
    mma_16816(c, fa, fb[0], fb[1]);
    if (p.plant != fault::no_reuse_barrier) sync_block();
  }
  float* out = p.out + warp_index() * 128;
  const int r = lane / 4, n = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) out[(r + (i >> 1) * 8) * 8 + n + (i & 1)] = c[i];
}

// Whether the kernel gives the right sums under this schedule.
bool tiles_right(fault plant, const emulator::schedule& order) {
  const int k = 70, depth = 67, warps = 3;
  std::vector<std::uint16_t> a(k * 16), b(k * 8);
  for (int i = 0; i < k * 16; ++i)
    a[static_cast<std::size_t>(i)] = bf16_of(static_cast<float>(i % 13 - 6));
  for (int i = 0; i < k * 8; ++i)
    b[static_cast<std::size_t>(i)] = bf16_of(static_cast<float>(i % 7 - 3));
  std::vector<float> out(128 * warps, -1.0F);
  queue q;
  emulator::set_schedule(order);
  q.launch("tile", {1, warps * 32, 2 * 16 * 24 * 2}, tile_kernel,
           tile_params{a.data(), b.data(), out.data(), k, depth, plant});
  emulator::set_schedule({});
  for (int w = 0; w < warps; ++w) {
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        float sum = 0;
        for (int i = 0; i < depth; ++i) {
          sum += bf16_to_float(a[static_cast<std::size_t>(i * 16 + m)]) *
                 bf16_to_float(b[static_cast<std::size_t>(i * 8 + n)]);
        }
        if (out[static_cast<std::size_t>(w * 128 + m * 8 + n)] != sum) return false;
      }
    }
  }
  return true;
}

constexpr emulator::schedule modes[] = {{false, false, 0}, {true, false, 0},  {false, true, 0},
                                        {true, true, 0},   {false, false, 7}, {true, false, 99}};

bool right_in_every_mode(fault plant) {
  bool right = true;
  for (const emulator::schedule& order : modes) right = tiles_right(plant, order) && right;
  return right;
}

TEST(emulator, a_right_kernel_is_right_under_every_schedule) {
  EXPECT_TRUE(right_in_every_mode(fault::none));
}
TEST(emulator, a_missing_barrier_is_found) {
  EXPECT_FALSE(right_in_every_mode(fault::no_barrier));
}
TEST(emulator, a_missing_barrier_before_reuse_is_found) {
  EXPECT_FALSE(right_in_every_mode(fault::no_reuse_barrier));
}
TEST(emulator, a_missing_copy_wait_is_found) {
  EXPECT_FALSE(right_in_every_mode(fault::no_copy_wait));
}
TEST(emulator, a_wrong_swizzle_is_found) {
  EXPECT_FALSE(right_in_every_mode(fault::wrong_swizzle));
}
TEST(emulator, a_mask_off_by_one_is_found) {
  EXPECT_FALSE(right_in_every_mode(fault::mask_off_by_one));
}

// out [64, 144] = a b^T over 128 of k by wgmma, one stage of 64: a [64, 128], b [144, 128].
struct group_params {
  const std::uint16_t* a;
  const std::uint16_t* b;
  float* out;
  fault plant;
};

UNMASK_KERNEL void group_kernel(group_params p) {
  shared_allocator shared;
  std::uint16_t* tile = shared.take<std::uint16_t>(208 * 64).data();  // a, then b
  const int t = static_cast<int>(thread_index());
  float sum[72] = {};
  for (int k = 0; k < 128; k += 64) {
    if (p.plant != fault::no_product_wait) wgmma_wait<0>();
    sync_block();
    for (int i = t; i < 208 * 8; i += 128) {
      const int row = i / 8, piece = i % 8;
      const int to = p.plant == fault::wrong_swizzle ? piece : piece ^ (row & 7);
      const std::uint16_t* from = row < 64 ? p.a + row * 128 : p.b + (row - 64) * 128;
      copy_async_16(tile + row * 64 + to * 8, from + k + piece * 8, true);
    }
    copy_async_commit();
    copy_async_wait<0>();
    if (p.plant != fault::no_copy_fence) fence_shared_copies();
    sync_block();
    if (p.plant != fault::no_begin) wgmma_begin(sum);
    const int other = p.plant == fault::other_operands && warp_index() == 1 ? 64 * 64 : 0;
    for (int i = 0; i < 64; i += 16) {
      if (p.plant == fault::half_a_group && i == 48 && k > 0 && warp_index() > 1) continue;
      wgmma_64x144x16(sum, tile + other + i, tile + 64 * 64 + i);
    }
    wgmma_commit();
  }
  if (p.plant != fault::no_sum_wait) wgmma_wait<0>();
  for (int i = 0; i < 72; ++i) {
    const int row = warp_index() * 16 + (i >> 1 & 1) * 8 + lane_index() / 4;
    p.out[row * 144 + i / 4 * 8 + lane_index() % 4 * 2 + (i & 1)] = sum[i];
  }
  wgmma_wait<0>();
}

bool group_right(fault plant) {
  std::vector<std::uint16_t> a(64 * 128), b(144 * 128);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = bf16_of(static_cast<float>(i % 13) - 6);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16_of(static_cast<float>(i % 7) - 3);
  bool right = true;
  for (const emulator::schedule& order : modes) {
    std::vector<float> out(64 * 144, -1.0F);
    queue q;
    emulator::set_schedule(order);
    q.launch("group", {1, 128, 208 * 64 * 2}, group_kernel,
             {a.data(), b.data(), out.data(), plant});
    emulator::set_schedule({});
    for (std::size_t i = 0; i < out.size(); ++i) {
      float want = 0;
      for (std::size_t k = 0; k < 128; ++k)
        want += bf16_to_float(a[i / 144 * 128 + k]) * bf16_to_float(b[i % 144 * 128 + k]);
      right = right && out[i] == want;
    }
  }
  return right;
}

TEST(emulator, products_of_warpgroups_and_what_they_must_wait_for) {
  EXPECT_TRUE(group_right(fault::none));
  for (const fault plant : {fault::wrong_swizzle, fault::no_product_wait, fault::no_sum_wait})
    EXPECT_FALSE(group_right(plant)) << static_cast<int>(plant);
  for (const fault plant :
       {fault::no_copy_fence, fault::no_begin, fault::other_operands, fault::half_a_group}) {
    EXPECT_THROW(group_right(plant), emulation_error) << static_cast<int>(plant);
  }
  emulator::set_schedule({});
}

// out [64, 128] = (a b^T) c by wgmma, the product in brackets kept in registers: a and b [64, 64], c
// [64, 128] as two tiles of 64 columns.
UNMASK_KERNEL void chain_kernel(group_params p) {
  shared_allocator shared;
  std::uint16_t* tile = shared.take<std::uint16_t>(4 * 64 * 64).data();  // a, b, both parts of c
  const int t = static_cast<int>(thread_index());
  for (int i = t; i < 4 * 64 * 8; i += 128) {
    const int row = i / 8, piece = i % 8;
    const std::uint16_t* from = row < 64    ? p.a + row * 64
                                : row < 128 ? p.b + (row - 64) * 64
                                            : p.b + 64 * 64 + row % 64 * 128 + (row / 64 - 2) * 64;
    const int to = p.plant == fault::wrong_swizzle && row >= 128 ? piece : piece ^ (row & 7);
    copy_async_16(tile + row * 64 + to * 8, from + piece * 8, true);
  }
  copy_async_commit();
  copy_async_wait<0>();
  if (p.plant != fault::no_copy_fence) fence_shared_copies();
  sync_block();
  float between[8][4] = {}, sum[16][4] = {};
  wgmma_begin();
  for (int k = 0; k < 64; k += 16) wgmma_64x64x16(between, tile + k, tile + 64 * 64 + k);
  wgmma_commit();
  if (p.plant != fault::no_product_wait) wgmma_wait<0>();
  std::uint32_t held[4][4];
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 4; ++i) {
      const float* pair = between[2 * k + i / 2] + i % 2 * 2;
      held[k][i] = pack_bf16(pair[0], pair[1]);
    }
  }
  wgmma_begin();
  for (int k = 0; k < 4; ++k)
    wgmma_64x128x16(sum, held[k], tile + (128 + 16 * k) * 64, 64 * 64 * 2);
  wgmma_commit();
  if (p.plant == fault::overwritten_operand) held[3][0] = 0;
  if (p.plant != fault::no_sum_wait) wgmma_wait<0>();
  for (int i = 0; i < 64; ++i) {
    const int row = warp_index() * 16 + (i >> 1 & 1) * 8 + lane_index() / 4;
    p.out[row * 128 + i / 4 * 8 + lane_index() % 4 * 2 + (i & 1)] = sum[i / 4][i % 4];
  }
  wgmma_wait<0>();
}

bool chain_right(fault plant) {
  std::vector<std::uint16_t> a(64 * 64), b(64 * 64 + 64 * 128);
  for (std::size_t i = 0; i < 64; ++i) a[i * 64 + (i * 5 + 3) % 64] = bf16_of(1.0F);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = bf16_of(static_cast<float>(i % 11) - 5);
  bool right = true;
  for (const emulator::schedule& order : modes) {
    std::vector<float> out(64 * 128, -1.0F);
    queue q;
    emulator::set_schedule(order);
    q.launch("chain", {1, 128, 4 * 64 * 64 * 2}, chain_kernel,
             {a.data(), b.data(), out.data(), plant});
    emulator::set_schedule({});
    for (std::size_t i = 0; i < out.size(); ++i) {
      float want = 0;
      for (std::size_t n = 0; n < 64; ++n) {
        want += bf16_to_float(b[n * 64 + (i / 128 * 5 + 3) % 64]) *
                bf16_to_float(b[64 * 64 + n * 128 + i % 128]);
      }
      right = right && out[i] == want;
    }
  }
  return right;
}

TEST(emulator, products_of_what_registers_hold) {
  EXPECT_TRUE(chain_right(fault::none));
  for (const fault plant : {fault::wrong_swizzle, fault::no_product_wait, fault::no_sum_wait,
                            fault::overwritten_operand}) {
    EXPECT_FALSE(chain_right(plant)) << static_cast<int>(plant);
  }
  EXPECT_THROW(chain_right(fault::no_copy_fence), emulation_error);
  emulator::set_schedule({});
}

struct fault_params {
  fault plant;
  float* memory;
};

UNMASK_KERNEL void fault_kernel(fault_params p) {
  shared_allocator shared;
  const shared_array<float> own = shared.take<float>(p.plant == fault::too_much_shared ? 80 : 64);
  const int t = static_cast<int>(thread_index());
  own[t] = static_cast<float>(t);
  switch (p.plant) {
    case fault::divergent_collective:
      if (lane_index() < 16) own[t] = warp_sum(own[t]);
      break;
    case fault::divergent_barrier:
      if (t % 2 == 0) {
        sync_block();
      } else {
        sync_block();
      }
      break;
    case fault::outside_array:
      own[t] = own[t + 1];
      break;
    case fault::guard_overwritten:
      own.data()[64 + t] = 1;
      break;
    case fault::unaligned_copy:
      copy_async_16(own.data() + 1, p.memory, true);
      break;
    default:
      break;
  }
}

std::string failure_of(fault plant) {
  float memory[16] = {};
  queue q;
  try {
    q.launch("fault", {2, 64, 64 * sizeof(float)}, fault_kernel, fault_params{plant, memory});
  } catch (const emulation_error& e) {
    return e.what();
  }
  return "";
}

TEST(emulator, faults_are_reported_in_words) {
  EXPECT_EQ(failure_of(fault::none), "");
  const std::pair<fault, const char*> cases[] = {
      {fault::divergent_collective, "hangs: 0 threads wait at a barrier, 32 in a warp collective"},
      {fault::divergent_barrier, "divergent barriers, on lines"},
      {fault::outside_array, "shared array of 64 elements accessed at 64"},
      {fault::too_much_shared, "takes 320 bytes of shared memory, but 256 were asked for"},
      {fault::guard_overwritten, "wrote outside its shared memory"},
      {fault::unaligned_copy, "not aligned to 16"}};
  for (const auto& [plant, words] : cases) {
    const std::string what = failure_of(plant);
    EXPECT_NE(what.find(words), std::string::npos) << what << " does not say: " << words;
    EXPECT_EQ(what.rfind("fault: emulator: block (0, 0)", 0), 0U) << what;
  }
  // The emulator works on after a failure.
  EXPECT_TRUE(tiles_right(fault::none, {}));
}

// out[t] of each block: what thread 63 - t of each block of the cluster keeps, weighted by its rank, in two
// turns that keep it in the same place.
struct cluster_params {
  float* out;
  fault plant;
};
UNMASK_KERNEL void cluster_kernel(cluster_params p) {
  shared_allocator shared;
  const shared_array<float> own = shared.take<float>(128);
  const int t = static_cast<int>(thread_index());
  if (p.plant == fault::missing_block && cluster_rank() == 3) return;
  float total = 0;
  for (int turn = 0; turn < 2; ++turn) {
    own[2 * t] = static_cast<float>(block_index() * 64) + static_cast<float>(t);
    own[2 * t + 1] = static_cast<float>(turn + 1);
    if (p.plant != fault::unkept_start || turn > 0) sync_cluster();
    for (int rank = 0; rank < (p.plant == fault::no_such_block ? 5 : 4); ++rank) {
      float x[2];
      read_peer(x, own.data() + 2 * (63 - t), rank);
      total += x[0] * x[1] * static_cast<float>(rank + 1);
    }
    const fault skips = turn == 0 ? fault::no_cluster_reuse : fault::unkept_end;
    if (p.plant != skips) sync_cluster();
  }
  p.out[block_index() * 64 + thread_index()] = total;
}

bool clusters_right(fault plant, unsigned blocks = 8) {
  bool right = true;
  for (emulator::schedule order : modes) {
    for (const bool backwards : {false, true}) {
      order.backwards = backwards;
      std::vector<float> out(std::size_t{blocks} * 64, -1.0F);
      queue q;
      emulator::set_schedule(order);
      q.launch("cluster", {blocks, 64, 128 * sizeof(float), 1, 4}, cluster_kernel,
               {out.data(), plant});
      for (std::size_t i = 0; i < out.size(); ++i) {
        float want = 0;
        for (std::size_t rank = 0; rank < 4; ++rank) {
          const std::size_t block = i / 64 / 4 * 4 + rank;
          want += 3.0F * static_cast<float>((block * 64 + 63 - i % 64) * (rank + 1));
        }
        right = right && out[i] == want;
      }
    }
  }
  return right;
}

TEST(emulator, blocks_of_a_cluster_read_each_others_memory) {
  EXPECT_TRUE(clusters_right(fault::none));
  EXPECT_FALSE(clusters_right(fault::no_cluster_reuse));
  EXPECT_THROW(clusters_right(fault::none, 6), emulation_error) << "one block and a half cluster";
  const std::pair<fault, const char*> cases[] = {
      {fault::unkept_start, "a block of the cluster that may not have begun"},
      {fault::unkept_end, "block of the cluster that has ended|no barrier of the cluster kept it"},
      {fault::no_such_block, "there is no block 4 in the cluster"},
      {fault::missing_block, "a block of the cluster that has ended"}};
  for (const auto& [plant, words] : cases) {
    try {
      (void)clusters_right(plant);
      ADD_FAILURE() << "not found: " << words;
    } catch (const emulation_error& e) {
      EXPECT_TRUE(std::regex_search(e.what(), std::regex(words))) << e.what();
    }
  }
  emulator::set_schedule({});
}

struct scan_params {
  const std::int32_t* in;
  std::int32_t* out;
  std::int32_t* total;
  std::uint32_t* vote;
};

UNMASK_KERNEL void scan_kernel(scan_params p) {
  shared_allocator shared;
  const shared_array<std::int32_t> scratch = shared.take<std::int32_t>(4);
  const auto t = thread_index();
  std::int32_t total = 0;
  p.out[t] = block_scan(p.in[t], scratch, &total);
  const std::uint32_t vote = warp_vote(p.in[t] % 2 == 1);
  if (t == 33) *p.vote = vote;
  if (t == 0) *p.total = total;
}

TEST(emulator, scans_and_votes) {
  std::vector<std::int32_t> in(128), out(128), want(128);
  for (int i = 0; i < 128; ++i) in[static_cast<std::size_t>(i)] = i * i % 11;
  std::partial_sum(in.begin(), in.end(), want.begin());
  std::int32_t total = 0;
  std::uint32_t vote = 0, expected = 0;
  for (int l = 0; l < 32; ++l) {
    expected |= static_cast<std::uint32_t>(in[static_cast<std::size_t>(32 + l)] % 2 == 1) << l;
  }
  queue q;
  q.launch("scan", {1, 128, 64}, scan_kernel, scan_params{in.data(), out.data(), &total, &vote});
  EXPECT_EQ(out, want);
  EXPECT_EQ(total, want.back());
  EXPECT_EQ(vote, expected);
}

struct shift_params {
  std::int32_t* x;
};
// Planted: every block reads what the next one writes.
UNMASK_KERNEL void shift_in_place_kernel(shift_params p) {
  const auto b = block_index();
  if (thread_index() == 0) p.x[b] = p.x[b + 1];
}

TEST(emulator, blocks_that_need_an_order_show_when_they_run_backwards) {
  const emulation before = current_emulation();
  const std::vector<std::int32_t> shifted{1, 2, 3, 4, 4};
  queue q;
  for (const bool backwards : {false, true}) {
    set_emulation({{.backwards = backwards}});
    std::vector<std::int32_t> x{0, 1, 2, 3, 4};
    q.launch("shift", {4, 32}, shift_in_place_kernel, shift_params{x.data()});
    EXPECT_EQ(x == shifted, !backwards);
  }
  set_emulation(before);
}

TEST(emulated_queue, deferred_launches_wait_and_own_memory_is_told_from_other) {
  const emulation before = current_emulation();
  queue q;
  std::vector<std::int32_t> in(128, 1), out(128, 0);
  std::int32_t total = 0;
  std::uint32_t vote = 0;
  set_emulation({{}, true, false});
  q.launch("scan", {1, 128, 64}, scan_kernel, scan_params{in.data(), out.data(), &total, &vote});
  EXPECT_EQ(total, 0);
  q.synchronize();
  EXPECT_EQ(total, 128);
  set_emulation({{}, false, true});
  const auto launch_on_host_memory = [&] {
    q.launch("scan", {1, 128, 64}, scan_kernel, scan_params{in.data(), out.data(), &total, &vote});
  };
  if (checks_arguments) {
    EXPECT_THROW(launch_on_host_memory(), emulation_error);
  }
  const auto memory = q.allocate(4096, memory_kind::managed);
  auto* words = static_cast<std::int32_t*>(memory.get());
  q.launch(
      "scan", {1, 128, 64}, scan_kernel,
      scan_params{words, words + 128, words + 256, reinterpret_cast<std::uint32_t*>(words + 257)});
  EXPECT_EQ(words[256], 0);
  set_emulation(before);
}

}  // namespace
}  // namespace unmask::cuda::emulated
