// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/hierarchical/whole_window.h"

#include "methods/parts/block_parameters.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask::dinfer {

std::vector<parameter_spec> loop_parameters() {
  const std::string code = "dInfer generate_uniform.py";
  return {block_length_spec(32, 1, 4096, "tokens per block", code),
          text_spec("stop", "model", "stop ids: 'model', 'none' or ids with commas", code),
          flag_spec("early_stop", true,
                    "after a block with a stop id the response becomes that id; false: it stays "
                    "masked. The answer ends with the block either way",
                    code)};
}

void check(const std::string& method, const model_config& model, const parameters& p) {
  need_bidirectional(method, model);
  need_in_place(method, model);
  stop_ids_of(method, model, p.text("stop"));
}

recipe make_loop(const std::string& method, const model_config& model, const parameters& p) {
  block_schedule::settings t;
  t.method = method;
  t.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  t.until_clean = true;
  t.leftovers = false;
  t.stop_ids = stop_ids_of(method, model, p.text("stop"));
  t.fill_behind = p.flag("early_stop");
  recipe r;
  r.pace = std::make_unique<block_schedule>(t);
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<no_cache>();
  return r;
}

parameter_map recorded_settings(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "early_stop"});
  const auto stop = recorded.find("stop_ids");
  m["stop"] = stop == recorded.end() ? std::string("none") : stop->second;
  return m;
}

}  // namespace unmask::dinfer
