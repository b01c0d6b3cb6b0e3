// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Copies of a box of a tensor (cp.async.bulk.tensor, tiled) by a tensor map, and the driver's function that makes
// one, with its rules (CUDA Driver API, "Tensor Map Object Management"; PTX ISA 9.7.9.27 and "Tensors").
// Elements outside of the tensor arrive as zero or NaN, and count among the bytes that arrive.
#include "tests/softgpu/tensor_map.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/softgpu/mbarrier.h"

namespace unmask::softgpu {

u32 tensor_map::box_bytes() const {
  u32 all = element;
  for (u32 n = 0; n < rank; ++n) all *= box[n];
  return all;
}

u32 tensor_map::sum() const {
  u32 s = 2166136261U;  // FNV-1a
  const auto* at = reinterpret_cast<const u8*>(this);
  for (std::size_t n = 8; n < sizeof *this; ++n) s = (s ^ at[n]) * 16777619U;
  return s;
}

u32 swizzled(u32 address, u32 swizzle) {
  return swizzle == 0 ? address : address ^ ((address >> 7 & (swizzle / 16 - 1)) << 4);
}

namespace {

tensor_map map_at(warp& w, const instruction& i, int lane, u64 address) {
  if (address % 64 != 0) fail(w, i, lane, 716, "a tensor map whose address is no multiple of 64");
  alignas(64) u8 bytes[tensor_map::bytes];
  for (u32 n = 0; n < tensor_map::bytes; n += 16) {
    std::memcpy(bytes + n, reach(w, i, lane, space::generic, address + n, 16, false), 16);
  }
  tensor_map map;
  std::memcpy(static_cast<void*>(&map), bytes, sizeof map);
  if (map.mark != tensor_map::right_mark || map.check != map.sum()) {
    fail(w, i, lane, 719, "no tensor map of cuTensorMapEncodeTiled");
  }
  return map;
}

// A box on its way: where it begins in the tensor and in shared memory.
struct box {
  const tensor_map& map;
  s32 at[5] = {};
  u32 shared = 0;

  // f(shared address, global address or nothing, bytes) for runs of bytes within 16.
  template <class F>
  void each_run(F&& f) const {
    const u32 row = u32{map.box[0]} * map.element, rows = map.box_bytes() / row;
    for (u32 n = 0; n < rows; ++n) {
      const std::optional<u64> from = row_address(n);
      for (u32 byte = 0; byte < row; byte += 16) {
        const u32 to = swizzled(shared + n * row + byte, map.swizzle);
        // The part of these 16 bytes that is in the tensor.
        const s64 first = s64{at[0]} * map.element + byte;
        const s64 size = s64{map.sizes[0]} * map.element;
        const auto in = [&](s64 x) { return static_cast<u32>(std::clamp<s64>(x, 0, 16)); };
        const u32 begin = from ? in(-first) : 16, end = std::max(begin, in(size - first));
        if (begin > 0) f(to, std::optional<u64>{}, begin);
        if (end > begin) {
          f(to + begin, std::optional<u64>{*from + static_cast<u64>(first + begin)}, end - begin);
        }
        if (end < 16) f(to + end, std::optional<u64>{}, 16 - end);
      }
    }
  }

