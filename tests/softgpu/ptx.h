// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// PTX text as nvcc writes it, taken apart: entries, statements, operands. What an instruction means
// is in decode.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace unmask::softgpu {

struct ptx_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One operand as it is written.
struct ptx_operand {
  enum class form : std::uint8_t { name, number, address, vector, sink };
  form what = form::sink;
  std::string name;                // register or symbol; of an address its base
  std::string second;              // of a|b
  bool negated = false;            // !%p
  std::int64_t offset = 0;         // of an address
  std::uint64_t bits = 0;          // of a number
  char literal = 'i';              // i: integer, f: bits of a float32, d: of a float64
  std::vector<ptx_operand> parts;  // of a vector
};

struct ptx_statement {
  std::string guard;  // predicate register
  bool guard_negated = false;
  std::vector<std::string> op;  // split at '.'
  std::vector<ptx_operand> operands;
  int line = 0;      // in the module
  int place = -1;    // in ptx_entry::places
  std::string text;  // for messages
  bool is(std::string_view modifier) const {
    for (std::size_t i = 1; i < op.size(); ++i) {
      if (op[i] == modifier) return true;
    }
    return false;
  }
};

struct ptx_variable {
  std::string name;
  std::uint32_t align = 1;
  std::uint64_t bytes = 0;
  std::vector<std::uint8_t> initial;
  bool external = false;
};

struct ptx_parameter {
  std::string name;
  std::uint32_t align = 1, bytes = 0, offset = 0;
};

struct ptx_entry {
  std::string name;
  std::vector<ptx_parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  int max_threads[3] = {0, 0, 0};
  int required_threads[3] = {0, 0, 0};
  int min_blocks = 0;
  int cluster[3] = {0, 0, 0};            // blocks, .reqnctapercluster; 0: the launch says it
  std::map<std::string, int> registers;  // bytes each; 0: predicate
  std::vector<ptx_variable> shared, local;
  std::vector<ptx_statement> statements;
  std::map<std::string, int> labels;  // index of the next statement
  std::vector<std::string> places;    // "file:line < file:line ..."
};

class scanner;

// A module; entries are parsed when they are asked for.
class ptx_module {
 public:
  explicit ptx_module(std::string text);
  const std::string& target() const { return target_; }
  std::vector<std::string> entry_names() const;
  bool has(const std::string& entry) const { return ranges_.count(entry) > 0; }
  std::unique_ptr<ptx_entry> parse(const std::string& entry) const;
  const std::vector<ptx_variable>& shared() const { return shared_; }
  const std::vector<ptx_variable>& globals() const { return globals_; }

 private:
  void read_directive(scanner& in);

  struct range {
    std::size_t begin, end;
    int line;
  };
  std::string text_, target_;
  std::map<std::string, range> ranges_;
  std::vector<ptx_variable> shared_, globals_;
  std::map<int, std::string> files_;
};

}  // namespace unmask::softgpu
