// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/plan/format.h"
#include "harness/plan/plan.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

const std::string base = R"(
[[model]]
path = "a"
[[model]]
path = "b"
[[workload]]
file = "t.jsonl"
[[method]]
name = "vanilla"
[[method]]
name = "block_diffusion"
models = ["b"]
)";

std::vector<experiment_point> plan_of(const std::string& more,
                                      const std::vector<std::string>& sets = {}) {
  experiment_spec spec = parse_spec(base + more, "x.toml");
  for (const std::string& set : sets) apply_override(spec, set);
  return make_plan(spec, catalogue());
}

std::vector<std::string> variations(const std::vector<experiment_point>& points,
                                    const std::string& model = "a") {
  std::vector<std::string> list;
  for (const experiment_point& p : points) {
    if (p.model.name == model) list.push_back(p.label + ":" + p.variation);
  }
  return list;
}

using names = std::vector<std::string>;

TEST(plan, methods_run_on_the_models_they_name) {
  const auto points = plan_of("");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].model.name + points[0].label, "avanilla");
  EXPECT_EQ(points[1].model.name + points[1].label, "bvanilla");
  EXPECT_EQ(points[2].model.name + points[2].label, "bblock_diffusion");
  EXPECT_EQ(points[2].params.size(), 2u);  // defaults filled in
}

TEST(plan, workloads_and_settings_may_be_one_models_own) {
  experiment_spec spec = parse_spec(R"(
[[model]]
path = "a"
[[model]]
path = "b"
set = {"params.steps" = 7, "method.two.threshold" = 0.5}
[[workload]]
benchmark = ["gsm8k", "humaneval"]
harness = "OC-S"
models = ["a"]
[[workload]]
benchmark = "gsm8k"
harness = "LM"
models = ["b"]
[[method]]
name = "vanilla"
[[method]]
name = "block_diffusion"
label = "two"
)",
                                    "x.toml");
  const auto points = make_plan(spec, catalogue());
  ASSERT_EQ(points.size(), 6u);
  for (const experiment_point& p : points) {
    EXPECT_EQ(p.workload.benchmark.harness, p.model.name == "a" ? "OC-S" : "LM");
    if (!p.params.contains("steps")) continue;
    EXPECT_EQ(std::get<std::int64_t>(p.params.at("steps")) == 7, p.model.name == "b");
  }
  spec.models[1].settings[0].key = "params.stops";
  EXPECT_THROW(make_plan(spec, catalogue()), error);
  // The same name twice on one model is still refused.
  EXPECT_THROW(parse_spec("[[model]]\npath = \"a\"\n[[workload]]\nbenchmark = \"gsm8k\"\n"
                          "[[workload]]\nbenchmark = \"gsm8k\"\nmodels = [\"a\"]\n[[method]]\n"
                          "name = \"vanilla\"\n",
                          "x.toml"),
               error);
}

// Keys and values in bfloat16: on cuda only, whatever order the settings come in; `auto` leaves the
// ids of points as they were before the setting existed.
TEST(plan, kv_type_goes_with_the_device) {
  const auto points = plan_of("[run]\nkv_type = \"bf16\"\ndevice = \"cuda\"\n");
  EXPECT_EQ(points.at(0).run.kv_type, "bf16");
  EXPECT_NE(points.at(0).id, plan_of("[run]\ndevice = \"cuda\"\n").at(0).id);
  EXPECT_EQ(canonical_settings(plan_of("").at(0)).find("kv_type"), std::string::npos);
  EXPECT_EQ(plan_of("", {"kv_type=bf16", "device=cuda"}).size(), 3u);
  EXPECT_EQ(plan_of("[sweep]\nkv_type = [\"f32\", \"bf16\"]\n", {"device=cuda"}).size(), 6u);
  const auto problem = [](const std::string& more, const std::vector<std::string>& sets) {
    return message_of([&] { plan_of(more, sets); });
  };
  // What "auto" comes to is not known to a plan: executor::identify() looks again.
  EXPECT_EQ(plan_of("[run]\nkv_type = \"bf16\"\n").size(), 3u);
  EXPECT_EQ(problem("[run]\nkv_type = \"bf16\"\ndevice = \"cpu\"\n", {}),
            "x.toml: `kv_type` \"bf16\" needs device \"cuda\"; on device \"cpu\" use \"auto\" or "
            "\"f32\"");
  EXPECT_NE(problem("", {"kv_type=f16"}).find("unknown kv_type 'f16'"), std::string::npos);
  EXPECT_EQ(problem("", {"device=cuda", "gemm=fastest"}),
            "x.toml: `gemm` \"fastest\" needs device \"cpu\"; on device \"cuda\" use \"auto\" or "
            "\"own\" or \"library\"");
}

