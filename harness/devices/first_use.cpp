// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/first_use.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/product_library.h"

namespace unmask {
namespace {

using cuda::multiplied;
using cuda::multiplier;
using device_checks::case_result;
using device_checks::device_check;

constexpr std::uint64_t check_seed = 1;
constexpr std::size_t largest_outcome = std::size_t{1} << 20;

std::string sentence_of(const case_result& wrong) {
  const std::string where = wrong.operation + (wrong.what.empty() ? "" : ", " + wrong.what);
  if (!wrong.problem.empty()) return where + ": " + wrong.problem;
  return fmt::format("{}: off by {:.3g} tolerances", where, wrong.error);
}

// The cases of one check, and the first that is wrong.
struct tally {
  std::int64_t cases = 0;
  std::optional<case_result> wrong;
};

tally run_once(const backend& device, const device_check& check) {
  tally found;
  device_checks::checker checker(device, false, check_seed, [&](const case_result& r) {
    ++found.cases;
    if (!r.right() && !found.wrong) found.wrong = r;
  });
  checker.run(check.operations, check.cases);
  return found;
}

// The first way of these operations that may be left out; none: they take CUDA cores.
bool may_take(const cuda::choices& chosen, multiplied what, multiplier how, bool wgmma) {
  const bool by_wgmma =
      how == multiplier::wgmma || (how == multiplier::newer && what != multiplied::head);
  return (wgmma || !by_wgmma) && chosen.may_multiply(what, how);
}
std::optional<multiplier> first_way(const cuda::choices& chosen, multiplied what, bool wgmma) {
  for (const multiplier how :
       {multiplier::newer, multiplier::library, multiplier::wgmma, multiplier::mma_sync}) {
    if (may_take(chosen, what, how, wgmma)) return how;
  }
  return std::nullopt;
}
// What a wrong case leaves out: what came behind the product before the product itself.
std::optional<std::pair<multiplied, multiplier>> first_suspect(const cuda::choices& chosen,
                                                               const device_check& check,
                                                               bool wgmma) {
  for (const auto& what : {check.folded_by, check.by}) {
    if (!what) continue;
    if (const auto how = first_way(chosen, *what, wgmma)) return std::pair{*what, *how};
  }
  return std::nullopt;
}

const auto& every_multiplier() {
  static const std::vector<multiplier> all = {multiplier::newer, multiplier::library,
                                              multiplier::wgmma, multiplier::mma_sync,
                                              multiplier::cuda_cores};
  return all;
}
template <class All>
auto named(const All& all, const std::string& name) {
  const auto found = std::ranges::find_if(all, [&](auto one) { return name == name_of(one); });
  if (found == all.end()) throw environment_error("unknown way to multiply '" + name + "'");
  return *found;
}

wrong_kernels wrong_on(const std::string& name, const case_result& wrong, bool had_ways) {
  return wrong_kernels(fmt::format(
      "device check: wrong on {}: {}{}; nothing is measured there. "
      "run.device_check = \"off\" measures all the same and marks rows UNCHECKED",
      name, sentence_of(wrong), had_ways ? ", and no other way to multiply is left" : ""));
}

std::string hash_of_program() {
  const std::filesystem::path program = file_of_code();
  return remembered_hash(program, user_hash_memory(), [&] {
    const auto file = mapped_file::open(program);
    return sha256_hex({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  });
}

// The choices that [run] states; an environment variable states those without a key there.
cuda::choices asked_of_kernels(const run_keys& run) {
  const bool open = run.kernels == "auto";
  return {.own_products = run.gemm == "own",
          .wgmma = cuda::wgmma_by_environment(),
          .graphs = run.graphs != "off",
          .newer = open ? cuda::newer_by_environment().value_or(card_decides(run))
                        : run.kernels == "new",
          .left_out = {}};
}

std::string key_of(const cuda::report& machine, const cuda::device_properties& card,
                   const cuda::choices& asked, bool raced) {
  const char* jit = std::getenv("CUDA_FORCE_PTX_JIT");
  const std::string text =
      fmt::format("{}\n{} {}.{} {} {}\n{} {} {}\n{}\n{} {} {} {} {} {}", hash_of_program(),
                  card.name, card.compute_major, card.compute_minor, card.multiprocessors,
                  card.memory_bytes, machine.driver_version, machine.runtime_version,
                  query_nvml({}).driver, cuda::product_library(), asked.own_products, asked.graphs,
                  asked.wgmma, asked.newer, raced, jit == nullptr ? "" : jit);
  return sha256_hex(text).substr(0, 16);
}

// Null: nothing is kept, or it cannot be read.
std::optional<device_check_outcome> recall(const std::filesystem::path& file) {
  if (file.empty() || !is_file(file)) return std::nullopt;
  try {
    return outcome_of(read_file(file, largest_outcome));
  } catch (const error& unreadable) {
    tell("note: {}: {}; the device check runs again\n", file.string(), unreadable.what());
    return std::nullopt;
  }
}

void keep(const std::filesystem::path& file, const device_check_outcome& outcome) {
  if (file.empty()) return;
  try {
    replace_file(file, json_of(outcome) + "\n");
  } catch (const error& unwritable) {
    tell("note: the device check is not kept: {}\n", unwritable.what());
  }
}

void announce(const std::string& name, const device_check_outcome& outcome, bool recalled) {
  for (const left_out_way& way : outcome.left_out) {
    tell("WARNING: {} by {} is wrong on {} and not used ({})\n", name_of(way.what),
         name_of(way.how), name, way.why);
  }
  for (const raced_kernels& race : outcome.raced) {
    tell("{} by {}: {:.3g} ms, before {:.3g} ms on {}{}\n", name_of(race.what),
         name_of(multiplier::newer), race.newer_ms, race.before_ms, name,
         race.newer_wins() ? "" : "; not used");
  }
  tell("device check: {} cases right on {}, {:.1f} s{}\n", outcome.cases, name, outcome.seconds,
       recalled ? ", kept from its first use" : "");
}

// Without a default, so that the compiler names a kind that is missing.
bool is_multiplied(multiplied what) {
  switch (what) {
    case multiplied::products:
    case multiplied::int8_products:
    case multiplied::attention:
    case multiplied::experts:
    case multiplied::head:
    case multiplied::gated:
    case multiplied::few_rows:
    case multiplied::head_product:
      return true;
  }
  return false;
}

}  // namespace

const std::vector<multiplied>& every_multiplied() {
  static const std::vector<multiplied> all = [] {
    std::vector<multiplied> found;
    for (std::uint8_t n = 0; is_multiplied(multiplied{n}); ++n) found.push_back(multiplied{n});
    return found;
  }();
  return all;
}

bool card_decides(const run_keys& run) {
  return run.kernels == "auto" && run.ranks == 1 && !cuda::newer_by_environment() &&
         find_device(run.device).is_card && run.device_check != "off";
}

std::string device_check_outcome::text() const {
  std::string text = fmt::format("{} cases right", cases);
  for (const left_out_way& way : left_out) {
    text += fmt::format("{} {} by {} ({})", &way == &left_out.front() ? "; not used:" : ",",
                        name_of(way.what), name_of(way.how), way.why);
  }
  for (const raced_kernels& race : raced) {
    text += fmt::format("; {} by {} {:.3g} ms, before {:.3g} ms", name_of(race.what),
                        name_of(multiplier::newer), race.newer_ms, race.before_ms);
  }
  return text;
}

device_check_outcome run_device_checks(const kernels_with& device, cuda::choices chosen,
                                       const std::string& name,
                                       const std::vector<device_check>& checks, bool wgmma) {
  device_check_outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  std::map<std::string, std::int64_t> cases;
  std::deque<device_check> left(checks.begin(), checks.end());
  while (!left.empty()) {
    const device_check check = left.front();
    left.pop_front();
    const tally found = run_once(device(chosen), check);
    cases[check.operations] = found.cases;
    if (!found.wrong) continue;
    // Not every case takes a newer kernel: what is wrong without it all the same has another reason.
    cuda::choices without = chosen;
    auto way = first_suspect(without, check, wgmma);
    while (way && way->second == multiplier::newer) {
      without.left_out.insert(*way);
      if (!run_once(device(without), check).wrong) break;
      way = first_suspect(without, check, wgmma);
    }
    if (!way) throw wrong_on(name, *found.wrong, check.by.has_value());
    outcome.left_out.push_back({way->first, way->second, sentence_of(*found.wrong)});
    chosen.left_out.insert(*way);
    // All of this kind take another way from here on, those too that were right by the last one.
    const auto takes_it = [&](const device_check& c) {
      return c.by == way->first || c.folded_by == way->first;
    };
    std::erase_if(left, takes_it);
    std::ranges::copy_if(checks, std::back_inserter(left), takes_it);
  }
  for (const auto& [operations, n] : cases) outcome.cases += n;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

std::vector<raced_kernels> run_device_races(const kernels_with& device, const cuda::choices& chosen,
                                            const std::vector<device_checks::device_race>& races,
                                            bool wgmma, const std::function<double()>& now) {
  constexpr int turns = 7, calls = 3;
  std::vector<raced_kernels> results;
  for (const device_checks::device_race& race : races) {
    if (!may_take(chosen, race.of, multiplier::newer, wgmma)) continue;
    cuda::choices without = chosen;
    without.left_out.insert({race.of, multiplier::newer});
    const backend* ways[2] = {&device(chosen), &device(without)};
    const std::function<void()> work[2] = {race.prepare(*ways[0]), race.prepare(*ways[1])};
    std::vector<double> ms[2];
    for (int turn = 0; turn <= turns; ++turn) {  // the first makes scratch memory and tables
      for (const int way : {turn % 2, 1 - turn % 2}) {
        ways[way]->synchronize();
        const double begin = now();
        for (int n = 0; n < calls; ++n) work[way]();
        ways[way]->synchronize();
        if (turn > 0) ms[way].push_back((now() - begin) * 1e3 / calls);
      }
    }
    for (auto& times : ms) std::ranges::nth_element(times, times.begin() + turns / 2);
    results.push_back({race.of, ms[0][turns / 2], ms[1][turns / 2]});
  }
  return results;
}

std::string json_of(const device_check_outcome& outcome) {
  nlohmann::json out = {{"cases", outcome.cases}, {"seconds", outcome.seconds}};
  out["left_out"] = nlohmann::json::array();
  for (const left_out_way& way : outcome.left_out) {
    out["left_out"].push_back(
        {{"what", name_of(way.what)}, {"how", name_of(way.how)}, {"why", way.why}});
  }
  for (const raced_kernels& race : outcome.raced) {
    out["raced"].push_back(
        {{"what", name_of(race.what)}, {"newer_ms", race.newer_ms}, {"before_ms", race.before_ms}});
  }
  return out.dump();
}

device_check_outcome outcome_of(const std::string& json) {
  try {
    const nlohmann::json in = nlohmann::json::parse(json);
    device_check_outcome outcome{in.at("cases"), in.at("seconds"), {}, {}};
    for (const nlohmann::json& way : in.at("left_out")) {
      outcome.left_out.push_back({named(every_multiplied(), way.at("what")),
                                  named(every_multiplier(), way.at("how")), way.at("why")});
    }
    for (const nlohmann::json& race : in.value("raced", nlohmann::json::array())) {
      outcome.raced.push_back(
          {named(every_multiplied(), race.at("what")), race.at("newer_ms"), race.at("before_ms")});
    }
    return outcome;
  } catch (const nlohmann::json::exception& problem) {
    throw environment_error(problem.what());
  }
}

std::filesystem::path kept_checks_folder() {
  if (const char* cache = std::getenv("UNMASK_CACHE")) return cache;
  const char* home = std::getenv("HOME");
  return home == nullptr ? std::filesystem::path()
                         : std::filesystem::path(home) / ".cache" / "unmask";
}

namespace {

// The outcome for this card: kept from an earlier run, or of a check that runs now.
device_check_outcome first_use(const cuda::device_properties& card, const cuda::choices& asked,
                               const std::string& key, bool raced, bool again) {
  const std::filesystem::path folder = kept_checks_folder();
  const std::filesystem::path file =
      folder.empty() ? folder : folder / ("checked-" + key + ".json");
  std::optional<device_check_outcome> outcome = again ? std::nullopt : recall(file);
  const bool recalled = outcome.has_value();
  if (!recalled) {
    tell("device check: {}{}\n", card.name, again ? "" : ", its first use by this program");
    const std::string by =
        tensor_products(this_build().cuda_architectures, card.compute_major, card.compute_minor);
    const kernels_with device = [](const cuda::choices& chosen) -> const backend& {
      return cuda_backend(chosen);
    };
    outcome = run_device_checks(device, asked, card.name, device_checks::registered_device_checks(),
                                by == "wgmma");
    if (raced) {
      cuda::choices right = asked;
      for (const left_out_way& way : outcome->left_out) right.left_out.insert({way.what, way.how});
      outcome->raced = run_device_races(
          device, right, device_checks::registered_device_races(), by == "wgmma", [] {
            const auto since = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration<double>(since).count();
          });
    }
    keep(file, *outcome);
  }
  announce(card.name, *outcome, recalled);
  return *outcome;
}

// Of the kernels that a run on a GPU asks for.
device_check_outcome outcome_for(const run_keys& run, bool again) {
  static std::map<std::string, device_check_outcome> known;  // of this program's run, by key
  const cuda::report machine = cuda::query();
  if (machine.devices.empty()) throw environment_error(machine.note);
  const cuda::device_properties& card = machine.devices.front();
  const cuda::choices asked = asked_of_kernels(run);
  const bool raced = card_decides(run);
  const std::string key = key_of(machine, card, asked, raced);
  if (!known.contains(key) || again) known[key] = first_use(card, asked, key, raced, again);
  return known[key];
}

}  // namespace

cuda::choices checked_choices(const run_keys& run) {
  cuda::choices chosen = asked_of_kernels(run);
  if (!find_device(run.device).is_card || run.device_check == "off") return chosen;
  const device_check_outcome outcome = outcome_for(run, false);
  for (const left_out_way& way : outcome.left_out) chosen.left_out.insert({way.what, way.how});
  for (const raced_kernels& race : outcome.raced) {
    if (!race.newer_wins()) chosen.left_out.insert({race.what, multiplier::newer});
  }
  return chosen;
}

std::string check_gpu(const run_keys& run, bool again) {
  if (run.device_check == "off") {
    tell("WARNING: run.device_check is off: rows are marked UNCHECKED\n");
    return not_checked;
  }
  return outcome_for(run, again).text();
}

}  // namespace unmask
