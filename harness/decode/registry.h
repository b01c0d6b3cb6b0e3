// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every method by name. A method registers itself at the bottom of its file; a duplicate name
// throws, an unknown one is answered with the nearest matches.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/decode/policies.h"

namespace unmask {

// A decode forward of `requests` requests with `rows` rows together.
struct step_time {
  std::int32_t requests = 0;
  std::int64_t rows = 0;
  double seconds = 0;  // median of several
};

// Returns the time of a forward pass outside prefill for each number of requests, under the
// parameters `given` and defaults for all others. With a real clock it measures on this model,
// backend and machine.
using step_timer = std::function<std::vector<step_time>(const parameter_map& given,
                                                        const std::vector<std::int32_t>& requests)>;

// What a method learnt from a step_timer.
struct calibration {
  parameter_map settings;  // the parameters that the method sets from it
  std::string report;      // JSON object for the result row
};

// A parameter that changes what a method does, and the counter that records how often it did (the
// name of a metric in counters.h). A row whose counter stayed 0 is INACTIVE.
struct method_knob {
  std::string parameter, counter;
  std::string neutral = "";  // the value, as text, that asks for nothing; "": every value asks
};

// Which positions most forward passes outside prefill compute, for predictions of cost before
// anything is counted. row_traits::keeps has those that leave inside a forward pass.
enum class row_extent : std::uint8_t { canvas, answer, block, chunk, token };
struct row_shape {
  row_extent extent = row_extent::canvas;  // canvas: the prompt with the answer
  double share = 1;                        // of those rows, on average
  bool refreshes = false;                  // every block begins with a forward of the canvas
};

// Returns the method's parameters for a recorded run of an official implementation, from the
// parameters of that run. A recorded null is absent, and a recorded list is a text with commas.
using official_settings = parameter_map (*)(const parameter_map& recorded);

struct method_info {
  std::string name;
  std::string summary;  // one line
  std::string paper;    // citation
  std::string source;   // folder of the implementation
  // Slot contents in words, for `unmask show`.
  std::string pace, rows, keys, cache, unmask;
  row_shape shape;
  std::vector<parameter_spec> parameters;
  // Named settings of published codes; values override the defaults (resolve()).
  std::map<std::string, parameter_map> presets;
  std::vector<method_knob> knobs;
  // Throws a usage error when the method cannot decode this model (by name and reason).
  std::function<void(const model_config&, const class parameters&)> check;
  // Makes the recipe from resolved values. The recipe has the name of the method.
  std::function<recipe(const model_config&, const class parameters&)> make;
  // Optional: measures what this method has to know of the machine, for batches of up to
  // `requests`, before the first forward pass that is timed. Returns nothing if these parameters
  // need nothing.
  std::function<std::optional<calibration>(const model_config&, const class parameters&,
                                           std::int32_t requests, const step_timer&)>
      calibrate;
  // Recorded runs that this method replays, by the name of their file (decode/NAME.jsonl).
  std::map<std::string, official_settings> official;

  // Returns a value for every parameter: the given one, else that of the preset ("": no preset),
  // else the default. Throws a usage error for a name or value that does not fit.
  parameter_map resolve(const std::string& preset, const parameter_map& given) const;
};

class method_registry {
 public:
  static method_registry& instance();
  void add(method_info info);  // throws std::logic_error on a duplicate name, of runs too
  const method_info& find(const std::string& name) const;
  // The method that replays the recorded runs of this name; null when there is none.
  const method_info* replaying(const std::string& runs) const;
  std::vector<std::string> names() const;  // sorted

  // Checks resolved values against the model and builds.
  recipe make(const std::string& method, const model_config& model,
              const parameters& settings) const;

 private:
  std::vector<method_info> methods_;
};

struct register_method {
  explicit register_method(method_info info, std::map<std::string, official_settings> runs = {}) {
    info.official = std::move(runs);
    method_registry::instance().add(std::move(info));
  }
};

}  // namespace unmask