TEST(plan, cross_takes_every_combination) {
  EXPECT_EQ(variations(plan_of("[sweep]\nparams.threshold = [0.5, 0.7]\nparams.steps = [1, 2]")),
            (names{"vanilla:steps=1 threshold=0.5", "vanilla:steps=1 threshold=0.7",
                   "vanilla:steps=2 threshold=0.5", "vanilla:steps=2 threshold=0.7"}));
}

TEST(plan, zip_pairs_the_values) {
  EXPECT_EQ(variations(
                plan_of("[sweep]\nmode=\"zip\"\nparams.threshold=[0.5, 0.7]\nparams.steps=[1, 2]")),
            (names{"vanilla:steps=1 threshold=0.5", "vanilla:steps=2 threshold=0.7"}));
}

TEST(plan, one_at_a_time_varies_around_the_first_values) {
  EXPECT_EQ(variations(plan_of("[sweep]\nmode=\"one-at-a-time\"\nparams.threshold=[0.5, 0.7]\n"
                               "params.steps=[1, 2, 3]")),
            (names{"vanilla:steps=1 threshold=0.5", "vanilla:steps=2 threshold=0.5",
                   "vanilla:steps=3 threshold=0.5", "vanilla:steps=1 threshold=0.7"}));
}

TEST(plan, leave_one_out_varies_around_the_recipe) {
  EXPECT_EQ(variations(plan_of("[sweep]\nmode=\"leave-one-out\"\nparams.threshold=[0.7]\n"
                               "params.steps=[3]")),
            (names{"vanilla:", "vanilla:steps=3", "vanilla:threshold=0.7"}));
}

TEST(plan, an_axis_leaves_other_methods_alone_and_duplicates_go) {
  const auto points =
      plan_of("[[method]]\nname=\"autoregressive\"\n[sweep]\nparams.steps=[1, 2]\n");
  EXPECT_EQ(variations(points), (names{"vanilla:steps=1", "autoregressive:", "vanilla:steps=2"}));
  EXPECT_EQ(variations(plan_of("[sweep]\n\"method.block_diffusion.steps\" = [1, 2]"), "b"),
            (names{"vanilla:", "block_diffusion:steps=1", "block_diffusion:steps=2"}));
  // On both models; and once however often a sweep of another method comes back to it.
  EXPECT_EQ(plan_of("[[method]]\nname=\"vanilla\"\nlabel=\"again\"").size(), 5u);
  EXPECT_EQ(variations(plan_of("[[method]]\nname=\"vanilla\"\nlabel=\"again\"\n[sweep]\n"
                               "\"method.block_diffusion.steps\" = [1, 2]")),
            (names{"vanilla:", "again:"}));
}

// A control: the same settings under two labels are measured twice, and the first keeps its id.
TEST(plan, equal_settings_under_two_labels_are_two_points) {
  const auto of = [](const std::string& more) {
    experiment_spec spec = parse_spec(
        "[[model]]\npath = \"a\"\n[[workload]]\nfile = \"t.jsonl\"\n"
        "[[method]]\nname = \"vanilla\"\nlabel = \"A\"\n" +
            more,
        "x.toml");
    return make_plan(spec, catalogue());
  };
  const auto one = of("");
  auto two = of("[[method]]\nname = \"vanilla\"\nlabel = \"B\"\n");
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].label + two[1].label, "AB");
  EXPECT_EQ(two[0].id, one[0].id);
  EXPECT_NE(two[1].id, two[0].id);
  const std::string control = two[1].id;
  renumber(two);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].id, control);
}

TEST(plan, run_settings_can_be_swept) {
  const auto points = plan_of("[sweep]\nbatch_size=[1, 4]\nparams.steps=[1, 2]");
  EXPECT_EQ(variations(points),
            (names{"vanilla:batch_size=1 steps=1", "vanilla:batch_size=1 steps=2",
                   "vanilla:batch_size=4 steps=1", "vanilla:batch_size=4 steps=2"}));
}

TEST(plan, ids_depend_on_resolved_settings_only) {
  const auto plain = plan_of("");
  // The canonical text is the contract: a change here renames every point ever measured.
  EXPECT_EQ(canonical_settings(plain[0]),
            R"({"method":"vanilla","model":{"hash":"","name":"a","weights":"checkpoint"},)"
            R"("params":{"steps":0,"threshold":0.0},"workload":{"hash":"","limit":0,"name":"t"}})");
  EXPECT_EQ(plain[0].id.size(), 16u);
  EXPECT_EQ(plan_of("", {"params.steps=0", "repetitions=9"})[0].id, plain[0].id);
  for (const char* set : {"params.steps=1", "batch_size=2", "seed=1", "limit=1", "gen_length=8",
                          "device=cuda", "format=f32", "gemm=own", "graphs=off", "isa=avx2"}) {
    EXPECT_NE(plan_of("", {set})[0].id, plain[0].id) << set;
  }
}

