// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the figures draw, as JSON: rows with their names and intervals, methods pooled over tasks,
// sweeps, crossover cells and phases. plots/ computes none of it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/analysis/frame.h"

namespace unmask {

// {
//  rows:      every row as stored, and: name (label and sweep, "(synthetic)"), series (told apart from
//             the others by batch size, device and model where they differ), parts of the sweep
//             [[key, value]], machine, reportable, half_width (of tokens per second)
//  pooled:    methods over all scored tasks (workload null) and by task: series, model, workload,
//             tokens_per_second (tokens over seconds), score (mean of all items) with its Wilson
//             interval, n, front (no other method of the model is beyond it at both)
//  sweeps:    by number that takes three values or more with all else equal: axis, lines of name and
//             points: x, tokens_per_second, half_width, kv_mib, score, interval, hollow, points
//  crossover: cells as crossover_json() writes them
//  phases:    of profiled rows, by series: forwards, and of each phase seconds, flops, bytes (null:
//             not known), analytic
// }
nlohmann::ordered_json figure_data(const frame& rows);

}  // namespace unmask
