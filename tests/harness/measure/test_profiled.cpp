// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Profiling as an experiment: what is instrumented and what is not, and the probe's numbers.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "harness/measure/profiled.h"
#include "harness/rows/store.h"
#include "harness/rows/table.h"
#include "harness/run/runner.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;
using json = nlohmann::json;

// Points whose pass is one step with two phases; says whether somebody listened.
class phased_executor final : public executor {
 public:
  std::vector<bool> listened;
  bool waver = false;  // other tokens when watched

  class point final : public prepared_point {
   public:
    explicit point(phased_executor& owner) : owner_(owner) {}
    model_record model() const override {
      model_record m{"m", "hash", 10, "checkpoint"};
      m.used.format = "f32";
      return m;
    }
    workload_record workload() const override { return {"t", "hash", 2}; }
    token_rules rules() const override { return fixtures::rules; }
    pass_record pass() override {
      phase_listener* watcher = current_listener();
      owner_.listened.push_back(watcher != nullptr);
      {
        const phase_range step(profile_phase::step, 0);
        const phase_range attention(profile_phase::attention, 0);
        if (watcher) watcher->work(profile_phase::attention, {4, 2e6, 1e6});
        if (watcher) watcher->work(profile_phase::selection, {0, 5, std::nullopt});
      }
      pass_record pass = good_pass(2.0);
      if (owner_.waver && watcher) pass.answers.front().tokens.front() = 9;
      return pass;
    }
    std::vector<scored_answer> score(const pass_record& pass) override {
      return std::vector<scored_answer>(pass.answers.size(), scored(1));
    }

   private:
    phased_executor& owner_;
  };

  method_catalogue methods() const override { return catalogue(); }
  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    std::vector<preparation> all(group.size());
    for (preparation& p : all) p.point = std::make_unique<point>(*this);
    return all;
  }
  std::string environment() const override { return "{}"; }
  std::string source_hash() const override { return "abc"; }
};

struct profiled_run {
  phased_executor with;
  point_watcher watch;

  explicit profiled_run(profile_settings settings, bool waver = false)
      : watch(make_profiler(std::move(settings))) {
    with.waver = waver;
  }
  run_summary run(const scratch_directory& where, std::vector<method_entry> methods) {
    experiment_spec spec;
    spec.title = "t";
    spec.models.push_back({"m", "m", "checkpoint"});
    workload_entry workload;
    workload.name = "t";
    spec.workloads.push_back(workload);
    spec.methods = std::move(methods);
    spec.evidence = {2, 2, 1, 0.03};
    run_options options;
    options.output = where / "rows";
    options.progress = false;
    options.watch = watch;
    return run_experiment(spec, options, with);
  }
};

std::vector<method_entry> method(const std::string& name) {
  method_entry m;
  m.name = m.label = name;
  return {m};
}

profile_settings with(profile_tool tool) {
  profile_settings s;
  s.tool = tool;
  s.roofs = [](const run_keys& run, const std::string& format) {
    EXPECT_EQ(run.device, "auto");  // as asked for: no executor of a test resolves it
    EXPECT_EQ(format, "f32");
    return device_roofs{1e9, 2e9, "made up"};
  };
  return s;
}

