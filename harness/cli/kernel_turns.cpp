// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/kernel_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/output.h"
#include "harness/cli/terminal.h"
#include "harness/devices/build_info.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/devices/first_use.h"
#include "harness/devices/nvml.h"
#include "harness/rows/glossary.h"
#include "harness/rows/text_table.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/product_library.h"

namespace unmask {
namespace {

constexpr std::int64_t most_turns = 1000;

// Which ways are wanted, of "own,before,library".
void read_ways(const command_line& line, bench::turn_settings& s) {
  s.own = s.before = s.libraries = false;
  for (const std::string& word : line.parts("kernels")) {
    if (word != "own" && word != "before" && word != "library") {
      throw usage_error("--kernels " + word + ": say own,before,library or some of these");
    }
    (word == "own" ? s.own : word == "before" ? s.before : s.libraries) = true;
  }
}

// The card, or the emulator, which tells what its kernels do to memory.
const device& device_of(const command_line& line) {
  const std::string asked = line.text("device");
  if (asked.empty() || device_if_chosen(asked) == nullptr) {
    return *std::ranges::find_if(device_list(), &device::is_card);
  }
  const device& chosen = find_device(asked);
  if (!chosen.is_card && !chosen.counts_traffic) {
    throw usage_error("--device " + asked +
                      ": bench --kernels times CUDA kernels, which it has not");
  }
  return chosen;
}

// On a card with what its first use found wrong left out; on the emulator, which has no library, as it is.
bench::turn_settings settings_of(const device& on, const command_line& line) {
  bench::turn_settings s;
  read_ways(line, s);
  s.turns = line.within("turns", 1, most_turns);
  s.cases = line.text("cases");
  const char* small = std::getenv("UNMASK_BENCH_SMALL");
  s.small = !on.is_card || (small != nullptr && std::string(small) == "1");
  if (!on.is_card) {
    s.device = [](const cuda::choices& c) -> const backend& { return cuda_emulated_backend(c); };
    s.library = false;
    s.no_library = "the emulator has no library";
    return s;
  }
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) throw environment_error("NOT RUN: " + machine.note);
  const cuda::device_properties& card = machine.devices.front();
  run_keys run;
  run.device = on.name;
  run.kernels = "new";  // slower ones are timed too
  for (const std::string& setting : line.list("set")) {
    if (setting != "run.device_check=off") {
      throw usage_error("--set " + setting + ": bench --kernels takes run.device_check=off alone");
    }
    run.device_check = "off";
  }
  s.asked = checked_choices(run);
  s.device = [](const cuda::choices& c) -> const backend& { return cuda_backend(c); };
  s.wgmma = tensor_products(this_build().cuda_architectures, card.compute_major,
                            card.compute_minor) == "wgmma";
  s.library = cuda::product_library() != "none";
  s.no_library = "cuBLASLt is not on this machine";
  return s;
}

double median_us(const bench::kernel_way& way) {
  return 1e6 * percentile_of(way.seconds, 0.5);
}

const bench::kernel_way* fastest_own(const bench::kernel_case& c) {
  const bench::kernel_way* best = nullptr;
  for (const bench::kernel_way& way : c.ways) {
    if (way.own && way.why.empty() && (best == nullptr || median_us(way) < median_us(*best))) {
      best = &way;
    }
  }
  return best;
}

void add_rows(text_table& table, const bench::kernel_case& c) {
  for (std::size_t i = 0; i < c.ways.size(); ++i) {
    const bench::kernel_way& way = c.ways[i];
    if (const auto second = second_way_of(c, i)) table.notes.push_back(second->sentence);
    if (!way.why.empty()) {
      table.add({c.name, way.name, "NOT RUN", way.why, "–"});
      continue;
    }
    const bench::kernel_way* other = held_against(c, i);
    if (const auto before = over_before(c, i)) {
      table.notes.push_back(fmt::format(
          "{}: {} take {:.3f} times (95 % interval {:.3f} to {:.3f}) as long as {}.", c.name,
          way.name, before->ratio, before->range.low, before->range.high, before->against));
    }
    const auto r = other == nullptr ? std::nullopt : ratio_of(way, *other);
    table.add({c.name, way.name, number_cell(median_us(way), 1), r ? r->against : "–",
               r ? number_cell(r->ratio, 3, 1, r->range) : table_cell("–")});
  }
}

}  // namespace

option_table kernel_options() {
  return {
      {"kernels", repeated(),
       "no model: time kernels, own,before,library or some of these, all ways of a case in turn; "
       "own: this program's kernels; before: those that newer ones would take the place of; "
       "library: "
       "cuBLASLt, and the modules of cuDNN and CUTLASS that UNMASK_CUDNN_WAY and "
       "UNMASK_CUTLASS_WAY "
       "name or that are next to the program"},
      {"turns", 5, "of --kernels: make N turns"},
      {"cases", no_default, "of --kernels: time only cases whose name this expression finds"},
      {"kernel-rows", no_default, "of --kernels: write a JSON object a way into this file too"}};
}

