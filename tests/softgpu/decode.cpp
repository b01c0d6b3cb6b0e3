// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/decode.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace unmask::softgpu {

// ---- what the statements of a kernel share ----

context::context(const ptx_module& module, const ptx_entry& of,
                 const std::map<std::string, u64>& variables, kernel& to)
    : entry(of), k(to), symbols_(variables) {
  for (const ptx_parameter& p : entry.parameters) symbols_[p.name] = p.offset;
  place_variables(module);
}

void context::place_variables(const ptx_module& module) {
  const auto aligned = [](u64 at, u64 align) { return (at + align - 1) / align * align; };
  u64 at = shared_base;
  for (const auto* list : {&module.shared(), &entry.shared}) {
    for (const ptx_variable& v : *list) {
      if (v.external) continue;
      at = aligned(at, v.align);
      symbols_[v.name] = at;
      at += v.bytes;
    }
  }
  k.static_shared = static_cast<u32>(at - shared_base);
  for (const ptx_variable& v : module.shared()) {
    if (!v.external) continue;
    k.dynamic_align = std::max(k.dynamic_align, v.align);
    symbols_[v.name] = aligned(at, v.align);
  }
  k.static_shared_end = static_cast<u32>(aligned(at, k.dynamic_align));
  u64 local = 0;
  for (const ptx_variable& v : entry.local) {
    local = aligned(local, v.align);
    symbols_[v.name] = local;
    local += v.bytes;
  }
  k.local_bytes = static_cast<u32>(aligned(local, 16));
}

operand context::constant(u64 bits, int bytes) {
  const auto found = constants_.find({bits, bytes});
  if (found != constants_.end()) return found->second;
  operand o;
  o.bank = operand::constants;
  o.bytes = static_cast<u8>(bytes);
  k.constants.resize((k.constants.size() + 63) / 64 * 64);
  o.at = static_cast<u32>(k.constants.size());
  if (bytes == 0) {
    const u32 mask = bits != 0 ? all_lanes : 0;
    k.constants.resize(o.at + 64);
    std::memcpy(k.constants.data() + o.at, &mask, 4);
  } else {
    k.constants.resize(o.at + 32 * static_cast<u32>(bytes));
    for (int l = 0; l < 32; ++l) {
      std::memcpy(k.constants.data() + o.at + l * bytes, &bits, static_cast<std::size_t>(bytes));
    }
  }
  constants_[{bits, bytes}] = o;
  return o;
}

operand context::reg(const std::string& name) {
  const auto found = registers_.find(name);
  if (found != registers_.end()) return found->second;
  const auto declared = entry.registers.find(name);
  const bool special = declared == entry.registers.end();
  if (special && !is_special_register(name)) throw ptx_error("unknown register " + name);
  const int bytes = special ? 4 : declared->second;
  operand o;
  o.bytes = static_cast<u8>(bytes);
  o.at = static_cast<u32>(k.register_bytes);
  k.register_bytes += bytes == 0 ? 64 : (32 * static_cast<std::size_t>(bytes) + 63) / 64 * 64;
  registers_[name] = o;
  if (special) k.specials.push_back({name, o});
  return o;
}

operand context::value(const ptx_operand& p, int bytes) {
  if (p.what == ptx_operand::form::sink) {
    operand o;
    o.bank = operand::nowhere;
    return o;
  }
  if (p.what == ptx_operand::form::number) {
    u64 bits = p.bits;
    if (p.literal == 'i' && bytes == 0) bits = bits != 0 ? 1 : 0;
    if (bytes > 0 && bytes < 8) bits &= (u64{1} << (8 * bytes)) - 1;
    return constant(bits, bytes < 0 ? 8 : bytes);
  }
  if (p.what != ptx_operand::form::name) {
    throw ptx_error("an operand of this form is not expected here");
  }
  const auto symbol = symbols_.find(p.name);
  if (symbol != symbols_.end()) return constant(symbol->second, bytes < 0 ? 8 : bytes);
  operand o = reg(p.name);
  if (bytes >= 0 && o.bytes != bytes) {
    throw ptx_error("register " + p.name + " has " + std::to_string(o.bytes) + " bytes, not " +
                    std::to_string(bytes));
  }
  o.negated = p.negated;
  return o;
}