  // Of the tensor's row that is row n of the box; nothing: it is outside.
  std::optional<u64> row_address(u32 n) const {
    u64 address = map.address;
    for (u32 d = 1; d < map.rank; ++d) {
      const s64 place = s64{at[d]} + n % map.box[d];
      n /= map.box[d];
      if (place < 0 || place >= s64{map.sizes[d]}) return {};
      address += static_cast<u64>(place) * map.strides[d - 1];
    }
    return address;
  }
};

// In pieces that are aligned: of 16 bytes, or of elements.
std::uintptr_t reach_run(warp& w, const instruction& i, int lane, u64 address, u32 bytes,
                         u32 element, bool write) {
  const u32 each = bytes == 16 && address % 16 == 0 ? 16 : element;
  std::uintptr_t first = 0;
  for (u32 n = 0; n < bytes; n += each) {
    const auto* host = reach(w, i, lane, space::global, address + n, each, write);
    if (n == 0) first = reinterpret_cast<std::uintptr_t>(host);
  }
  return first;
}

// Its coordinates are the operands from the first to before the last.
box box_of(const warp& w, const instruction& i, int lane, const tensor_map& map, std::size_t first,
           std::size_t last, u64 shared) {
  box b{map};
  if (map.rank != last - first) {
    fail(w, i, lane, 719,
         "a copy of " + std::to_string(last - first) + " dimensions by a tensor map of " +
             std::to_string(map.rank));
  }
  for (u32 d = 0; d < map.rank; ++d) b.at[d] = static_cast<s32>(w.at<u32>(i.o[first + d])[lane]);
  b.shared = static_cast<u32>(shared) & shared_mask;
  if (b.shared % 128 != 0) {
    fail(w, i, lane, 716, "a box whose shared address is no multiple of 128");
  }
  return b;
}

// to, map, mbarrier, coordinates..., [blocks]
template <bool multicast>
void load_box(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u64 to = address_of(w, i.o[0], l, i.offset);
    const tensor_map map = map_at(w, i, l, address_of(w, i.o[1], l, static_cast<s32>(i.extra)));
    const box b = box_of(w, i, l, map, 3, i.count - (multicast ? 1U : 0U), to);
    bulk_copy copy;
    copy.to = b.shared;
    copy.bytes = map.box_bytes();
    copy.fill.assign(map.element, map.nan != 0 ? 0xFF : 0);
    if (map.nan != 0) copy.fill.back() = 0x7F;
    if (copy.to + copy.bytes > w.in->shared_end && to >> rank_shift == 0) {
      fail(w, i, l, 700, "a box over the end of the block's shared memory");
    }
    b.each_run([&](u32 at, const std::optional<u64>& from, u32 bytes) {
      copy.pieces.push_back(
          {at, bytes, from ? reach_run(w, i, l, *from, bytes, map.element, false) : 0});
    });
    const u32 blocks = multicast ? w.at<u16>(i.o[i.count - 1])[l] : 0;
    issue_copy(w, i, l,
               {to, address_of(w, i.o[2], l, static_cast<s32>(i.extra2)), blocks, multicast},
               std::move(copy));
  });
}

// from, map, coordinates...
void store_box(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u64 shared = address_of(w, i.o[0], l, i.offset);
    const tensor_map map = map_at(w, i, l, address_of(w, i.o[1], l, static_cast<s32>(i.extra)));
    const box b = box_of(w, i, l, map, 2, i.count, shared);
    if (b.shared < shared_base || b.shared + map.box_bytes() > w.in->shared_end) {
      fail(w, i, l, 700, "a box over the end of the block's shared memory");
    }
    b.each_run([&](u32 at, const std::optional<u64>& to, u32 bytes) {
      shared_read(w, i, l, *w.in, at, bytes, true);
      if (to) issue_store(w, l, {reach_run(w, i, l, *to, bytes, map.element, true), at, bytes});
    });
  });
}

}  // namespace

void decoder::copy_tensor() {
  std::size_t rank = 0;
  for (std::size_t n = 1; n <= tensor_map::most_dimensions; ++n) {
    if (s.is(std::to_string(n) + "d")) rank = n;
  }
  const bool stores = s.op.size() > 5 && s.op[5] == "global";
  const bool multicast = s.is("multicast::cluster");
  for (const std::string& m : s.op) {
    if (m.rfind("im2col", 0) == 0 || m.rfind("tile::", 0) == 0 || m == "reduce") refuse();
  }
  if (stores ? !s.is("bulk_group") || !s.is("shared::cta")
             : !s.is("mbarrier::complete_tx::bytes")) {
    refuse();
  }
  const std::size_t hint = s.is("L2::cache_hint") ? 1 : 0, map = stores ? 0 : 1;
  if (P.size() != (stores ? 2U : multicast ? 4U : 3U) + hint) refuse();
  if (rank == 0 || P[map].parts.size() != rank) refuse();
  pool.push_back(c.base(P[stores ? 1 : 0]));
  pool.push_back(c.base(P[map]));
  i.offset = P[stores ? 1 : 0].offset;
  i.extra = static_cast<u32>(P[map].offset);
  if (!stores) {
    pool.push_back(c.base(P[2]));
    i.extra2 = static_cast<u32>(P[2].offset);
  }
  for (const ptx_operand& p : P[map].parts) pool.push_back(c.value(p, 4));
  if (multicast) take(3, 2);
  if (stores) c.k.proxy_reads = true;
  finish(0);
  i.run = stores ? store_box : multicast ? load_box<true> : load_box<false>;
}

