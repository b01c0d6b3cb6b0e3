// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/cost_model/cost_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/few_rows_tiles.h"
#include "kernels/cuda/head_chunks.h"
#include "kernels/cuda/head_tiles.h"
#include "kernels/cuda/moe_tiles.h"

namespace unmask::cost {
namespace {

constexpr double bf16 = 2, f32 = 4;
// Clocks per instruction of a warp. Shared memory gives 128 bytes a clock to all four schedulers:
// an ldmatrix.x4 of 512 bytes takes 4. Special functions: 4 lanes a clock and scheduler.
constexpr double matrix_load_clocks = 4, special_clocks = 8, schedulers = 4;
// m16n8k16: 4096 operations.
constexpr double mma_operations = 4096;
// What is left of the busiest resources' time by warps that wait for each other and for loads:
// FlashAttention-2 has the same structure with 32 rows a warp, and the terms below give it 432
// TFLOP/s on an H100, of which 350 were published (arXiv 2407.08608).
constexpr double scheduling = 350.0 / 432.0;
// Attention by wgmma, in clocks of two blocks for a tile of 64 keys, on top of its products: a share of
// the clocks in which instructions are issued, and waits. Two kernels fix the line. FlashAttention-3
// without warps that only copy has 235 instructions a warp and tile: 570 TFLOP/s were published of 798
// that its library reaches (same paper). Ours has 470 and took 2,396 us for 8,192 rows, 32 heads and
// 8,192 keys on an H100 (results/gpu).
constexpr double issue_share = 0.61, group_waits = 440;
// What is left of the busiest resource's time if products of two warpgroups overlap with each other's exponentials, and
// with those of their own: 661 of the 798 TFLOP/s were published for FlashAttention-3 with both (same paper), whose
// warps execute 235 instructions for 64 keys. Of those, 33 are exponentials.
constexpr double overlap_share = 661.0 / 798.0, refresh_exponentials = 33;
// A warp of head_chunk_kernel executes so many instructions for each logit of a lane, and a scheduler issues so many
// a clock, as its logits wait for one another (Nsight Compute, results/gpu).
constexpr double chunk_instructions = 31, chunk_issue = 0.46;
// The same H100: what a block finds out before it copies, some twelve loads that wait for one another, and
// a rotation, whose sums over a head leave memory idle for a third of the time.
constexpr double look_up = 2e-6, rotation_share = 0.68;
// The same: clocks of writing a result of the experts' wide tiles, four bytes at a time, by the warps that
// multiply. The second product of 8,192 rows took some 600 us, 250 of them to multiply.
constexpr double result_clocks = 0.58;
// What a product of the library takes beside its loads and products: its start, and a second launch
// where k is split. With these two the model gives published times of cuBLAS 13.1 on a GH200 to 12 %
// where y has 10,000 columns or more, to 25 % at 2560 (cost_model_test.cpp).
constexpr double library_start = 2.6e-6, library_sums = 2.0e-6;

// Seconds that attention's blocks take to merge the parts of a tile: one says that it is done and another
// finds out, and a warp merges its rows one after the other. Of a row, largest scores are a trip to memory,
// and every eight parts are. Parts are written to L2 and read from there.
double joining(double tile_rows, double warps, double splits, double part_bytes,
               const device_ceilings& d) {
  if (splits <= 1) return 0;
  const double rows = std::ceil(tile_rows / 16 / warps);
  return (2 + rows * (1 + std::ceil(splits / 8))) * d.latency + 2 * part_bytes / d.l2;
}

// Of a cluster's blocks a trip to another one's memory takes 180 clocks. Clusters of four blocks read 2.65 TB/s
// on 114 multiprocessors at 1.755 GHz (arXiv 2402.13499). Of eight nothing was published.
constexpr double peer_clocks = 180, peer_bytes = 2.65e12 / (114 * 1.755e9);

// Seconds that `blocks_each` blocks of a multiprocessor take to add a cluster's sums: two barriers, the
// scores of a row and its sums, one after the other, and all bytes.
double adding(double tile_rows, double head_dim, double blocks_each, const device_ceilings& d) {
  const double bytes = blocks_each * tile_rows * head_dim * f32;
  return (4 * peer_clocks + bytes / peer_bytes) / d.clock;
}

// As tensor_plan_kernel cuts keys: no piece is below a share of four blocks a multiprocessor. places: blocks at once.
int pieces_of(std::int64_t items, int tiles, std::int64_t least, int places, int tile_rows,
              const device_ceilings& d) {
  const std::int64_t work = items * tiles;
  const auto even = static_cast<std::int64_t>(std::ceil(double(work) / (4.0 * d.multiprocessors)));
  std::int64_t least_cost = 0;
  int best = 1;
  for (int cut = 0; cut < cuda::tensor_cuts; ++cut) {
    const int pieces = cuda::tensor_pieces(
        tiles, cuda::tensor_share(tiles, cut, std::max<std::int64_t>(even, least)));
    const std::int64_t cost = cuda::tensor_cost(
        {items * pieces, pieces > 1 ? items * pieces : 0, (tiles + pieces - 1) / pieces}, work,
        places, tile_rows);
    if (cut > 0 && cost >= least_cost) continue;
    least_cost = cost;
    best = pieces;
  }
  return best;
}

double wave_count(double blocks, double at_once) {
  return std::ceil(blocks / at_once - 1e-9);
}

// Seconds of `blocks`, of which a multiprocessor takes `resident` at once: full waves, and a last one
// of as many blocks each as are left. wave(n): seconds of n blocks that share a multiprocessor.
template <class F>
double in_waves(double blocks, double resident, double multiprocessors, const F& wave) {
  const double full = std::floor(blocks / (resident * multiprocessors) + 1e-9);
  const double left = std::ceil(blocks / multiprocessors - full * resident - 1e-9);
  return (left > 0 ? wave(left) : 0) + (full > 0 ? full * wave(resident) : 0);
}

// Clocks of one m16n8k16 on one scheduler.
double mma_clocks(const device_ceilings& d) {
  const double per_clock = d.products * d.mma_share / (d.multiprocessors * schedulers * d.clock);
  return mma_operations / per_clock;
}

// A tile of the library's: one side is cut among warpgroups of 64, and either may lie along the rows
// of y. For every 16 of k, in a multiprocessor: each warpgroup reads its part of A and all of B from
// shared memory; the copy engine writes both there; the tensor cores multiply. The busiest decides.
struct library_tile {
  double groups_side, other_side;
  double share() const {
    const double reads = groups_side / 64 * (64 + other_side), writes = groups_side + other_side;
    const double products = groups_side / 64 * other_side / 2;
    return std::min(1.0, products / (std::max(reads, writes) * 16 * bf16 / 128));
  }
  // Bytes from L2 for 16 of k: two blocks share an operand, four of small tiles one half of each.
  double from_l2() const {
    const double all = groups_side + other_side, largest = std::max(groups_side, other_side);
    return (groups_side * other_side < 128 * 128 ? all / 2 : all - largest / 2) * 16 * bf16;
  }
};

// Declared in cublasLt.h of CUDA 13, seen in profiles of Hopper (nvjet_sm90_*: 64x8, 192x208, 384x64):
// one side a multiple of 64, the other of 8, at most 320 x 128. Without wgmma, powers of two.
std::vector<library_tile> library_tiles(bool wgmma) {
  std::vector<library_tile> tiles;
  for (int a = 64; a <= (wgmma ? 384 : 256); a = wgmma ? a + 64 : 2 * a) {
    const int most = std::min(256, (wgmma ? 320 : 256) * 128 / a);
    for (int b = wgmma ? 8 : 16; b <= most; b = wgmma ? b + 8 : 2 * b)
      tiles.push_back({1.0 * a, 1.0 * b});
  }
  return tiles;
}

// L2 gives at least what the library's largest products take from it, in tiles of 128 x 256.
double l2_rate(const device_ceilings& d) {
  return std::max(d.l2, library_tile{128, 256}.from_l2() * d.products / (1 << 20));
}

// Tiles of `rows` assignments that an expert with `mean` of them fills, if rows choose by chance
// (Poisson, here normal): one, and another for each further tile's end that their number passes.
double expected_tiles(double mean, double rows) {
  double tiles = 1;
  for (double end = rows; end < 2 * mean + 8 * rows; end += rows)
    tiles += 0.5 * std::erfc((end + 0.5 - mean) / std::sqrt(2 * mean));
  return tiles;
}

}  // namespace

double experts_hit(double rows, double per_token, double experts) {
  return experts * (1 - std::pow(1 - per_token / experts, rows));
}

launch library_product(double rows, double columns, double depth, double out_bytes, bool accumulate,
                       const device_ceilings& d) {
  launch l;
  l.operations = 2 * rows * columns * depth;
  const double weights = columns * depth * bf16;
  l.bytes = weights + rows * depth * bf16 + rows * columns * out_bytes * (accumulate ? 2 : 1);
  l.limit = std::max(l.operations / d.products, weights / d.read);
  // The fastest tile, with k cut into up to 8 parts whose sums pass through L2.
  static const auto hopper = library_tiles(true), older = library_tiles(false);
  const double memory = l.bytes / d.copy;
  const double l2 = l2_rate(d);
  l.busy = 1e30;
  for (const library_tile& t : d.wgmma ? hopper : older) {
    const auto [a, b] = t;
    const double blocks = std::min(std::ceil(rows / a) * std::ceil(columns / b),
                                   std::ceil(rows / b) * std::ceil(columns / a));
    const double a_block = 2 * a * b * depth * d.multiprocessors / (d.products * t.share());
    const double loads = blocks * depth / 16 * t.from_l2() / l2;
    for (const double parts : {1.0, 2.0, 4.0, 8.0}) {
      const double waves = wave_count(blocks * parts, d.multiprocessors) / parts;
      const double sums = parts > 1 ? 2 * parts * rows * columns * f32 / d.l2 + library_sums : 0;
      const double products = std::max(waves * a_block, loads) + 2 * d.latency;
      const double all = std::max(products, memory) + library_start + sums;
      if (all >= l.busy) continue;
      l.busy = all;
      l.held_by = memory > products ? "memory" : "products";
    }
  }
  return l;
}

// What a block of the library's product takes beside its loads and multiplications is taken for a block of
// this one too: its start, the first stages on their way, and its results.
launch few_rows_product(double rows, double columns, double depth, const device_ceilings& d) {
  constexpr double all_weights = 2 * cuda::few_columns, k = cuda::few_depth;
  const double tile = cuda::few_tile_rows(std::lround(std::ceil(rows)));
  const double blocks = std::ceil(columns / cuda::few_columns), steps = std::ceil(depth / k);
  launch l;
  l.operations = 2 * rows * 2 * columns * depth;
  const double weights = 2 * columns * depth * bf16, x = rows * depth * bf16,
               y = rows * columns * bf16;
  l.bytes = weights + x + y;
  l.limit = std::max(l.operations / d.products, weights / d.read);
  const double memory = (weights + x) / d.read + y / d.copy;
  const double l2 = blocks * steps * (all_weights + rows) * k * bf16 / l2_rate(d);
  // Clocks of a step: three warpgroups read their 64 rows of W and all of the tile of x, the copies write both.
  const double reads = 3 * (64 + tile), writes = all_weights + tile;
  const double shared = (reads + writes) * k * bf16 / 128;
  const double multiply = 2 * all_weights * tile * k * d.multiprocessors * d.clock / d.products;
  const double waves = wave_count(blocks, d.multiprocessors);
  const double work = waves * steps * std::max(shared, multiply) / d.clock;
  const double longest = std::max({memory, l2, work});
  l.busy = longest + 2 * d.latency + library_start;
  l.held_by = longest == memory   ? "memory"
              : longest == l2     ? "L2"
              : shared > multiply ? "shared memory"
                                  : "products";
  return l;
}

// The same of a product whose k is in parts. Behind its loads and products a block reads its rows of the other
// blocks' sums, and of y.
launch few_parts_product(double rows, double columns, double depth, bool accumulate,
                         const device_ceilings& d) {
  constexpr double k = cuda::few_depth;
  const double tile = cuda::few_tile_rows(std::lround(std::ceil(rows)));
  const int parts = cuda::few_parts(std::lround(columns), std::lround(depth));
  const double width = cuda::few_parts_columns(parts), tiles = std::ceil(columns / width),
               steps = std::ceil(depth / k);
  launch l;
  l.operations = 2 * rows * columns * depth;
  const double weights = columns * depth * bf16, x = rows * depth * bf16, y = rows * columns * f32;
  l.bytes = weights + x + y * (accumulate ? 2 : 1);
  l.limit = std::max(l.operations / d.products, weights / d.read);
  const double memory = (weights + x) / d.read;
  const double l2 = tiles * steps * (width + rows) * k * bf16 / l2_rate(d);
  const double shared = (width / 64 * (64 + tile) + width + tile) * k * bf16 / 128;
  const double multiply = 2 * width * tile * k * d.multiprocessors * d.clock / d.products;
  const double waves = wave_count(tiles * parts, d.multiprocessors);
  const double work = waves * std::ceil(steps / parts) * std::max(shared, multiply) / d.clock;
  const double longest = std::max({memory, l2, work});
  const double others = std::ceil(rows / parts) * width * f32 * (parts - 1);
  const double sums = waves * (4 * peer_clocks + others / peer_bytes) / d.clock;
  l.busy =
      longest + sums + (accumulate ? y / d.read : 0) + y / d.copy + 2 * d.latency + library_start;
  l.held_by = longest == memory   ? "memory"
              : longest == l2     ? "L2"
              : shared > multiply ? "shared memory"
                                  : "products";
  return l;
}

double early_saving(const device_ceilings& d) {
  return library_start + d.gap;
}

bool takes_gated(double rows, double width, const device_ceilings& d) {
  return d.wgmma && rows <= cuda::few_most_rows &&
         cuda::few_rows_fill(std::lround(width), d.multiprocessors);
}

bool takes_parts(double rows, double columns, double depth, const device_ceilings& d) {
  return d.wgmma && rows <= cuda::few_most_rows &&
         cuda::few_parts_fill(std::lround(columns), std::lround(depth), d.multiprocessors);
}

launch streaming(double bytes, double instructions, const device_ceilings& d) {
  launch l;
  l.bytes = bytes;
  const double memory = bytes / d.copy;
  const double issue = instructions / (d.multiprocessors * schedulers * d.clock);
  l.busy = std::max(memory, issue);
  l.held_by = issue > memory ? "issue" : "memory";
  return l;
}

group_clocks attention_group_clocks(double blocks_each, double tile_rows, double head_dim,
                                    double instructions, const device_ceilings& d) {
  constexpr double keys = cuda::tensor_keys;
  const double warps = tile_rows / 16;
  const double products =
      blocks_each * 4 * tile_rows * keys * head_dim * d.multiprocessors * d.clock / d.products;
  // Each warpgroup reads queries, keys and values from shared memory.
  const double reads =
      blocks_each * (tile_rows / 64 * (64 + 2 * keys) + 2 * keys) * head_dim * bf16 / 128;
  const double issue = blocks_each * warps / schedulers * instructions;
  const double all = std::max({products, reads, issue}) + issue_share * issue + group_waits;
  return {all, products > std::max(reads, issue) ? "products"
               : issue > reads                   ? "issue"
                                                 : "shared memory"};
}

launch rotation(double rows, double heads, double kv_heads, double head_dim,
                const device_ceilings& d) {
  // q and k are read and written back, k and v stored in the cache.
  const double q = heads * head_dim, k = kv_heads * head_dim;
  launch l = streaming(rows * ((q + k) * 2 + k + 2 * k) * bf16,
                       rows * (q + 2 * k) / 32 * rotate_instructions, d);
  l.busy /= rotation_share;
  return l;
}

launch attention_merge(double rows, double heads, double head_dim, double splits,
                       const device_ceilings& d) {
  // Where nothing was cut, the kernel only finds that out.
  const double parts = splits > 1 ? rows * heads : 0;
  launch l = streaming(parts * (splits * (head_dim + 2) * f32 + head_dim * bf16), 0, d);
  // A warp has a trip to memory for each of a row's parts, behind the same chain of loads.
  l.busy = std::max(l.busy, (splits > 1 ? splits * d.latency : 0) + d.shortest) + look_up / 2;
  return l;
}

double key_bytes(double sequences, double packed, double keys, int kv_heads, int head_dim,
                 double tile_rows, double at_once, bool rows_fastest, const device_ceilings& d) {
  const double head = keys * 2 * head_dim * bf16, row_tiles = std::ceil(packed / tile_rows);
  // Heads of a sequence whose keys are read at the same time, and how often each of them is.
  const double heads =
      rows_fastest ? std::min<double>(kv_heads, std::ceil(at_once / row_tiles) + 1) : kv_heads;
  const double times = std::max(1.0, row_tiles * (rows_fastest ? 1 : kv_heads) / at_once);
  const double missed = std::max(0.0, 1 - d.l2_bytes / (head * heads));
  return sequences * kv_heads * head * (1 + missed * (times - 1));
}

// A block a multiprocessor, whose two warpgroups compute 64 of 128 packed rows each, for 128 keys at a time. Queries,
// keys and values are read from shared memory by both, and keys and values are written there. The first scores and
// the last values of an item overlap with nothing, behind two trips to memory.
launch attention_refresh(double sequences, double rows, double keys, int heads, int kv_heads,
                         int head_dim, double* splits, const device_ceilings& d) {
  constexpr double tile_rows = cuda::refresh_tile_rows, tile_keys = cuda::refresh_keys, warps = 8;
  const double packed = rows * heads / kv_heads;
  const auto items =
      static_cast<std::int64_t>(sequences * kv_heads * std::ceil(packed / tile_rows));
  *splits =
      pieces_of(items, static_cast<int>(std::ceil(keys / cuda::tensor_keys)), cuda::least_piece,
                static_cast<int>(d.multiprocessors), cuda::refresh_tile_rows, d);
  launch l;
  l.operations = 4 * sequences * rows * keys * heads * head_dim;
  const double queries = sequences * rows * heads * head_dim;
  const double kv = sequences * keys * 2 * kv_heads * head_dim * bf16;
  const bool rows_fastest = std::ceil(packed / tile_rows) > kv_heads;
  l.bytes = key_bytes(sequences, packed, keys, kv_heads, head_dim, tile_rows, d.multiprocessors,
                      rows_fastest, d) +
            queries * bf16 +
            queries * (*splits > 1 ? *splits * f32 * (head_dim + 2.0) / head_dim : bf16);
  l.limit = std::max(l.operations / d.products, kv / d.read);

  const double products =
      4 * tile_rows * tile_keys * head_dim * d.multiprocessors * d.clock / d.products;
  const double shared = (tile_rows + 2 * (2 * tile_keys) + 2 * tile_keys) * head_dim * bf16 / 128;
  const double turns = tile_keys / cuda::tensor_keys * warps / schedulers;
  const double issue = turns * refresh_instructions,
               special = turns * refresh_exponentials * special_clocks;
  const double busiest = std::max({products, shared, issue, special});
  l.held_by = busiest == products ? "products"
              : busiest == shared ? "shared memory"
              : busiest == issue  ? "issue"
                                  : "exponentials";
  const double tiles = std::ceil(keys / *splits / tile_keys);
  const double compute = (tiles * busiest / overlap_share + products) / d.clock;
  const double from_l2 = tiles * tile_keys * 2 * head_dim * bf16 * d.multiprocessors / l2_rate(d);
  if (from_l2 > compute) l.held_by = "L2";
  l.busy = wave_count(double(items) * *splits, d.multiprocessors) *
               (std::max(compute, from_l2) + 2 * d.latency) +
           look_up;
  if (l.bytes / d.copy >= l.busy) {
    l.busy = l.bytes / d.copy;
    l.held_by = "memory";
  }
  return l;
}

attention_way way_of_attention(bool newer, double sequences, double rows, double keys, int heads,
                               int kv_heads, int head_dim, const device_ceilings& d) {
  if (!newer || !d.wgmma) return attention_way::tensor;
  if (rows * heads / kv_heads >= cuda::refresh_rows) return attention_way::refresh;
  if (takes_clusters(sequences, rows, keys, heads, kv_heads, head_dim, d)) {
    return attention_way::cluster;
  }
  return head_dim == 128 ? attention_way::joined : attention_way::tensor;
}

launch attention_by(attention_way way, double sequences, double rows, double keys, int heads,
                    int kv_heads, int head_dim, double* splits, const device_ceilings& d) {
  if (way == attention_way::refresh) {
    return attention_refresh(sequences, rows, keys, heads, kv_heads, head_dim, splits, d);
  }
  const merging how = way == attention_way::cluster  ? merging::cluster
                      : way == attention_way::joined ? merging::within
                                                     : merging::after;
  return attention_tensor(sequences, rows, keys, heads, kv_heads, head_dim, splits, d, how);
}

bool takes_clusters(double sequences, double rows, double keys, int heads, int kv_heads,
                    int head_dim, const device_ceilings& d) {
  const double packed = rows * heads / kv_heads;
  const auto average = static_cast<std::int64_t>(std::ceil(packed));
  const int tile_rows = cuda::cluster_tile_rows(average);
  return d.wgmma && sequences <= 32 && keys > cuda::least_cluster_keys &&
         cuda::clusters_pay(
             average,
             static_cast<std::int64_t>(sequences * kv_heads * std::ceil(packed / tile_rows)),
             static_cast<std::int64_t>(std::ceil(keys / cuda::tensor_keys)), d.multiprocessors,
             cuda::tensor_blocks(head_dim, tile_rows, static_cast<int>(d.shared) - 1024));
}

// attention_tensor_kernels.h: tiles of 16, 32, 64 or 128 packed rows, 16 rows a warp or, in the last,
// 32, and 64 keys. By wgmma, 128 rows of two warpgroups. Clusters have at most 64, by wgmma of one.
launch attention_tensor(double sequences, double rows, double keys, int heads, int kv_heads,
                        int head_dim, double* splits, const device_ceilings& d, merging how) {
  constexpr double tile_keys = cuda::tensor_keys;
  const bool joined = how == merging::within, clusters = how == merging::cluster;
  const double group = double(heads) / kv_heads, packed = rows * group;
  const auto average = static_cast<std::int64_t>(std::ceil(packed));
  const int tile_rows =
      clusters ? cuda::cluster_tile_rows(average) : cuda::tensor_tile_rows(average);
  const bool groups = tile_rows == (clusters ? 64 : 128) && head_dim == 128 && d.wgmma;
  const double row_tiles = tile_rows == 128 && !groups ? 2 : 1,
               warps = tile_rows / (16 * row_tiles);
  const auto items =
      static_cast<std::int64_t>(sequences * kv_heads * std::ceil(packed / tile_rows));
  const auto tiles = static_cast<int>(std::ceil(keys / tile_keys));
  const int places = static_cast<int>(d.multiprocessors) *
                     cuda::tensor_blocks(head_dim, tile_rows, static_cast<int>(d.shared) - 1024);
  *splits = pieces_of(items, tiles, joined ? cuda::joined_piece : cuda::least_piece, places,
                      tile_rows, d);
  if (clusters) *splits = std::min(tiles, cuda::cluster_blocks);
  const double blocks = double(items) * *splits, key_tiles = std::ceil(keys / *splits / tile_keys);

  launch l;
  l.operations = 4 * sequences * rows * keys * heads * head_dim;
  const double kv = sequences * keys * 2 * kv_heads * head_dim * bf16;
  const double queries = sequences * rows * heads * head_dim;
  const double partial =
      *splits > 1 && !clusters ? queries * *splits * f32 * (head_dim + 2.0) / head_dim : 0;
  l.bytes = kv + queries * bf16 + (partial > 0 ? partial : queries * bf16);
  l.limit = std::max(l.operations / d.products, kv / d.read);

  // Blocks of a multiprocessor: its shared memory, 65536 registers of which a thread has 255, in two
  // warpgroups 128.
  const double shared = (tile_rows + 2 * 2 * tile_keys) * head_dim * bf16;
  const double resident =
      std::max(1.0, std::min({std::floor(d.shared / shared),
                              std::floor(65536 / ((groups && !clusters ? 128 : 255) * 32 * warps)),
                              std::ceil(blocks / d.multiprocessors)}));
  // Clocks of a tile of keys for all resident warps: fragments are read again by every warp; sums of
  // scores, exponentials and addresses do not overlap with products inside a warp. Per lane and
  // tile and 16 rows: 32 scores and head_dim / 2 sums to rescale, 36 exponentials. Of a lane's copies
  // of a page, 16 are 107 instructions and 32 are 162. Heads of 128 dimensions take the keys in two
  // halves, and queries and sums are touched for each.
  const double parts = head_dim > 64 ? 2 : 1;
  const double mmas = row_tiles * 2 * tile_keys / 8 * head_dim / 16;
  const double loads =
      head_dim / 16.0 * (row_tiles * parts + tile_keys / 16) + tile_keys / 16 * head_dim / 16;
  const double copies = 2 * tile_keys * head_dim / 8 / (warps * 32);
  const double softmax =
      row_tiles * std::max(36 * special_clocks, 3 * 32 + parts * head_dim / 2 + 48) + 52 +
      3.44 * copies;
  const auto by_groups = [&](double blocks_each) {
    const group_clocks c = attention_group_clocks(
        blocks_each, tile_rows, head_dim, clusters ? cluster_instructions : tensor_instructions, d);
    l.held_by = c.held_by;
    return c.clocks;
  };
  // Seconds of `blocks_each` blocks that share a multiprocessor. By mma.sync half a tile behind the
  // last key is not computed. No key behind it is read.
  const double halves = groups ? 1 : parts;
  const double computed = std::ceil(keys / *splits / tile_keys * halves) / halves;
  const auto wave = [&](double blocks_each) {
    const double per_scheduler = std::ceil(blocks_each * warps / schedulers);
    const double fragments = loads * matrix_load_clocks * blocks_each * warps,
                 products = mmas * mma_clocks(d) * per_scheduler;
    l.held_by = fragments > products ? "shared memory" : "products";
    const double clocks =
        groups ? by_groups(blocks_each)
               : (std::max(fragments, products) + softmax * per_scheduler) / scheduling;
    const double compute = computed * clocks / d.clock;
    // One tile is under way while another is computed. Where a head's rows are several items, L2 has
    // the keys for all but the first.
    const bool again = packed > tile_rows;
    const double bytes = blocks_each * keys / *splits * 2 * head_dim * bf16;
    const double copies_take = bytes * d.multiprocessors / (again ? l2_rate(d) : d.copy),
                 trips = key_tiles * d.latency;
    if (compute < std::max(copies_take, trips))
      l.held_by = copies_take <= trips ? "latency" : again ? "L2" : "memory";
    return std::max({compute, copies_take, trips}) + 3 * d.latency;
  };
  // A ticket and what it says are two trips to memory. A cluster's lists are one.
  l.busy = in_waves(blocks, resident, d.multiprocessors, wave) +
           (joined     ? 2 * d.latency + joining(tile_rows, warps, *splits, partial, d)
            : clusters ? d.latency + adding(tile_rows, head_dim, resident, d)
                       : look_up);
  if (l.bytes / d.copy >= l.busy) {
    l.busy = l.bytes / d.copy;
    l.held_by = "memory";
  }
  return l;
}

std::vector<head_part> head_parts(double candidates, double vocabulary, const device_ceilings& d) {
  std::vector<head_part> parts;
  const auto add = [&](double times, double rows) {
    if (times <= 0 || rows <= 0) return;
    const auto tokens =
        static_cast<double>(cuda::head_chunk_of(std::max(1L, std::lround(rows)),
                                                std::lround(vocabulary), true, d.multiprocessors)
                                .columns);
    const double chunks = std::floor(vocabulary / tokens);
    parts.push_back({times * chunks, rows, tokens});
    if (vocabulary > chunks * tokens) parts.push_back({times, rows, vocabulary - chunks * tokens});
  };
  const double groups = std::floor(candidates / cuda::head_group);
  add(groups, cuda::head_group);
  add(1, candidates - groups * cuda::head_group);
  return parts;
}

launch head_fold(double rows, double tokens, bool newer, const device_ceilings& d) {
  const double logits = rows * tokens;
  // Every lane loads its logits at once, and the winner's four again: two trips to memory.
  launch l = newer ? streaming(0, logits / 32 * fold_instructions, d)
                   : streaming(0, logits / 32 * chunk_instructions / chunk_issue, d);
  l.bytes = logits * f32;
  const double from_l2 = l.bytes / d.l2;
  l.held_by = from_l2 > l.busy ? "L2" : "issue";
  l.busy = std::max(from_l2, l.busy) + (newer ? 2 * d.latency : 0);
  return l;
}

bool takes_head_product(double candidates, const device_ceilings& d) {
  return d.wgmma && cuda::head_tiles_pay(std::lround(candidates));
}

// A block a multiprocessor, two of a cluster with the same candidates: each takes half of them from L2. Clocks of a
// step: two warpgroups read their rows and all tokens of the tile for each 64 rows, the copies write both. Nothing
// multiplies while a tile is folded: of a lane's logits each is an exponential.
launch head_product(double candidates, double vocabulary, double width, const device_ceilings& d) {
  constexpr double rows = cuda::head_tile_rows, tokens = cuda::head_tile_tokens,
                   k = cuda::head_tile_depth, blocks = cuda::head_tile_cluster, warps = 8,
                   state_bytes = 16;
  const double tiles = std::ceil(vocabulary / tokens), steps = std::ceil(width / k);
  const auto items = static_cast<double>(
      cuda::head_tile_items(std::lround(std::ceil(candidates)), std::lround(vocabulary)));
  launch l;
  l.operations = 2 * candidates * vocabulary * width;
  const double weights = vocabulary * width * bf16, x = candidates * width * bf16,
               states = candidates * tiles * state_bytes;
  l.bytes = weights + x + states;
  l.limit = std::max(l.operations / d.products, weights / d.read);
  const double memory = (weights + x) / d.read + states / d.copy;
  const double l2 = items * blocks * steps * (rows / blocks + tokens) * k * bf16 / l2_rate(d);
  const double shared = (rows / 64 * (64 + tokens) + rows + tokens) * k * bf16 / 128;
  const double multiply = 2 * rows * tokens * k * d.multiprocessors * d.clock / d.products;
  const double fold = rows * tokens / (warps * 32) * warps / schedulers *
                      std::max(special_clocks, product_fold_instructions);
  const double work = wave_count(items, std::floor(d.multiprocessors / blocks)) *
                      (steps * std::max(shared, multiply) + fold) / d.clock;
  const double longest = std::max({memory, l2, work});
  l.busy = longest + 2 * d.latency + library_start;
  l.held_by = longest == memory   ? "memory"
              : longest == l2     ? "L2"
              : shared > multiply ? "shared memory"
                                  : "products";
  return l;
}

// A warp a candidate, whose lanes read the states twice: for the largest, and for what they weigh under it.
launch head_tiles_merge(double candidates, double vocabulary, const device_ceilings& d) {
  constexpr double state_bytes = 16, result_bytes = 64, instructions = 139;
  const double states =
      candidates * std::ceil(vocabulary / static_cast<double>(cuda::head_tile_tokens));
  launch l =
      streaming(states * state_bytes + candidates * result_bytes, states / 32 * instructions, d);
  l.busy += 2 * d.latency;
  return l;
}

// Seconds of a tile's results by the experts' roles: the warps that multiply leave them, by 128 bytes a clock; others
// read them and, at the multiprocessor's share of what L2 takes, store them.
struct handed_over {
  double left, stored;
};
handed_over hand_over(double left, double stored, const device_ceilings& d) {
  return {left * bf16 / 128 / d.clock,
          stored * bf16 * d.multiprocessors / l2_rate(d) + 2 * d.latency};
}

bool takes_wide_tiles(double rows, double per_token, double experts, double shared,
                      const device_ceilings& d) {
  return d.wgmma && cuda::takes_wide_tiles(std::llround(rows * (per_token + shared)),
                                           std::llround(experts + shared));
}

// moe_tensor_kernels.h: eight warps a block, two blocks a multiprocessor. Of its inner loop: 166
// instructions, 12 ldmatrix, 32 mma (budget.json). With wgmma operands pass through no register: tensor
// cores, L2, the tiles' empty rows and writing a tile hold it, as the next one's copies are under way.
// By roles (moe_roles_kernels.h) nothing multiplies while results are left, and copies go on. They are stored while
// the next tile is multiplied, which waits if that takes longer. The last tile's are stored behind all products.
// A column of the result with a gate is two of the product's.
launch grouped_tensor(double rows, double per_token, double experts, double shared, double out,
                      double in, bool gated, const device_ceilings& d, bool newer) {
  constexpr double tile_columns = cuda::routed_columns, step = cuda::routed_depth, warps = 8;
  constexpr double instructions = 166, loads = 12, mmas = 32;
  launch l;
  const double routed = rows * per_token, assignments = routed + rows * shared;
  const double chosen = experts_hit(rows, per_token, experts), hit = chosen + shared;
  const double columns = gated ? 2 * out : out;
  l.operations = 2 * assignments * columns * in;
  const double weights = hit * columns * in * bf16;
  l.bytes = weights + ((gated ? rows : assignments) * in + assignments * out) * bf16;
  l.limit = std::max(l.operations / d.products, weights / d.read);
  const bool wide = takes_wide_tiles(rows, per_token, experts, shared, d);
  const bool roles = wide && newer;
  const double tile_rows = wide ? cuda::wide_rows : cuda::routed_rows, resident = wide ? 1 : 2;
  const double results = tile_rows * tile_columns / (gated ? 2 : 1);
  const handed_over handed = hand_over(tile_rows * tile_columns, results, d);
  const auto tiles_of = [&](double high) {
    return chosen * expected_tiles(routed / chosen, high) + shared * std::ceil(rows / high);
  };
  const double tiles = tiles_of(tile_rows);
  const double across = std::ceil(columns / tile_columns), blocks = tiles * across;
  // Seconds of `blocks_each` blocks that share a multiprocessor.
  const auto wave = [&](double blocks_each) {
    double clocks = 2 * tile_rows * tile_columns * step * d.multiprocessors / d.products * d.clock;
    l.held_by = "products";
    if (!wide) {
      // A tile that is filled by half spares half of its warps.
      const double filled = tiles_of(32) * 32 / (tiles * tile_rows);
      const double per_scheduler = blocks_each * warps / schedulers;
      const double issue = instructions * per_scheduler,
                   products = mmas * mma_clocks(d) * per_scheduler * filled;
      clocks = std::max({issue, loads * matrix_load_clocks * blocks_each * warps, products});
      if (issue > products) l.held_by = "issue";
    }
    const double all =
        std::ceil(in / step) * clocks / scheduling / d.clock + (wide ? 1 : 3) * d.latency;
    return roles ? std::max(all + handed.left, handed.stored) : all;
  };
  const double compute =
      in_waves(blocks, resident, d.multiprocessors, wave) + (wide ? 2 * d.latency : 0);
  // Every tile's weights, and its rows without the empty ones.
  const double l2 = (blocks * tile_columns + across * assignments) * in * bf16 / l2_rate(d);
  const double memory = l.bytes / d.copy;
  l.busy = std::max({compute, l2, memory});
  if (l.busy > compute) l.held_by = memory > l2 ? "memory" : "L2";
  // Nothing multiplies while a wide tile is written. With a gate two sums are one result.
  if (roles) {
    l.busy += handed.stored;
  } else if (wide) {
    l.busy += wave_count(blocks, d.multiprocessors) * results * result_clocks / d.clock;
  }
  return l;
}

}  // namespace unmask::cost
