// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions from elsewhere than the model's activations. A trajectory says in which order the
// tokens of an answer were decided; it is recorded once and replayed under another recipe or
// scheduler, or drawn so that its commits per step have a published mean and deviation. With
// decisions from a trajectory the step loop may run dry: policies, pages and counts are real, only
// the layers are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/decode/step_loop.h"

namespace unmask {

// What a forward did to one position.
struct trajectory_event {
  std::int32_t step = 0;
  std::int32_t position = 0;  // of the generated ones, from 0
  std::int32_t token = -1;    // -1: no matter which
  std::uint8_t what = 1;      // decision_take, _replace, _reopen or _hold (kernels/decisions.h)
  bool operator==(const trajectory_event&) const = default;
};

// The decisions of an answer, forward by forward.
struct trajectory {
  std::int32_t length = 0;  // generated positions
  std::vector<trajectory_event> events;

  // By position: the forward that decided it for good, and the last token it got; -1: none.
  std::vector<std::int32_t> steps() const;
  std::vector<std::int32_t> tokens() const;
};

// Trajectories by sequence_request::id.
using trajectory_source = std::function<trajectory(std::int64_t id)>;

// All three refuse a recipe that computes several rows at one position. One that replaces or reopens
// tokens repeats its own recording, event by event, in with_trajectory and with_imposed: an event at
// a position that its forward does not offer is an error that names both; with_order refuses it.
//
// The same recipe with its decisions replaced: in each forward, the candidates of a sequence whose
// recorded step is the smallest among its candidates are decided. Under the recipe that was
// recorded this repeats the recording; under another one each forward decides at least one token
// and never waits for a token the forward did not compute. Positions beyond the trajectory, and
// never decided ones, come one at a time from the left. Decided tokens are the recorded ones, or
// `filler`.
recipe with_trajectory(recipe method, trajectory_source source, std::int32_t filler);

// The same order, but every token is what the recipe's own head says in the forward that decides it
// (a token equal to the mask id is decided too).
recipe with_order(recipe method, trajectory_source source);

// The recipe as it is, with every layer, selection, cache and the head computed and its own rule
// asked, and then these decisions instead of the rule's: what a step commits no longer depends on
// weights that may be random, what it costs does on everything else. Tokens are the recorded ones;
// where there is none, the head's own, unless it would end the answer or is the mask, else
// `filler`. `ranks`: rows that are dropped by activations are ranked by the trajectory
// (decode/imposed.h); not where a recording meets the weights and method that it is of, whose
// activations rank as they did. Rows chosen in other ways, as by Focus-dLLM's windows, stay the
// method's own.
recipe with_imposed(recipe method, trajectory_source source, const model_config& model,
                    std::int32_t filler, bool ranks);

// Observes a loop and keeps the trajectory of every request that has an id.
class trajectory_recorder final : public step_observer {
 public:
  void on_step(const step_view& step) override;
  // Returns the trajectory of the request with this id; an empty one when it was not seen.
  trajectory of(std::int64_t id) const;
  std::size_t size() const { return seen_.size(); }
  // Text: one line per request, "ID LENGTH STEP:POSITION:TOKEN:KIND ...", KIND take, replace, reopen
  // or hold.
  void save(const std::string& path) const;

 private:
  struct recording {
    trajectory what;
    std::int32_t last = -1, before = 0;  // forward of the last event, forwards before a restart
  };
  std::map<std::int64_t, recording> seen_;
};
// Environment error that names file and line for anything that cannot be read.
trajectory_source load_trajectories(const std::string& path);

// Tokens committed per step of one model on one dataset, as published.
struct commit_statistics {
  std::string name;  // "sdar-8b/sharegpt"
  double mean = 0, deviation = 0;
  double input_mean = 0, input_deviation = 0;    // prompt tokens
  double output_mean = 0, output_deviation = 0;  // answer tokens
};
// Optimus (arXiv 2605.24832), Table 2: fixed blocks of 32.
const std::vector<commit_statistics>& published_commits();
const commit_statistics& find_commits(const std::string& name);  // usage error with the nearest

// A process of blocks: with probability `at_once` a block is decided by its first forward, else
// every forward decides 1 + G tokens, G geometric with ratio `ratio`, cut off at the masks left.
// (Table 2's deviations need blocks decided at once: text after an end of sequence, repetition.)
struct commit_process {
  std::int32_t block = 32;
  double at_once = 0, ratio = 0;
  // Moments of the commits of a forward, each block's K/V forward counted as a step of 0 commits.
  double mean() const;
  double deviation() const;
};
// The process with these moments; usage error when none has (a mean beyond block / 2, or a
// deviation out of reach: the message says which are reachable).
commit_process fit_commits(double mean, double deviation, std::int32_t block);
// A trajectory of `tokens` tokens behind a prompt of `prompt` tokens. Inside a block the order is
// left to right with a random displacement of up to 4 positions.
trajectory draw_trajectory(const commit_process& process, std::int32_t prompt, std::int32_t tokens,
                           std::uint64_t key);
// Returns the same order regrouped to `commits` tokens per step (the last step of a block may have
// fewer).
trajectory steady_trajectory(std::int32_t block, std::int32_t commits, std::int32_t prompt,
                             std::int32_t tokens, std::uint64_t key);

}  // namespace unmask