void decoder::prefetch_map() {
  if (c.k.arch < 90) refuse();
  pool.push_back(c.base(P.at(0)));
  i.offset = P[0].offset;
  finish(0);
  i.run = [](warp& w, const instruction& x) {
    each_lane(w.active, [&](int l) { map_at(w, x, l, address_of(w, x.o[0], l, x.offset)); });
  };
}

// ---- the driver's function ----

namespace {

// Bytes of an element; 0: this machine does not know the type.
u32 bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

bool is_float(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && bytes_of(type) > 0;
}

// What is wrong with a dimension of the map; empty: nothing.
std::string dimension_fault(u32 d, u64 size, u64 stride, u32 box, u32 step) {
  const std::string name = "dimension " + std::to_string(d) + ": ";
  if (size == 0 || size > u64{1} << 32) return name + "size " + std::to_string(size);
  if (d > 0 && (stride % 16 != 0 || stride >= u64{1} << 40)) {
    return name + "stride " + std::to_string(stride) + " is no multiple of 16 below 2^40";
  }
  if (box == 0 || box > 256) return name + "a box of " + std::to_string(box) + ", at most 256";
  if (step == 0 || step > 8) return name + "element stride " + std::to_string(step);
  if (step != 1) return name + "element strides are not known to this machine";
  return "";
}

std::string row_fault(u32 row, CUtensorMapSwizzle swizzle) {
  if (row % 16 != 0) return "a box's row of " + std::to_string(row) + " bytes is no multiple of 16";
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_NONE) return "";
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B) return "this swizzle is not known to this machine";
  const u32 span = 16U << static_cast<u32>(swizzle);
  if (row > span) {
    return "a box's row of " + std::to_string(row) + " bytes, the swizzle takes at most " +
           std::to_string(span);
  }
  if (row < span) return "a row shorter than the swizzle's is not known to this machine";
  return "";
}

}  // namespace
}  // namespace unmask::softgpu

using namespace unmask::softgpu;

extern "C" CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  const auto refuse = [](const std::string& why) {
    note_host("tensor map refused", why);
    return CUDA_ERROR_INVALID_VALUE;
  };
  static_assert(sizeof(CUtensorMap) == tensor_map::bytes);
  const auto multiple = [](const void* p, std::uintptr_t of) {
    return p != nullptr && reinterpret_cast<std::uintptr_t>(p) % of == 0;
  };
  if (device().images() < 90) return refuse("no tensor maps before sm_90");
  if (!multiple(out, 64)) return refuse("its own address is no multiple of 64");
  if (rank == 0 || rank > tensor_map::most_dimensions) {
    return refuse(std::to_string(rank) + " dimensions, 1 to 5 are possible");
  }
  if (!multiple(address, 16)) return refuse("the tensor's address is no multiple of 16");
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
    return refuse("interleaved layouts are not known to this machine");
  }
  tensor_map map;
  map.element = static_cast<u8>(bytes_of(type));
  if (map.element == 0) return refuse("type " + std::to_string(type) + " is not known");
  for (u32 d = 0; d < rank; ++d) {
    const u64 stride = d > 0 ? strides[d - 1] : 0;
    const std::string fault = dimension_fault(d, sizes[d], stride, box[d], steps[d]);
    if (!fault.empty()) return refuse(fault);
    map.sizes[d] = static_cast<u32>(std::min<u64>(sizes[d], ~u32{0}));
    map.box[d] = static_cast<std::uint16_t>(box[d]);
    if (d > 0) map.strides[d - 1] = stride;
  }
  const std::string fault = row_fault(box[0] * map.element, swizzle);
  if (!fault.empty()) return refuse(fault);
  const bool nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (nan && !is_float(type)) return refuse("NaN outside of a tensor of integers");
  map.mark = tensor_map::right_mark;
  map.address = reinterpret_cast<u64>(address);
  map.rank = static_cast<u8>(rank);
  map.nan = nan ? 1 : 0;
  map.swizzle = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE
                    ? u8{0}
                    : static_cast<u8>(16U << static_cast<u32>(swizzle));
  map.check = map.sum();
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}