TEST(profiled, only_the_last_pass_is_watched_and_its_phases_become_the_probe) {
  const scratch_directory where;
  profiled_run run(with(profile_tool::phases));
  const run_summary summary = run.run(where, method("vanilla"));
  EXPECT_EQ(run.with.listened, (std::vector<bool>{false, false, false, true}));
  ASSERT_EQ(summary.rows.size(), 1U);
  EXPECT_EQ(summary.rows[0].samples.seconds.size(), 2U);
  const json report = json::parse(read_rows(summary.file).rows.at(0).probes.at("phases"));
  EXPECT_EQ(report["provenance"]["time"], "clock");
  EXPECT_EQ(report["provenance"]["work"], "analytic");
  EXPECT_EQ(report["untraced_seconds"], 2.0);
  ASSERT_EQ(report["phases"].size(), 3U);
  const json& attention = report["phases"][2];
  EXPECT_EQ(attention["phase"], "attention");
  EXPECT_EQ(attention["flops"], 2e6);
  EXPECT_EQ(attention["bytes"], 1e6);
  EXPECT_TRUE(attention["device_seconds"].is_null());
  // 2e6 FLOPs take 2 ms at this roof, the bytes 0.5 ms.
  EXPECT_NEAR(attention["roof_share"].get<double>(), 0.002 / attention["own_seconds"].get<double>(),
              1e-6);
  const json& selection = report["phases"][1];
  EXPECT_EQ(selection["phase"], "selection");
  EXPECT_TRUE(selection["bytes"].is_null());
  EXPECT_TRUE(report["phases"][0]["container"].get<bool>());
  const row_table rows(summary.rows);
  const std::string table = render(phase_tables(rows.all()), table_format::md);
  EXPECT_NE(table.find("| attention | 1 |"), std::string::npos) << table;
  EXPECT_NE(table.find("made up"), std::string::npos) << table;
}

// Other work makes a roof lower: the larger of before and after counts, and a difference is said.
TEST(profiled, roofs_are_measured_before_and_after_and_the_larger_is_taken) {
  const auto told = [](double before, double after) {
    const scratch_directory where;
    profile_settings settings = with(profile_tool::phases);
    int calls = 0;
    settings.roofs = [&](const run_keys&, const std::string&) {
      return device_roofs{calls++ == 0 ? before : after, 2e9, "made up"};
    };
    profiled_run run(std::move(settings));
    const run_summary summary = run.run(where, method("vanilla"));
    EXPECT_EQ(calls, 2);
    return json::parse(read_rows(summary.file).rows.at(0).probes.at("phases"))["roofs"];
  };
  EXPECT_EQ(told(1e9, 1.5e9)["flops_per_second"], 1.5e9);
  EXPECT_EQ(told(1e9, 1.5e9)["uncertain"], true);
  EXPECT_EQ(told(1.05e9, 1e9)["flops_per_second"], 1.05e9);
  EXPECT_EQ(told(1.05e9, 1e9)["uncertain"], false);
}

// A roof is what all threads can do: if this process had no processor, others had it. One measurement of
// the two on a quiet machine is enough, because other work makes a roof lower, never higher.
TEST(profiled, roofs_of_a_busy_machine_say_so) {
  const auto told = [](bool busy_before, bool busy_after) {
    const scratch_directory where;
    profile_settings settings = with(profile_tool::phases);
    int calls = 0;
    settings.roofs = [&](const run_keys&, const std::string&) {
      const bool busy = calls++ == 0 ? busy_before : busy_after;
      if (busy) std::this_thread::sleep_for(std::chrono::milliseconds(40));
      return device_roofs{1e9, 2e9, "made up"};
    };
    profiled_run run(std::move(settings));
    const run_summary summary = run.run(where, method("vanilla"));
    const row_table rows(summary.rows);
    const std::string table = render(phase_tables(rows.all()), table_format::md);
    const bool said = table.find("other work ran while it was measured, before") != table.npos;
    const auto stored = read_rows(summary.file).rows.at(0).probes.at("phases");
    EXPECT_EQ(json::parse(stored)["roofs"]["disturbed"], said);
    return said;
  };
  EXPECT_TRUE(told(true, true));
  EXPECT_FALSE(told(true, false));
  EXPECT_FALSE(told(false, true));
  EXPECT_FALSE(told(false, false));
}

TEST(profiled, the_tool_nvtx_watches_nothing) {
  const scratch_directory where;
  profiled_run run(with(profile_tool::nvtx));
  const run_summary summary = run.run(where, method("vanilla"));
  EXPECT_EQ(run.with.listened, (std::vector<bool>{false, false, false}));
  EXPECT_FALSE(summary.rows.at(0).probes.contains("phases"));
  EXPECT_TRUE(phase_tables(row_table(summary.rows).all()).empty());
}

