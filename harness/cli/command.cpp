// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/command.h"

#include <algorithm>
#include <iostream>

#include "harness/base/error.h"
#include "harness/decode/parameters.h"
#include "kernels/cuda/device.h"

namespace unmask {
namespace po = boost::program_options;

bool parse_command(const std::string& usage, const std::string& epilogue,
                   po::options_description visible, const std::vector<std::string>& positional,
                   const std::vector<std::string>& arguments, po::variables_map& values) {
  visible.add_options()("help,h", "this text");
  po::options_description all = visible;
  po::positional_options_description places;
  for (const std::string& name : positional) {
    const bool list = name.ends_with("...");
    const std::string plain = list ? name.substr(0, name.size() - 3) : name;
    if (!all.find_nothrow(plain, false)) {
      all.add_options()(plain.c_str(), po::value<std::vector<std::string>>()->composing());
    }
    places.add(plain.c_str(), list ? -1 : 1);
  }

  std::vector<std::string> spelled;  // --gen_length and --gen-length are one option
  for (std::string a : arguments) {
    if (a.starts_with("--")) {
      const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.find('='), a.size()));
      std::replace(a.begin(), end, '_', '-');
    }
    spelled.push_back(std::move(a));
  }

  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(spelled).options(all).positional(places).style(style).run(),
              values);
    if (values.count("help")) {
      std::cout << "usage: unmask " << usage << "\n\n" << visible << epilogue;
      return false;
    }
    po::notify(values);
  } catch (const po::unknown_option& unknown) {
    std::vector<std::string> known;
    for (const auto& option : visible.options()) known.push_back(option->long_name());
    std::string wrong = unknown.get_option_name();
    wrong.erase(0, wrong.find_first_not_of('-'));
    throw usage_error(unknown_name("option", wrong, known) + " (usage: unmask " + usage + ")");
  } catch (const po::error& failure) {
    throw usage_error(std::string(failure.what()) + " (usage: unmask " + usage + ")");
  }
  return true;
}

const ops& device_named(const std::string& name) {
  if (name == "cpu") return cpu_ops();
  if (name == "reference") return reference_ops();
  if (name == "cuda-emulated") return cuda_emulated_ops();
  if (name == "cuda") {
    const cuda::report machine = cuda::query();
    if (!machine.devices.empty()) return cuda_ops();
    std::cerr << machine.note << "; using the CPU instead\n";
    return cpu_ops();
  }
  throw usage_error("unknown device '" + name + "'; known: cpu, reference, cuda, cuda-emulated");
}

}  // namespace unmask
