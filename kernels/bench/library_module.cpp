// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/library_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/process.h"
#include "harness/base/shared_library.h"
#include "kernels/attention.h"
#include "kernels/bench/operands.h"
#include "kernels/float16.h"
#include "kernels/moe.h"

namespace unmask::bench {
namespace {

using cuda::multiplied;
namespace fs = std::filesystem;

// What a module is called, and the library that it does not bring along.
struct module_names {
  const char *library, *file, *variable;
  std::optional<library_search> needs;
  const char* package;
};
const module_names& names_of(multiplied what) {
  static const module_names attention{"cuDNN", "libunmask_cudnn.so", "UNMASK_CUDNN_WAY",
                                      cudnn_library(), "nvidia-cudnn-cu13"};
  static const module_names experts{"CUTLASS", "libunmask_cutlass.so", "UNMASK_CUTLASS_WAY",
                                    std::nullopt, ""};
  return what == multiplied::attention ? attention : experts;
}

fs::path file_of(const module_names& names) {
  const char* named = std::getenv(names.variable);
  const fs::path file =
      named != nullptr && *named != 0 ? fs::absolute(named) : folder_of_code() / names.file;
  if (!fs::exists(file)) {
    throw environment_error(file.string() +
                            " does not exist: ./dev build --libraries makes it, or " +
                            names.variable + " names another file");
  }
  return file;
}

// A module's functions of its library stay open until it is opened, so the library comes first.
void open_library_of(const module_names& names) {
  if (!names.needs) return;
  library_search wanted = *names.needs;
  wanted.global = true;
  const shared_library found = open_shared_library(wanted);
  if (found.handle != nullptr) return;
  throw environment_error(std::string(names.library) + " cannot be opened (tried " + found.tried +
                          "): install it (pip install " + names.package + ") or name the file in " +
                          wanted.variable);
}

const libraries::library_way* way_in(const std::string& file, multiplied what) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* said = dlerror();
    throw environment_error(file + " cannot be opened: " + (said == nullptr ? "" : said));
  }
  const auto entry =
      reinterpret_cast<const libraries::library_way* (*)()>(dlsym(handle, libraries::entry_name));
  if (entry == nullptr) {
    throw environment_error(file + " is no module of this program: it has no " +
                            libraries::entry_name);
  }
  const libraries::library_way* way = entry();
  if (way->interface_of_module != libraries::interface_number) {
    throw environment_error(file + " has interface " + std::to_string(way->interface_of_module) +
                            ", and this program " + std::to_string(libraries::interface_number) +
                            ": make it again by ./dev build --libraries");
  }
  const bool has = what == multiplied::attention ? way->prepare_attention != nullptr
                                                 : way->prepare_experts != nullptr;
  if (!has) throw environment_error(file + " does not compute " + cuda::name_of(what));
  return way;
}

std::vector<float> rounded(std::vector<float> values) {
  std::ranges::transform(values, values.begin(), [](float v) { return from_bf16(to_bf16(v)); });
  return values;
}

struct small_attention {
  std::int64_t sequences, rows, heads, kv, dim, keys;
};
constexpr small_attention attention_cases[] = {
    {2, 3, 4, 2, 128, 70}, {1, 65, 4, 4, 64, 192}, {3, 32, 8, 1, 128, 33}};

// How far the module's attention is from the reference's.
double difference_of(const library_module& module, const backend& on, const small_attention& c) {
  const backend& reference = reference_backend();
  const float scale = 1.0F / std::sqrt(static_cast<float>(c.dim));
  const std::int64_t rows = c.sequences * c.rows;
  const dense_rows all = rows_at_the_end(reference, c.sequences, c.rows, c.keys);
  const std::int64_t room = all.pages * kv_page_size, pages = all.pages * c.sequences;
  const auto q = rounded(drawn(rows * c.heads * c.dim, 1)),
             keys = rounded(drawn(pages * kv_page_size * c.kv * c.dim, 1)),
             values = rounded(drawn(pages * kv_page_size * c.kv * c.dim, 1));
  const auto paged = [&](const backend& b, const std::vector<float>& v, dtype type) {
    return stored(b, {pages, kv_page_size, c.kv, c.dim}, v, type);
  };
  const tensor want = reference.allocate(dtype::f32, {rows, c.heads, c.dim}),
               key_pages = paged(reference, keys, dtype::f32),
               value_pages = paged(reference, values, dtype::f32),
               query = stored(reference, {rows, c.heads, c.dim}, q, dtype::f32);
  const paged_kv cache{key_pages, value_pages, all.page_table,
                       static_cast<std::int32_t>(all.pages)};
  reference.run(op::attention{all.rows, query, cache, all.seen, scale, want, {}});

  const tensor got = stored(on, {rows, c.heads, c.dim}, std::vector<float>(q.size(), std::nanf("")),
                            dtype::bf16),
               there_q = stored(on, {rows, c.heads, c.dim}, q, dtype::bf16),
               there_keys = paged(on, keys, dtype::bf16),
               there_values = paged(on, values, dtype::bf16);
  on.synchronize();
  const auto plan = module.prepare(
      libraries::attention_shape{c.sequences, c.rows, c.keys, c.heads, c.kv, c.dim, room, scale});
  module.call(plan, libraries::attention_operands{there_q.view().data, there_keys.view().data,
                                                  there_values.view().data, got.view().data});
  module.wait();
  return relative_difference(read(on, got), read(reference, want));
}