TEST(profiled, a_watched_pass_that_decides_otherwise_is_an_error) {
  const scratch_directory where;
  profiled_run run(with(profile_tool::phases), true);
  const run_summary summary = run.run(where, method("vanilla"));
  EXPECT_EQ(summary.rows.at(0).verdict, row_verdict::failed);
  EXPECT_NE(summary.rows[0].reason.find("other tokens"), std::string::npos)
      << summary.rows[0].reason;
}

TEST(profiled, every_point_writes_a_trace_of_its_own) {
  const scratch_directory where;
  profile_settings settings = with(profile_tool::phases);
  settings.trace = where / "traces" / "t.json";
  profiled_run run(std::move(settings));
  auto methods = method("vanilla");
  methods.push_back(method("block_diffusion").front());
  run.run(where, methods);
  for (const char* name : {"t.json", "t-2.json"}) {
    std::ifstream in(where / "traces" / name);
    const json trace = json::parse(in);
    int complete = 0;
    for (const json& e : trace["traceEvents"]) complete += e["ph"] == "X";
    EXPECT_EQ(complete, 2) << name;
  }
}

TEST(profiled, counters_replace_analytic_work_and_device_time_the_clock) {
  phase_report report;
  phase_total attention;
  attention.phase = profile_phase::attention;
  attention.calls = 2;
  attention.seconds = attention.own_seconds = 1.0;
  attention.flops = 100;
  attention.bytes = 10;
  attention.bytes_known = true;
  phase_total decide = attention;
  decide.phase = profile_phase::decide;
  decide.bytes_known = false;
  report.phases = {attention, decide};
  report.roofs = {1000, 0, "r"};
  report.kernels = {{true, profile_phase::attention, "k", 2, 0.25, 0.1, 0.15}};
  report.counters = {{profile_phase::attention, 200, 20}};
  report.counters_problem = "";
  const json o = json::parse(phases_json(report));
  EXPECT_EQ(o["provenance"]["time"], "cupti");
  EXPECT_EQ(o["provenance"]["work"], "cupti");
  EXPECT_EQ(o["phases"][0]["flops"], 200);
  EXPECT_EQ(o["phases"][0]["provenance"], "cupti");
  EXPECT_EQ(o["phases"][0]["device_seconds"], 0.25);
  EXPECT_NEAR(o["phases"][0]["roof_share"].get<double>(), 0.2 / 0.25, 1e-12);
  EXPECT_EQ(o["phases"][1]["provenance"], "analytic");  // no counter saw it
  EXPECT_EQ(o["phases"][1]["device_seconds"], 0.0);
  EXPECT_TRUE(o["phases"][1]["roof_share"].is_null());
}