operand context::base(const ptx_operand& p) {
  if (p.what != ptx_operand::form::address) throw ptx_error("an address is expected");
  if (p.name.empty()) return constant(0, 8);
  const auto symbol = symbols_.find(p.name);
  return symbol != symbols_.end() ? constant(symbol->second, 8) : reg(p.name);
}

bool type_of(const std::string& text, type_info* out) {
  if (text == "pred") {
    *out = {'p', 0};
    return true;
  }
  if (text.size() < 2 || std::string("busf").find(text[0]) == std::string::npos) return false;
  char* end = nullptr;
  const long bits = std::strtol(text.c_str() + 1, &end, 10);
  if (*end != 0 || (bits != 8 && bits != 16 && bits != 32 && bits != 64)) return false;
  *out = {text[0], static_cast<int>(bits / 8)};
  return true;
}

// ---- one statement ----

decoder::decoder(context& shared, const ptx_statement& statement, instruction& to)
    : c(shared), s(statement), i(to), op(statement.op[0]), P(statement.operands) {
  for (std::size_t n = s.op.size(); n-- > 1;) {
    if (type_of(s.op[n], &t)) break;
  }
}

void decoder::decode() {
  using family = void (decoder::*)();
  static const std::map<std::string, family> families = {{"mov", &decoder::move},
                                                         {"cvta", &decoder::convert_address},
                                                         {"add", &decoder::arithmetic},
                                                         {"sub", &decoder::arithmetic},
                                                         {"max", &decoder::arithmetic},
                                                         {"min", &decoder::arithmetic},
                                                         {"div", &decoder::arithmetic},
                                                         {"rem", &decoder::arithmetic},
                                                         {"mul", &decoder::multiply},
                                                         {"mad", &decoder::multiply_add},
                                                         {"fma", &decoder::fused_multiply_add},
                                                         {"abs", &decoder::absolute_or_negative},
                                                         {"neg", &decoder::absolute_or_negative},
                                                         {"copysign", &decoder::copy_sign},
                                                         {"and", &decoder::logic},
                                                         {"or", &decoder::logic},
                                                         {"xor", &decoder::logic},
                                                         {"not", &decoder::logic},
                                                         {"lop3", &decoder::logic_of_three},
                                                         {"shl", &decoder::shift},
                                                         {"shr", &decoder::shift},
                                                         {"shf", &decoder::funnel_shift},
                                                         {"selp", &decoder::select},
                                                         {"setp", &decoder::set_predicate},
                                                         {"cvt", &decoder::convert},
                                                         {"rcp", &decoder::special_function},
                                                         {"sqrt", &decoder::special_function},
                                                         {"rsqrt", &decoder::special_function},
                                                         {"ex2", &decoder::special_function},
                                                         {"lg2", &decoder::special_function},
                                                         {"popc", &decoder::count_bits},
                                                         {"clz", &decoder::count_bits},
                                                         {"bfind", &decoder::find_bit},
                                                         {"brev", &decoder::reverse_bits},
                                                         {"bfi", &decoder::insert_bits},
                                                         {"bfe", &decoder::extract_bits},
                                                         {"prmt", &decoder::permute_bytes},
                                                         {"dp4a", &decoder::dot_product},
                                                         {"ld", &decoder::load_or_store},
                                                         {"st", &decoder::load_or_store},
                                                         {"atom", &decoder::atomic_update},
                                                         {"red", &decoder::atomic_update},
                                                         {"ldmatrix", &decoder::load_matrix},
                                                         {"stmatrix", &decoder::store_matrix},
                                                         {"cp", &decoder::copy_async},
                                                         {"shfl", &decoder::shuffle_lanes},
                                                         {"vote", &decoder::vote_lanes},
                                                         {"bar", &decoder::barrier},
                                                         {"barrier", &decoder::barrier},
                                                         {"bra", &decoder::branch},
                                                         {"ret", &decoder::leave},
                                                         {"exit", &decoder::leave},
                                                         {"trap", &decoder::trap},
                                                         {"nop", &decoder::nothing},
                                                         {"setmaxnreg", &decoder::move_registers},
                                                         {"mbarrier", &decoder::memory_barrier},
                                                         {"mapa", &decoder::map_address},
                                                         {"getctarank", &decoder::find_rank},
                                                         {"griddepcontrol", &decoder::dependency},
                                                         {"prefetch", &decoder::prefetch},
                                                         {"membar", &decoder::fence},
                                                         {"fence", &decoder::fence},
                                                         {"mma", &decoder::matrix_product},
                                                         {"wgmma", &decoder::warpgroup_product}};
  const auto found = families.find(op);
  if (found == families.end()) refuse();
  (this->*found->second)();
}