std::optional<turn_ratio> ratio_of(const bench::kernel_way& way, const bench::kernel_way& other) {
  const std::size_t turns = std::min(way.seconds.size(), other.seconds.size());
  if (turns < 2) return std::nullopt;
  std::vector<double> logs;
  for (std::size_t t = 0; t < turns; ++t)
    logs.push_back(std::log(way.seconds[t] / other.seconds[t]));
  const double mean = mean_of(logs);
  for (double& l : logs) l += 1 - mean;  // about 1, where half widths may be relative
  const double half = relative_half_width(logs);
  return turn_ratio{other.name, std::exp(mean), {std::exp(mean - half), std::exp(mean + half)}};
}

const bench::kernel_way* held_against(const bench::kernel_case& c, std::size_t way) {
  if (c.ways[way].second) return fastest_own(c);
  if (!c.ways[way].own) return nullptr;
  for (const bench::kernel_way& other : c.ways) {
    if (!other.own && other.why.empty()) return &other;
  }
  if (c.ways[way].before) return nullptr;
  for (const bench::kernel_way& other : c.ways) {
    if (other.before && other.why.empty()) return &other;
  }
  for (std::size_t i = 0; i < way; ++i) {
    if (c.ways[i].own && c.ways[i].why.empty()) return &c.ways[i];
  }
  return nullptr;
}

std::optional<turn_ratio> over_before(const bench::kernel_case& c, std::size_t way) {
  const bench::kernel_way& mine = c.ways[way];
  const bench::kernel_way* other = held_against(c, way);
  if (!mine.own || mine.before || !mine.why.empty() || other == nullptr || other->own) {
    return std::nullopt;
  }
  for (const bench::kernel_way& before : c.ways) {
    if (before.before && before.why.empty()) return ratio_of(mine, before);
  }
  return std::nullopt;
}

std::optional<second_way> second_way_of(const bench::kernel_case& c, std::size_t way) {
  const bench::kernel_way& second = c.ways[way];
  const bench::kernel_way* own = fastest_own(c);
  if (!second.second || !second.why.empty() || own == nullptr) return std::nullopt;
  const auto r = ratio_of(second, *own);
  const std::string name = second.version.empty() ? second.name : second.version;
  const auto says = [&](bool taken, const std::string& what) {
    return second_way{taken, c.name + ": " + name + what};
  };
  if (!r) return says(false, " is not taken, because one turn has no interval.");
  const std::string times =
      fmt::format("{:.3f} times (95 % interval {:.3f} to {:.3f}) the time of {}", r->ratio,
                  r->range.low, r->range.high, own->name);
  if (r->range.high < 1) return says(true, " is taken: " + times + ".");
  if (r->range.low > 1) return says(false, " is slower and not taken: " + times + ".");
  return says(false, " is not taken, because it is not shown to be faster: " + times + ".");
}

std::string kernel_rows(const bench::kernel_case& c, const device_load& load) {
  std::string text;
  nlohmann::json of_card = nlohmann::json::object();
  if (load.watts) of_card["watts_mean"] = *load.watts;
  if (load.sm_clock_mhz) of_card["clock_mhz_mean"] = *load.sm_clock_mhz;
  if (load.throttled_share) of_card["throttled_share"] = *load.throttled_share;
  for (std::size_t i = 0; i < c.ways.size(); ++i) {
    const bench::kernel_way& way = c.ways[i];
    nlohmann::json row = {
        {"case", c.name}, {"way", way.name}, {"own", way.own}, {"before", way.before}};
    if (!way.why.empty()) {
      row["why"] = way.why;
    } else {
      row["median_us"] = median_us(way);
      row["seconds"] = way.seconds;
      row.update(of_card);
      const bench::kernel_way* other = held_against(c, i);
      if (const auto r = other == nullptr ? std::nullopt : ratio_of(way, *other)) {
        row["against"] = r->against;
        row["ratio"] = r->ratio;
        row["low"] = r->range.low;
        row["high"] = r->range.high;
      }
      if (const auto before = over_before(c, i)) {
        row["over_before"] = {
            {"ratio", before->ratio}, {"low", before->range.low}, {"high", before->range.high}};
      }
    }
    if (way.second && !way.version.empty()) row["version"] = way.version;
    if (const auto second = second_way_of(c, i)) row["taken"] = second->taken;
    text += row.dump() + "\n";
  }
  return text;
}

int bench_kernels(const command_line& line) {
  if (!line.list("model").empty()) throw usage_error("bench --kernels takes no model");
  const device& on = device_of(line);
  bench::turn_settings settings = settings_of(on, line);
  const energy_meter meter = on.energy();
  std::optional<load_sampler> load;
  settings.begin = [&] { load.emplace(meter); };
  std::ofstream rows;
  const std::string file = line.text("kernel-rows");
  if (!file.empty()) {
    rows.open(file, std::ios::binary);
    if (!rows) throw environment_error("cannot write " + file);
  }
  text_table table = table_with({"case", "way", ">µs", "over", ">ratio"});
  time_in_turn(settings, [&](const bench::kernel_case& c) {
    const device_load of_turns = load->finish();
    add_rows(table, c);
    if (!rows.is_open()) return;
    rows << kernel_rows(c, of_turns) << std::flush;
    if (!rows) throw environment_error("cannot write " + file);
  });
  if (settings.small) table.notes.emplace_back("Smallest sizes: these times mean nothing.");
  print_tables(render(table, line.format()));
  return 0;
}

}  // namespace unmask