// By hand: of 3 s on rank 0, attention takes 2, and 1 or 4 on the others. Waiting is no difference.
TEST(profiled, phases_of_other_ranks_stand_beside_those_of_rank_0) {
  phase_report report;
  phase_total attention;
  attention.phase = profile_phase::attention;
  attention.calls = 2;
  attention.seconds = attention.own_seconds = 2.0;
  phase_total head = attention, waiting = attention;
  head.phase = profile_phase::lm_head;
  head.own_seconds = 0.5;
  waiting.phase = profile_phase::across_ranks;
  waiting.own_seconds = 0.5;
  report.phases = {attention, head, waiting};
  report.seconds = report.untraced_seconds = 3;
  report.other_ranks = {{{profile_phase::attention, 1.0}, {profile_phase::lm_head, 0.52}},
                        {{profile_phase::attention, 4.0},
                         {profile_phase::lm_head, 0.5},
                         {profile_phase::across_ranks, 0.1}}};
  const std::string text = phases_json(report);
  const json o = json::parse(text)["phases"];
  EXPECT_EQ(o[0]["least_seconds"], 1.0);
  EXPECT_EQ(o[0]["most_seconds"], 4.0);
  EXPECT_EQ(o[1]["least_seconds"], 0.5);
  EXPECT_EQ(o[1]["most_seconds"], 0.52);
  EXPECT_EQ(o[2]["least_seconds"], 0.0);
  EXPECT_EQ(o[2]["most_seconds"], 0.5);
  result_row row;
  row.run.ranks = 3;
  row.probes["phases"] = text;
  const std::string table = render(phase_tables({&row}), table_format::md);
  EXPECT_NE(table.find("| ms | least ms | most ms | share |"), std::string::npos) << table;
  EXPECT_NE(table.find("| attention | 2 | 2000.000 | 1000.000 | 4000.000 |"), std::string::npos)
      << table;
  EXPECT_NE(table.find("Least and most are over its 3 ranks. Ranks differ by more than 10 % in "
                       "attention."),
            std::string::npos)
      << table;

  // One rank has no others, and kernels that a tool traced are those of one device.
  phase_report one = report;
  one.other_ranks.clear();
  report.kernels = {{true, profile_phase::attention, "k", 2, 0.25, 0.1, 0.15}};
  for (const phase_report& of : {one, report}) {
    row.probes["phases"] = phases_json(of);
    EXPECT_TRUE(json::parse(row.probes["phases"])["phases"][0]["most_seconds"].is_null());
    EXPECT_EQ(render(phase_tables({&row}), table_format::md).find("most ms"), std::string::npos);
  }
}

TEST(profiled, refused_counters_leave_analytic_work_and_the_reason) {
  phase_report report;
  report.counters_problem = "the driver lets administrators only read counters";
  const json o = json::parse(phases_json(report));
  EXPECT_EQ(o["provenance"]["work"], "analytic");
  EXPECT_EQ(o["counters_problem"], report.counters_problem);
}

// What the emulator counted stands beside the phases, and in a table a step.
TEST(profiled, traffic_of_the_emulated_device_is_told_by_the_step) {
  phase_report report;
  phase_total step;
  step.phase = profile_phase::step;
  step.calls = 4;
  step.seconds = step.own_seconds = 1;
  report.phases = {step};
  report.seconds = report.untraced_seconds = 1;
  EXPECT_TRUE(json::parse(phases_json(report))["traffic"].is_null()) << "no emulator, no traffic";
  cuda::emulator::device_traffic& traffic = report.traffic.emplace();
  traffic.launches = 40;
  traffic.waits = 8;
  cuda::emulator::kernel_traffic& k = traffic.kernels["planted"];
  k.launches = 8;
  k.read.touched = 64000;
  k.read.requests = 100;
  k.read.sectors = 400;
  k.read.uncoalesced = 25;
  k.host_bytes = 128;
  const std::string text = phases_json(report);
  const json o = json::parse(text)["traffic"];
  EXPECT_EQ(o["steps"], 4);
  EXPECT_EQ(o["kernels"][0]["kernel"], "planted");
  EXPECT_EQ(o["kernels"][0]["host_bytes"], 128);

  result_row row;
  row.probes["phases"] = text;
  const std::vector<text_table> tables = phase_tables({&row});
  ASSERT_EQ(tables.size(), 2U);
  const std::vector<table_cell>& line = tables[1].rows.at(0);
  EXPECT_EQ(line[0].text, "planted");
  EXPECT_EQ(line[1].text, "2.0");   // launches a step
  EXPECT_EQ(line[2].text, "16.0");  // kB read
  EXPECT_EQ(line[4].text, "32");    // bytes of host memory
  EXPECT_EQ(line[5].text, "4.00");  // sectors a request
  EXPECT_EQ(line[7].text, "25.0");  // uncoalesced
  EXPECT_NE(tables[1].notes[0].find("10.0 launches, 2.0 host waits"), std::string::npos);
}

}  // namespace
}  // namespace unmask