void decoder::refuse() const {
  throw ptx_error("not supported: " + s.text);
}

void decoder::finish(int outputs) {
  c.k.pools.push_back(std::move(pool));
  i.o = c.k.pools.back().data();
  i.count = static_cast<u16>(c.k.pools.back().size());
  i.outputs = static_cast<u16>(outputs);
}

void decoder::simple(std::initializer_list<int> widths) {
  if (P.size() != widths.size()) refuse();
  std::size_t n = 0;
  for (const int bytes : widths) take(n++, bytes);
  finish(1);
}

void decoder::need_nearest_rounding() const {
  if (s.is("rz") || s.is("rm") || s.is("rp") || s.is("sat")) refuse();
}

// ---- one kernel ----

namespace {

// $UNMASK_SOFTGPU_DROP="kernel|text|n": the nth statement of it that holds the text (-1: every one)
// is left out, to see that its absence shows. Faults of several kernels have a & between them.
class planted_fault {
 public:
  explicit planted_fault(const std::string& entry) {
    const char* asked = std::getenv("UNMASK_SOFTGPU_DROP");
    if (asked == nullptr) return;
    std::istringstream all(asked);
    for (std::string one; std::getline(all, one, '&');) {
      const std::size_t a = one.find('|'), b = one.rfind('|');
      if (a == b || entry.find(one.substr(0, a)) == std::string::npos) continue;
      text_ = one.substr(a + 1, b - a - 1);
      wanted_ = std::atoi(one.c_str() + b + 1);
      return;
    }
  }
  bool leaves_out(const ptx_statement& s) {
    if (text_.empty() || s.text.find(text_) == std::string::npos) return false;
    return wanted_ < 0 || seen_++ == wanted_;
  }

 private:
  std::string text_;
  int wanted_ = 0, seen_ = 0;
};

void decode_statement(context& c, const ptx_statement& s, instruction& i) {
  i.line = s.line;
  i.place = s.place;
  if (!s.guard.empty()) {
    i.guarded = true;
    i.guard_negated = s.guard_negated;
    i.guard = c.reg(s.guard).at;
  }
  try {
    decoder(c, s, i).decode();
  } catch (const std::exception& why) {
    throw ptx_error(c.k.shown + ", line " + std::to_string(s.line) + ": " + s.text.substr(0, 200) +
                    ": " + why.what());
  }
}

}  // namespace

std::unique_ptr<kernel> decode(const ptx_module& module, const std::string& entry, int arch,
                               const std::map<std::string, std::uint64_t>& variables) {
  auto k = std::make_unique<kernel>();
  k->name = entry;
  k->shown = demangled(entry);
  k->arch = arch;
  k->entry = module.parse(entry);
  context c(module, *k->entry, variables, *k);
  k->code.resize(k->entry->statements.size());
  planted_fault planted(entry);
  for (std::size_t n = 0; n < k->code.size(); ++n) {
    const ptx_statement& s = k->entry->statements[n];
    instruction& i = k->code[n];
    i.index = static_cast<u32>(n);
    if (planted.leaves_out(s)) {
      std::fprintf(stderr, "softgpu: left out of %s: %s\n", k->shown.c_str(),
                   s.text.substr(0, 100).c_str());
      i.run = [](warp&, const instruction&) {};
      continue;
    }
    decode_statement(c, s, i);
  }
  find_meetings(*k);
  k->executed.assign(k->code.size(), 0);
  k->constants.resize(k->constants.size() + 64);
  return k;
}

}  // namespace unmask::softgpu