// printf '%s' TEXT | sha256sum of the canonical text above.
TEST(plan, id_is_the_head_of_a_sha256) {
  EXPECT_EQ(plan_of("")[0].id, "a2c1c728e7dd2da1");
}

// Every key can be read, set, swept, checked and told apart: nothing is listed twice.
TEST(plan, run_keys_are_declared_once) {
  for (const run_key& key : run_key_list()) {
    const bool number = std::holds_alternative<std::int64_t run_keys::*>(key.field);
    const bool any_text = !number && key.choices().empty();
    const std::string other = number ? "7" : any_text ? "steady:2" : key.choices().back();
    const std::string quoted = number ? other : "\"" + other + "\"";
    const std::string name = key.name;
    const std::string more = name == "kv_type" ? "device=cuda" : "limit=0";
    const auto read = plan_of("[run]\n" + name + " = " + quoted + "\n", {more}).at(0);
    EXPECT_EQ(key.text(read.run), other);
    EXPECT_EQ(plan_of("", {name + "=" + other, more}).at(0).id, read.id) << name;
    EXPECT_EQ(plan_of("", {"run." + name + "=" + other, more}).at(0).id, read.id) << name;
    EXPECT_EQ(plan_of("[sweep]\n" + name + " = [" + quoted + "]\n", {more}).at(0).id, read.id);
    EXPECT_NE(plan_of("", {more}).at(0).id, read.id) << name;
    if (!any_text) {
      EXPECT_NE(message_of([&] { plan_of("", {name + (number ? "=-1" : "=other")}); }).find(name),
                std::string::npos);
    }
    EXPECT_NE(format_page().find("\n| `" + name + "` | "), std::string::npos) << name;
    result_row row = sample_row();
    row.run = read.run;
    EXPECT_EQ(parse_row(to_json_line(row), "x").run, row.run) << name;
  }
}

TEST(plan, what_a_point_rests_on_is_a_part_of_its_id) {
  auto points = plan_of("");
  const std::string before = points[0].id;
  points[0].model.hash = "weights of today";
  renumber(points);
  EXPECT_NE(points[0].id, before);
  points[1] = points[0];
  renumber(points);  // equal by now
  EXPECT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].position, 1u);
}

TEST(plan, a_point_varies_where_the_seed_or_the_clock_decides) {
  method_info method;
  method.parameters = {{"temperature", 0.0, ""}, {"steps", std::int64_t{0}, ""}};
  method.parameters[0].varies = [](const parameter_value& v) { return std::get<double>(v) > 0; };
  experiment_point greedy;
  greedy.params = {{"temperature", 0.0}, {"steps", std::int64_t{4}}};
  EXPECT_FALSE(varies(greedy, method));
  const auto with = [&](auto change) {
    experiment_point p = greedy;
    change(p);
    return varies(p, method);
  };
  EXPECT_TRUE(with([](experiment_point& p) { p.params["temperature"] = 0.5; }));
  EXPECT_TRUE(with([](experiment_point& p) { p.run.kind = "serve"; }));
  EXPECT_TRUE(with([](experiment_point& p) { p.run.impose = "steady:2"; }));
  EXPECT_TRUE(with([](experiment_point& p) { p.workload.prompt_tokens = 64; }));
  EXPECT_TRUE(with([](experiment_point& p) { p.workload.lengths = "sharegpt"; }));
  EXPECT_TRUE(with([](experiment_point& p) { p.workload.benchmark.kind = "likelihood"; }));
  EXPECT_FALSE(with([](experiment_point& p) { p.params["steps"] = std::int64_t{8}; }));
}

