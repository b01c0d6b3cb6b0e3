// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/ptx_text.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace unmask::softgpu {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

std::string trimmed(const std::string& s) {
  std::size_t a = 0, b = s.size();
  while (a < b && std::isspace(static_cast<unsigned char>(s[a])) != 0) ++a;
  while (b > a && std::isspace(static_cast<unsigned char>(s[b - 1])) != 0) --b;
  return s.substr(a, b - a);
}

std::vector<std::string> split_top(const std::string& s, char by) {
  std::vector<std::string> all;
  int depth = 0;
  std::string part;
  for (const char c : s) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == by && depth == 0) {
      all.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  part = trimmed(part);
  if (!part.empty()) all.push_back(part);
  return all;
}

namespace {

// 0f3F800000 and 0d3FF0000000000000 are the bits of a float32 and a float64.
bool bits_of_float(const std::string& t, bool minus, ptx_operand* o) {
  const bool single = t.size() == 10 && t[0] == '0' && (t[1] == 'f' || t[1] == 'F');
  const bool twice = t.size() == 18 && t[0] == '0' && (t[1] == 'd' || t[1] == 'D');
  if (!single && !twice) return false;
  o->literal = single ? 'f' : 'd';
  o->bits = std::strtoull(t.c_str() + 2, nullptr, 16);
  if (minus) o->bits ^= std::uint64_t{1} << (single ? 31 : 63);
  return true;
}

ptx_operand address_of(const std::string& inside) {
  ptx_operand o;
  o.what = ptx_operand::form::address;
  // [base, {coordinates}]: of a tensor.
  if (const std::vector<std::string> parts = split_top(inside, ','); parts.size() > 1) {
    o = address_of(parts[0]);
    o.parts = operand_of(parts[1]).parts;
    return o;
  }
  const std::size_t plus = inside.find('+');
  if (plus != std::string::npos) {
    o.name = trimmed(inside.substr(0, plus));
    o.offset = std::strtoll(trimmed(inside.substr(plus + 1)).c_str(), nullptr, 0);
  } else if (ptx_operand n; number(inside, &n)) {
    o.offset = static_cast<std::int64_t>(n.bits);
  } else {
    o.name = inside;
  }
  return o;
}

std::uint64_t elements_of(const std::string& name) {
  std::uint64_t count = 1;
  for (std::size_t p = name.find('['); p != std::string::npos; p = name.find('[', p + 1)) {
    count *= std::strtoull(name.c_str() + p + 1, nullptr, 0);
  }
  return count;
}

void read_initial(const std::string& text, int bytes, ptx_variable* v) {
  v->initial.resize(v->bytes);
  std::string list = trimmed(text);
  if (!list.empty() && list[0] == '{') list = list.substr(1, list.size() - 2);
  const auto each = static_cast<std::size_t>(bytes);
  std::size_t at = 0;
  for (const std::string& item : split_top(list, ',')) {
    ptx_operand n;
    if (!number(item, &n) || at + each > v->initial.size()) {
      throw ptx_error("initial value " + item + " of " + v->name);
    }
    std::memcpy(v->initial.data() + at, &n.bits, each);
    at += each;
  }
}

}  // namespace

int type_bytes(const std::string& type) {
  if (type == ".pred") return 0;
  const std::string digits = type.substr(2);
  return digits == "f16x2" || digits == "16x2" ? 4 : std::atoi(digits.c_str()) / 8;
}

bool number(const std::string& text, ptx_operand* o) {
  if (text.empty()) return false;
  const bool minus = text[0] == '-';
  const std::string t = minus ? text.substr(1) : text;
  if (t.empty() || std::isdigit(static_cast<unsigned char>(t[0])) == 0) return false;
  o->what = ptx_operand::form::number;
  if (bits_of_float(t, minus, o)) return true;
  o->bits = std::strtoull(t.c_str(), nullptr, 0);
  if (minus) o->bits = 0 - o->bits;
  return true;
}

ptx_operand operand_of(const std::string& text) {
  const std::string s = trimmed(text);
  ptx_operand o;
  if (s.empty()) throw ptx_error("an operand is missing");
  if (s == "_") return o;
  if (s[0] == '{') {
    o.what = ptx_operand::form::vector;
    for (const std::string& p : split_top(s.substr(1, s.size() - 2), ',')) {
      o.parts.push_back(operand_of(p));
    }
    return o;
  }
  if (s[0] == '[') return address_of(trimmed(s.substr(1, s.size() - 2)));
  if (number(s, &o)) return o;
  o.what = ptx_operand::form::name;
  o.name = s;
  if (s[0] == '!') {
    o.negated = true;
    o.name = trimmed(s.substr(1));
  }
  if (const std::size_t bar = o.name.find('|'); bar != std::string::npos) {
    o.second = trimmed(o.name.substr(bar + 1));
    o.name = trimmed(o.name.substr(0, bar));
  }
  return o;
}

ptx_variable variable_of(const std::string& declaration) {
  ptx_variable v;
  const std::size_t equals = declaration.find('=');
  std::istringstream words(declaration.substr(0, equals));
  std::string word, name;
  int bytes = 1;
  while (words >> word) {
    if (word == ".align") {
      words >> v.align;
    } else if (word[0] == '.') {
      bytes = type_bytes(word);
    } else {
      name += word;
    }
  }
  v.name = name.substr(0, name.find('['));
  if (v.align == 1) v.align = static_cast<std::uint32_t>(bytes > 0 ? bytes : 1);
  v.bytes = elements_of(name) * static_cast<std::uint64_t>(bytes);
  if (equals != std::string::npos) read_initial(declaration.substr(equals + 1), bytes, &v);
  return v;
}

}  // namespace unmask::softgpu
