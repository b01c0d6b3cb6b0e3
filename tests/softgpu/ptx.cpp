// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/ptx.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/softgpu/ptx_text.h"

namespace unmask::softgpu {
namespace {

// A body, up to the brace that closes what is open already.
void skip_body(scanner& in) {
  int depth = 1;
  while (depth > 0 && !in.done()) {
    const char c = in.take();
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    while (c == '"' && in.take() != '"') {
    }
  }
}

}  // namespace

ptx_module::ptx_module(std::string text) : text_(std::move(text)) {
  scanner in(text_, 0, text_.size(), 1);
  while (!in.done()) {
    if (in.peek() == '.') {
      read_directive(in);
    } else if (in.word().empty()) {  // sections of debugging and the like
      in.take();
    }
  }
}

void ptx_module::read_directive(scanner& in) {
  const std::string directive = in.word();
  if (directive == ".target") {
    target_ = trimmed(in.rest_of_line());
  } else if (directive == ".version" || directive == ".address_size" || directive == ".loc") {
    in.rest_of_line();
  } else if (directive == ".file") {
    const std::string line = trimmed(in.rest_of_line());
    const std::size_t first = line.find('"'), last = line.find('"', first + 1);
    if (first == std::string::npos || last == std::string::npos) return;
    files_[std::atoi(line.c_str())] = line.substr(first + 1, last - first - 1);
  } else if (directive == ".section") {
    in.until('{');
    in.until('}');
  } else if (directive == ".entry") {
    const int line = in.line();
    const std::size_t begin = in.at();
    const std::string name = in.word();
    in.until('{');
    skip_body(in);
    ranges_[name] = {begin, in.at(), line};
  } else if (directive == ".func") {
    throw ptx_error("functions that are called are not supported");
  } else if (directive == ".extern") {
    const std::string space = in.word();
    ptx_variable v = variable_of(in.until(';'));
    v.external = true;
    if (space == ".shared") shared_.push_back(v);
  } else if (directive == ".shared") {
    shared_.push_back(variable_of(in.until(';')));
  } else if (directive == ".global" || directive == ".const") {
    globals_.push_back(variable_of(in.until(';')));
  }
}

std::vector<std::string> ptx_module::entry_names() const {
  std::vector<std::string> all;
  for (const auto& [name, where] : ranges_) all.push_back(name);
  return all;
}

namespace {

// Reads one entry: its head, then declarations, labels and statements in nested scopes.
class entry_parser {
 public:
  entry_parser(scanner& text, const std::map<int, std::string>& names)
      : e(std::make_unique<ptx_entry>()), in(text), files(names) {}

  std::unique_ptr<ptx_entry> parse() {
    read_head();
    in.take();
    scopes.resize(1);
    while (!scopes.empty()) {
      const char c = in.peek();
      if (c == '\0') throw ptx_error("entry " + e->name + " does not end");
      if (c == '{') {
        scopes.emplace_back();
        scope_begins.resize(scopes.size());
        scope_begins.back() = e->statements.size();
        ++scope;
      }
      if (c == '}') scopes.pop_back();
      if (c == '{' || c == '}' || c == ';') {
        in.take();
      } else if (c == '.') {
        read_directive();
      } else {
        read_statement();
      }
    }
    return std::move(e);
  }

 private:
  void read_head() {
    e->name = in.word();
    if (in.peek() == '(') {
      in.take();
      for (const std::string& one : split_top(in.until(')'), ',')) read_parameter(one);
    }
    while (in.peek() != '{') {
      const std::string directive = in.word();
      const std::vector<std::string> n = split_top(in.rest_of_line(), ',');
      const auto three = [&](int(&to)[3]) {
        for (std::size_t i = 0; i < 3; ++i) to[i] = i < n.size() ? std::atoi(n[i].c_str()) : 1;
      };
      if (directive == ".maxntid") three(e->max_threads);
      if (directive == ".reqntid") three(e->required_threads);
      if (directive == ".reqnctapercluster") three(e->cluster);
      if (directive == ".minnctapersm" && !n.empty()) e->min_blocks = std::atoi(n[0].c_str());
    }
  }

  void read_parameter(const std::string& text) {
    if (!text.starts_with(".param")) throw ptx_error("parameter " + text);
    const ptx_variable v = variable_of(text.substr(6));
    ptx_parameter p{v.name, v.align, static_cast<std::uint32_t>(v.bytes), 0};
    p.offset = (e->parameter_bytes + p.align - 1) / p.align * p.align;
    e->parameter_bytes = p.offset + p.bytes;
    e->parameters.push_back(p);
  }

  void read_directive() {
    const std::string directive = in.word();
    if (directive == ".loc") {
      read_place(trimmed(in.rest_of_line()));
    } else if (directive == ".reg") {
      read_registers(in.until(';'));
    } else if (directive == ".shared") {
      e->shared.push_back(variable_of(in.until(';')));
    } else if (directive == ".local") {
      e->local.push_back(variable_of(in.until(';')));
    } else {  // .pragma and others
      in.until(';');
    }
  }