// What nothing draws is the same under every seed: it is planned once and says so.
TEST(plan, a_greedy_point_of_several_seeds_is_measured_once) {
  std::map<std::string, method_info> methods = fixtures::methods();
  methods["autoregressive"].parameters[0].varies = [](const parameter_value& v) {
    return std::get<double>(v) > 0;
  };
  const auto of = [&](const std::string& more) {
    const experiment_spec spec = parse_spec(
        "[[model]]\npath = \"a\"\n[[workload]]\nfile = \"t.jsonl\"\n"
        "[[method]]\nname = \"vanilla\"\n[[method]]\nname = \"autoregressive\"\nparams.temperature "
        "= 0.5\n"
        "[[method]]\nname = \"autoregressive\"\nlabel = \"greedy\"\n" +
            more,
        "x.toml");
    return make_plan(
        spec, [&](const std::string& name) -> const method_info& { return methods.at(name); });
  };
  const auto points = of("[sweep]\nseed = [3, 4, 5]");
  EXPECT_EQ(variations(points),
            (names{"vanilla:seed=any", "autoregressive:seed=3", "greedy:seed=any",
                   "autoregressive:seed=4", "autoregressive:seed=5"}));
  EXPECT_EQ(points[0].run.seed, 3);
  EXPECT_EQ(note_of_any_seed(points),
            "seed=any: 2 points are measured once, for nothing in them reads the seed");
  // Other settings are other points; one seed needs no word; pairs are measured beside each other.
  EXPECT_EQ(of("[sweep]\nseed = [3, 4]\nbatch_size = [1, 2]").size(), 8u);
  EXPECT_EQ(variations(of("[sweep]\nseed = [3]"))[0], "vanilla:seed=3");
  EXPECT_EQ(note_of_any_seed(of("")), "");
  EXPECT_EQ(of("[run]\npaired = true\n[sweep]\nseed = [3, 4, 5]").size(), 9u);
}

TEST(plan, overrides_win_over_file_and_sweep) {
  const auto points = plan_of("[sweep]\nparams.steps=[1, 2]", {"params.steps=5"});
  EXPECT_EQ(variations(points), (names{"vanilla:"}));
  EXPECT_EQ(std::get<std::int64_t>(points[0].params.at("steps")), 5);
}

TEST(plan, settings_that_concern_nothing_are_refused) {
  const auto problem = [](const std::string& more, const std::vector<std::string>& sets = {}) {
    return message_of([&] { plan_of(more, sets); });
  };
  EXPECT_EQ(problem("[sweep]\nparams.treshold=[1]"),
            "x.toml:14: unknown parameter of these methods 'treshold'; did you mean 'threshold'?");
  EXPECT_NE(problem("", {"method.vanila.steps=1"}).find("--set method.vanila.steps=1"),
            std::string::npos);
  EXPECT_EQ(problem("", {"method.vanilla.stepz=1"}),
            "--set method.vanilla.stepz=1: unknown parameter of vanilla 'stepz'; did you mean "
            "'steps'?");
  EXPECT_EQ(problem("[[method]]\nname = \"vanila\""),
            "x.toml:13: unknown method 'vanila'; did you mean 'vanilla'?");
  EXPECT_EQ(problem("[[method]]\nname=\"vanilla\"\nlabel=\"v\"\nmodels=[\"c\"]").substr(0, 28),
            "x.toml:13: unknown model 'c'");
  EXPECT_NE(
      problem("[[method]]\nname=\"vanilla\"\nlabel=\"v\"\nparams.steps=-1").find("x.toml:13:"),
      std::string::npos);
  EXPECT_NE(message_of([] {
              make_plan(parse_spec("", "x.toml"), catalogue());
            }).find("at least one [[model]]"),
            std::string::npos);
}

TEST(plan, a_refused_value_is_told_with_the_setting_that_gave_it) {
  const auto problem = [](const std::string& more, const std::vector<std::string>& sets = {}) {
    return message_of([&] { plan_of(more, sets); });
  };
  const std::string said = "vanilla: parameter 'steps' is -1 but must be ";
  EXPECT_EQ(problem("", {"params.steps=-1"}).rfind("--set params.steps=-1: " + said, 0), 0u);
  EXPECT_EQ(problem("", {"method.vanilla.steps=-1"}).rfind("--set method.vanilla.steps=-1: ", 0),
            0u);
  EXPECT_EQ(problem("[sweep]\nparams.steps=[1, -1]").rfind("x.toml:14: " + said, 0), 0u);
  // One that another setting replaces refuses nothing.
  EXPECT_EQ(problem("[sweep]\nparams.steps=[-1]", {"params.steps=5"}), "");
}

TEST(plan, shards_part_the_plan) {
  const auto points = plan_of("[sweep]\nparams.steps=[1, 2, 3, 4, 5]");
  std::vector<std::string> all, parted;
  for (const auto& p : points) all.push_back(p.id);
  for (std::size_t i = 0; i < 4; ++i) {
    for (const auto& p : take_shard(points, {i, 4})) parted.push_back(p.id);
  }
  EXPECT_EQ(parted, all);
  EXPECT_EQ(parse_shard("3/4").index, 3u);
  for (const char* bad : {"4/4", "1", "a/b", "1/", "-1/2", "1/2x", ""}) {
    EXPECT_THROW(parse_shard(bad), error) << bad;
  }
}

}  // namespace
}  // namespace unmask
