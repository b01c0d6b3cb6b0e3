// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The points of an experiment: every combination of model, workload, method and swept setting,
// each with an id that depends on nothing but its resolved settings.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/plan/spec.h"

namespace unmask {

// What the plan asks about methods; execute.cpp answers from the registry, tests from a table.
// Its parameters and presets count; usage error when there is no such method.
using method_catalogue = std::function<const method_info&(const std::string& method)>;

struct experiment_point {
  std::string id;            // 16 hex digits
  std::size_t position = 0;  // in the whole plan
  model_entry model;
  workload_entry workload;
  std::string method, label, preset;
  // The label, if an earlier point has equal settings under another: a control, measured on its own.
  std::string twin;
  parameter_map params;    // resolved
  parameter_map identity;  // of these, what the id is made of (identity_of)
  // The swept settings, "threshold=0.9 batch_size=4"; for people to read. "seed=any": one for all seeds.
  std::string variation;
  run_settings run;
  std::map<std::string, std::string> files;  // hash of each file that a setting names, by its key
};

std::string title_of(const experiment_point& point);  // of progress and traces

// In the order of the file: models, then workloads, then swept run settings, then methods, so that
// what is compared lies together. Points with equal settings are kept once under each label. Under
// several seeds a point that does not vary (below) is kept once, with the first of them, as seed=any;
// a paired experiment keeps it under each, beside the points of that seed. Usage errors: unknown
// method, parameter, label or model; a sweep of parameters that no method has.
std::vector<experiment_point> make_plan(const experiment_spec& spec,
                                        const method_catalogue& methods);

// Whether another run with another seed may find otherwise, times apart: its method draws or reads the
// clock (parameter_spec::varies), or its prompts, arrivals or imposed commits are drawn. Greedy decoding
// of the same items is the same again.
bool varies(const experiment_point& point, const method_info& method);
// Says how many points are kept once for all seeds; "" if none is.
std::string note_of_any_seed(const std::vector<experiment_point>& points);
inline constexpr const char* nothing_varies =
    "neither the seed nor the clock decides anything in it: another run finds the same";

// First 16 hex digits of the SHA-256 of canonical_settings.
std::string point_id(const experiment_point& point);
// Ids and positions anew, for points whose settings changed; equal points are kept once.
void renumber(std::vector<experiment_point>& points);
// One line of JSON, keys sorted: name, weights and hash of the model, name, number of items and hash
// of the workload, method, parameters, and the run settings that are not at their defaults. Label,
// preset and paths do not count, nor does evidence. Hashes are empty until something looked at the
// files (executor::identify).
std::string canonical_settings(const experiment_point& point);
// The keys of the workload in there: which of its items are taken, and how.
std::string canonical_workload(const workload_entry& workload);

// Same model, workload and run settings: points that are measured in turn.
bool measured_in_turn(const experiment_point& a, const experiment_point& b);

// Part `index` of `count` (index from 0): neighbouring points, so that compared methods mostly
// run on one machine.
struct shard {
  std::size_t index = 0, count = 1;
};
shard parse_shard(const std::string& text);  // "i/n"
std::vector<experiment_point> take_shard(const std::vector<experiment_point>& points, shard part);

}  // namespace unmask
