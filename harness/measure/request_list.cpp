// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/request_list.h"

#include <cmath>
#include <span>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/measure/execute_parts.h"
#include "harness/measure/pictures/shown.h"
#include "harness/plan/serve_settings.h"

namespace unmask {
namespace {

// What a list of requests depends on: points with equal texts have one list.
std::string what_decides(const experiment_point& p) {
  nlohmann::json all = {{"workload", canonical_workload(p.workload)},
                        {"model", p.model.path.string()},
                        {"seed", p.run.seed},
                        {"gen_length", p.run.gen_length}};
  for (const char* key : {"arrivals", "rate", "cv", "requests", "duration", "max_prompt_tokens",
                          "max_output_tokens"}) {
    all[key] = to_string(p.run.serve.at(key));
  }
  return all.dump();
}

const experiment_point& the_one_of(const std::vector<experiment_point>& points) {
  const experiment_point* first = nullptr;
  for (const experiment_point& p : points) {
    if (p.run.kind != "serve") continue;
    if (first == nullptr) first = &p;
    if (what_decides(*first) == what_decides(p)) continue;
    throw usage_error("the points are asked different requests: " + title_of(*first) + "; and " +
                      title_of(p) + "; choose one with --points");
  }
  if (first == nullptr) throw usage_error("no point is of kind = \"serve\": nothing arrives");
  return *first;
}

}  // namespace

std::string request_list(const std::vector<experiment_point>& points) {
  const experiment_point& p = the_one_of(points);
  const std::shared_ptr<loaded_model> model = load_model_of(p);
  const auto workload = load_workload(p.workload, p.run, *model);
  if (workload->pictures && workload->pictures->holds_pictures()) {
    throw usage_error(p.workload.name + ": a list of requests holds texts, and `images` are none");
  }
  const parameters serve(p.run.serve);
  const std::vector<sequence_request>& asked = workload->requests;
  const std::vector<double> times =
      arrival_times(serve, workload->arrivals, asked.size(), serve.real("rate"),
                    static_cast<std::uint64_t>(p.run.seed));
  const bool texts = !workload->items.empty() && model->tokens;
  std::string lines;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const sequence_request& request = asked[i % asked.size()];
    nlohmann::ordered_json line = {{"timestamp", std::round(times[i] * 1e6) / 1e3},
                                   {"input_length", request.prompt.size()},
                                   {"output_length", request.gen_length},
                                   {"output_tokens", request.gen_length}};
    if (texts) line["prompt"] = line["text"] = model->tokens->decode(request.prompt, false);
    lines += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return lines;
}

}  // namespace unmask