struct small_experts {
  std::int64_t rows, width, hidden, experts, per_row;
};
constexpr small_experts experts_cases[] = {{7, 64, 40, 4, 2}, {40, 64, 48, 7, 3}};

// The same of the experts. The last expert has no row, and the first row one expert less.
double difference_of(const library_module& module, const backend& on, const small_experts& c) {
  const backend& reference = reference_backend();
  const auto x = rounded(drawn(c.rows * c.width, 1)),
             up = rounded(drawn(c.experts * 2 * c.hidden * c.width, 0.2F)),
             down = rounded(drawn(c.experts * c.width * c.hidden, 0.2F)),
             share = drawn(c.rows * c.per_row, 0.5F), y = drawn(c.rows * c.width, 0.5F);
  std::vector<std::int32_t> chosen;
  for (std::int64_t i = 0; i < c.rows * c.per_row; ++i) {
    const std::int64_t e = (i / c.per_row * i + i % c.per_row) % (c.experts - 1);
    chosen.push_back(i == 0 ? -1 : static_cast<std::int32_t>(e));
  }
  moe_experts all;
  all.hidden = static_cast<std::int32_t>(c.hidden);
  const auto pack = [&](const std::vector<float>& values, std::int64_t e, std::int64_t rows,
                        std::int64_t columns) {
    const auto first = values.begin() + e * rows * columns;
    const std::vector<float> own(first, first + rows * columns);
    return reference.pack(stored(reference, {rows, columns}, own, dtype::f32), weight_format::f32);
  };
  for (std::int64_t e = 0; e < c.experts; ++e) {
    all.gate_up.push_back(pack(up, e, 2 * c.hidden, c.width));
    all.down.push_back(pack(down, e, c.width, c.hidden));
  }
  const auto choices = [&](const tensor& flat) {
    return make_view(flat.view().data, dtype::i32, {c.rows, c.per_row});
  };
  const tensor here_x = stored(reference, {c.rows, c.width}, x, dtype::f32),
               here_choice = listed(reference, chosen),
               here_share = stored(reference, {c.rows, c.per_row}, share, dtype::f32),
               want = stored(reference, {c.rows, c.width}, y, dtype::f32);
  reference.run(op::moe_feed_forward{here_x, choices(here_choice), here_share, all, want});

  const tensor there_x = stored(on, {c.rows, c.width}, x, dtype::bf16),
               there_choice = listed(on, chosen),
               there_share = stored(on, {c.rows, c.per_row}, share, dtype::f32),
               there_up = stored(on, {c.experts, 2 * c.hidden, c.width}, up, dtype::bf16),
               there_down = stored(on, {c.experts, c.width, c.hidden}, down, dtype::bf16),
               got = stored(on, {c.rows, c.width}, y, dtype::f32);
  on.synchronize();
  const auto plan =
      module.prepare(libraries::experts_shape{c.rows, c.width, c.hidden, c.experts, c.per_row});
  module.call(plan,
              libraries::experts_operands{there_x.view().data, there_choice.as<std::int32_t>(),
                                          there_share.as<float>(), there_up.view().data,
                                          there_down.view().data, got.as<float>()});
  module.wait();
  return relative_difference(read(on, got), read(reference, want));
}

void check_small_cases(const library_module& module, multiplied what, const backend& on) {
  double worst = 0;
  if (what == multiplied::attention) {
    for (const auto& c : attention_cases) worst = std::max(worst, difference_of(module, on, c));
  } else {
    for (const auto& c : experts_cases) worst = std::max(worst, difference_of(module, on, c));
  }
  if (worst <= allowed_difference) return;
  throw environment_error("wrong in a small case: differs from the reference by " +
                          std::to_string(worst) + " of the largest result");
}

}  // namespace

const char* library_module::name_of(multiplied what) {
  return names_of(what).library;
}

library_module::library_module(multiplied what, const backend& on) {
  try {
    const module_names& names = names_of(what);
    file_ = file_of(names).string();
    open_library_of(names);
    way_ = way_in(file_, what);
    check_small_cases(*this, what, on);
  } catch (const error& problem) {
    why_ = problem.what();
  }
}

void library_module::fail() const {
  throw environment_error(file_ + ": " + way_->problem());
}

library_module::plan library_module::prepare(const libraries::attention_shape& shape) const {
  void* made = way_->prepare_attention(&shape);
  if (made == nullptr) fail();
  return {made, way_->release};
}
library_module::plan library_module::prepare(const libraries::experts_shape& shape) const {
  void* made = way_->prepare_experts(&shape);
  if (made == nullptr) fail();
  return {made, way_->release};
}
void library_module::call(const plan& p, const libraries::attention_operands& operands) const {
  if (way_->attend(p.get(), &operands) != 0) fail();
}
void library_module::call(const plan& p, const libraries::experts_operands& operands) const {
  if (way_->feed_forward(p.get(), &operands) != 0) fail();
}
void library_module::wait() const {
  if (way_->wait() != 0) fail();
}

}  // namespace unmask::bench
