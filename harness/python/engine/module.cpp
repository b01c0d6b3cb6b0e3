// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The module unmask.engine._engine. unmask/engine/*.py is what people call.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <new>
#include <optional>

#include "harness/base/output.h"
#include "harness/base/package.h"
#include "harness/base/process.h"
#include "harness/cli/command.h"
#include "harness/cli/help.h"
#include "harness/cli/options.h"
#include "harness/decode/interpreted.h"
#include "harness/devices/device.h"
#include "harness/python/engine/held.h"
#include "harness/python/engine/model.h"
#include "harness/python/engine/rule.h"
#include "harness/run/stop_signal.h"

namespace unmask::python {
namespace {

// Classes of unmask.engine.errors, by the program's exit codes.
std::shared_ptr<const held> errors;

void set_error(const char* class_name, const std::string& sentence) {
  const nb::object made = errors->get().attr(class_name)(sentence);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

void set_again(const std::shared_ptr<const held>& exception) {
  const nb::object value = exception->get();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const interrupted& stop) {
    set_again(stop.exception);
  } catch (const rule_failure& failure) {
    set_again(failure.exception);
  } catch (const error& failure) {
    switch (failure.code()) {
      case exit_code::usage:
        return set_error("UserError", failure.what());
      case exit_code::environment:
        return set_error("EnvironmentFault", failure.what());
      default:
        return set_error("EngineError", failure.what());
    }
  } catch (const std::filesystem::filesystem_error& failure) {
    set_error("EnvironmentFault", failure.path1().string() + ": " + failure.code().message());
  } catch (const std::bad_alloc&) {
    set_error("EnvironmentFault", "out of memory; use a smaller batch size, length or model");
  } catch (const std::logic_error& broken) {
    set_error("EngineError", std::string("internal error: ") + broken.what());
  }
}

nb::object info_of(const std::string& name) {
  const method_info& m = method_registry::instance().find(name);
  nb::dict all;
  for (const auto& [key, text] : {std::pair<const char*, const std::string&>{"name", m.name},
                                  {"summary", m.summary},
                                  {"paper", m.paper},
                                  {"source", m.source},
                                  {"pace", m.pace},
                                  {"rows", m.rows},
                                  {"keys", m.keys},
                                  {"cache", m.cache},
                                  {"unmask", m.unmask}}) {
    all[key] = text;
  }
  all["interpreted"] = is_interpreted(m);
  nb::list parameters;
  for (const parameter_spec& p : m.parameters) {
    nb::dict one;
    one["name"] = p.name;
    one["default"] = object_of(p.default_value);
    one["meaning"] = p.meaning;
    one["low"] = p.minimum;
    one["high"] = p.maximum;
    one["choices"] = p.choices;
    one["source"] = p.source;
    parameters.append(one);
  }
  all["parameters"] = parameters;
  nb::dict presets;
  for (const auto& [preset, settings] : m.presets) {
    nb::dict values;
    for (const auto& [key, value] : settings) values[key.c_str()] = object_of(value);
    presets[preset.c_str()] = values;
  }
  all["presets"] = presets;
  return all;
}

// Names of devices, each with the reason why it cannot be used here, "" if it can.
nb::dict devices() {
  nb::dict all;
  for (const device& d : device_list()) all[d.name.c_str()] = d.unusable();
  return all;
}

// A command of the program in this process: its exit code. A rule that was registered is a method there.
// printed: takes what the command prints; null: standard output does.
int run_command_here(const std::vector<std::string>& words, int threads, std::string* printed) {
  const computing now(threads);
  if (words.empty()) throw usage_error("main needs a command");
  std::optional<caught_output> caught;
  if (printed != nullptr) caught.emplace();
  int code = 0;
  try {
    code = run_command(command_named(words.front()), {words.begin() + 1, words.end()});
  } catch (const help_shown&) {
  }
  check_output();
  if (caught) *printed = caught->text();
  return code;
}

// (exit code, None); of a command that the Python package has: (its words, variables that it reads).
nb::tuple run_words(const std::vector<std::string>& words, int threads) {
  package_wanted wanted;
  try {
    return nb::make_tuple(run_command_here(words, threads, nullptr), nb::none());
  } catch (package_wanted& thrown) {
    wanted = std::move(thrown);
  }
  nb::dict variables;
  variables["UNMASK_HELP"] = wanted.help;
  try {
    variables["UNMASK_PROGRAM"] = this_program().string();
  } catch (const error&) {  // a command that needs the program says so
  }
  return nb::make_tuple(wanted.arguments, variables);
}

// {exit code, what the command would have printed}.
nb::tuple run_quietly(const std::vector<std::string>& words, int threads) {
  std::string printed;
  const int code = run_command_here(words, threads, &printed);
  return nb::make_tuple(code, printed);
}

}  // namespace
}  // namespace unmask::python

NB_MODULE(_engine, m) {
  using namespace unmask::python;
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  m.def("begin", [](nb::object classes) {
    errors = std::make_shared<held>(std::move(classes));
    unmask::stop_signal::leave_to_caller();
  });
  m.def("end", &held::let_go_of_all);
  m.def("version", [] { return unmask::version_text(); });
  m.def("devices", &devices);
  m.def("names", [] { return unmask::method_registry::instance().names(); });
  m.def("info", &info_of);
  m.def("put_rule", &put_rule);
  m.def("run_words", &run_words);
  m.def("run_quietly", &run_quietly);
  nb::class_<python_model>(m, "Model")
      .def(nb::init<const std::string&, const std::string&, int, const std::vector<std::string>&>())
      .def("decode",
           [](python_model& model, std::vector<std::vector<std::int32_t>> prompts,
              std::string method, std::string preset, const nb::dict& params,
              std::int64_t batch_size, std::int64_t gen_length, std::int64_t seed, bool trace) {
             return model.decode({std::move(prompts), std::move(method), std::move(preset),
                                  map_of(params), batch_size, gen_length, seed, trace});
           })
      .def("logits", &python_model::logits)
      .def("encode", &python_model::encode)
      .def("text",
           [](python_model& model, const std::vector<std::int32_t>& tokens, bool special) {
             const std::string text = model.text(tokens, special);
             return nb::steal(PyUnicode_DecodeUTF8(
                 text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
           })
      .def("about", &python_model::about)
      .def("close", &python_model::close);
}