  std::string file_of(int n) const {
    const auto found = files.find(n);
    const std::string path = found == files.end() ? std::to_string(n) : found->second;
    for (const char* root : {"/kernels/", "/methods/", "/harness/", "/tests/", "/targets/"}) {
      if (const auto at = path.find(root); at != std::string::npos) return path.substr(at + 1);
    }
    return path;
  }

  // ".loc file line column, function_name ..., inlined_at file line column"
  void read_place(const std::string& line) {
    int file = 0, row = 0;
    std::sscanf(line.c_str(), "%d %d", &file, &row);
    std::string text = file_of(file) + ":" + std::to_string(row);
    const std::size_t inlined = line.find("inlined_at");
    if (inlined != std::string::npos) {
      std::sscanf(line.c_str() + inlined, "inlined_at %d %d", &file, &row);
      text += " < " + file_of(file) + ":" + std::to_string(row);
    }
    const auto [at, fresh] = place_index.emplace(text, static_cast<int>(e->places.size()));
    if (fresh) e->places.push_back(text);
    place = at->second;
  }

  // ".b32 %r<10>", ".pred p, q": registers of an inner scope get names of their own.
  void read_registers(const std::string& text) {
    std::vector<std::string> names = split_top(text, ',');
    const std::size_t space = names.at(0).find_first_of(" \t");
    const int bytes = type_bytes(names[0].substr(0, space));
    names[0] = trimmed(names[0].substr(space));
    for (const std::string& n : names) {
      const std::size_t open = n.find('<');
      if (open != std::string::npos) {
        const int count = std::atoi(n.c_str() + open + 1);
        for (int i = 0; i < count; ++i) {
          e->registers[n.substr(0, open) + std::to_string(i)] = bytes;
        }
        continue;
      }
      const std::string own = scopes.size() > 1 ? n + "@" + std::to_string(scope) : n;
      if (scopes.size() > 1) scopes.back()[n] = own;
      e->registers[own] = bytes;
    }
  }

  std::string resolve(const std::string& name) const {
    for (std::size_t n = scopes.size(); n-- > 1;) {
      const auto found = scopes[n].find(name);
      if (found != scopes[n].end()) return found->second;
    }
    return name;
  }

  // A label of an inner scope is of that scope alone, also for the branches before it.
  std::string own_label(const std::string& name) {
    if (scopes.size() == 1) return name;
    const std::string own = name + "@" + std::to_string(scope);
    scopes.back()[name] = own;
    for (std::size_t n = scope_begins[scopes.size() - 1]; n < e->statements.size(); ++n) {
      ptx_statement& s = e->statements[n];
      if (s.op[0] == "bra" && s.operands.at(0).name == name) s.operands[0].name = own;
    }
    return own;
  }

  void rename(ptx_operand& o) const {
    o.name = resolve(o.name);
    o.second = resolve(o.second);
    for (ptx_operand& part : o.parts) rename(part);
  }

  void read_statement() {
    ptx_statement s;
    s.line = in.line();
    s.place = place;
    std::string text = in.word();
    if (!text.empty() && in.raw() == ':' && in.raw(1) != ':') {
      in.take();
      e->labels[own_label(text)] = static_cast<int>(e->statements.size());
      return;
    }
    text += in.until(';');
    for (char& c : text) {
      if (c == '\n' || c == '\t') c = ' ';
    }
    s.text = trimmed(text);
    if (s.text.empty()) throw ptx_error("line " + std::to_string(s.line) + ": nothing to read");
    take_apart(s);
    e->statements.push_back(std::move(s));
  }

  // "@!%p1 op.mod.mod a, b"
  void take_apart(ptx_statement& s) const {
    std::string text = s.text;
    if (text[0] == '@') {
      const std::size_t space = text.find(' ');
      s.guard_negated = text[1] == '!';
      const std::size_t begin = s.guard_negated ? 2 : 1;
      s.guard = resolve(text.substr(begin, space - begin));
      text = trimmed(text.substr(space));
    }
    const std::size_t end = text.find(' ');
    std::string part;
    for (const char c : text.substr(0, end) + ".") {
      if (c != '.') {
        part += c;
      } else if (!part.empty()) {
        s.op.push_back(std::exchange(part, ""));
      }
    }
    if (s.op.empty()) throw ptx_error("line " + std::to_string(s.line) + ": " + s.text);
    if (end == std::string::npos) return;
    for (const std::string& one : split_top(text.substr(end), ',')) {
      s.operands.push_back(operand_of(one));
      rename(s.operands.back());
    }
  }

  std::unique_ptr<ptx_entry> e;
  scanner& in;
  const std::map<int, std::string>& files;
  int place = -1, scope = 0;
  std::map<std::string, int> place_index;
  std::vector<std::map<std::string, std::string>> scopes;
  std::vector<std::size_t> scope_begins;  // their first statements
};

}  // namespace

std::unique_ptr<ptx_entry> ptx_module::parse(const std::string& name) const {
  const range where = ranges_.at(name);
  scanner in(text_, where.begin, where.end, where.line);
  return entry_parser(in, files_).parse();
}

}  // namespace unmask::softgpu
