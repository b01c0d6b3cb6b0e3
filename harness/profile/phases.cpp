// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/phases.h"

#include <array>
#include <string>

#include "harness/base/nearest.h"

namespace unmask {
namespace {

struct phase_facts {
  const char* name;
  range_category category;
  bool container = false;
};

// In the order of the enumeration.
constexpr std::array<phase_facts, profile_phases> facts = {{
    {"measure", range_category::scheduler, true},
    {"run", range_category::scheduler, true},
    {"step", range_category::scheduler, true},
    {"plan", range_category::scheduler},
    {"prefill", range_category::prefill, true},
    {"denoise", range_category::denoise, true},
    {"commit_forward", range_category::commit, true},
    {"mixed_forward", range_category::denoise, true},
    {"selection", range_category::select},
    {"embed", range_category::denoise},
    {"layer", range_category::denoise, true},
    {"project", range_category::attention},
    {"cache_update", range_category::cache},
    {"attention", range_category::attention},
    {"attention_output", range_category::attention},
    {"feed_forward", range_category::mlp},
    {"final_norm", range_category::lm_head},
    {"candidates", range_category::sample},
    {"lm_head", range_category::lm_head},
    {"decide", range_category::sample},
    {"commit", range_category::commit},
    {"settle", range_category::cache},
    {"accounting", range_category::scheduler},
    {"recorded", range_category::denoise, true},
    {"vision", range_category::prefill},
    {"across_ranks", range_category::scheduler},
}};

const phase_facts& facts_of(profile_phase phase) {
  return facts.at(static_cast<std::size_t>(phase));
}

// Registered once; the tool then gets a handle instead of text.
const range_name& registered(profile_phase phase) {
  static const auto names = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<range_name, profile_phases>{range_name(facts[i].name, facts[i].category)...};
  }
  (std::make_index_sequence<profile_phases>{});
  return names.at(static_cast<std::size_t>(phase));
}

thread_local phase_listener* listener_of_thread = nullptr;

}  // namespace

const char* name_of(profile_phase phase) {
  return facts_of(phase).name;
}

range_category category_of(profile_phase phase) {
  return facts_of(phase).category;
}

bool is_container(profile_phase phase) {
  return facts_of(phase).container;
}

profile_phase phase_named(const char* name) {
  const std::vector<std::string> known = names_in(facts, &phase_facts::name);
  return static_cast<profile_phase>(find_known("phase", name, known));
}

phase_listener* current_listener() {
  return listener_of_thread;
}

listening::listening(phase_listener* listener) : before_(listener_of_thread) {
  listener_of_thread = listener;
}
listening::~listening() {
  listener_of_thread = before_;
}

phase_range::phase_range(profile_phase phase, std::int64_t payload)
    : range_(registered(phase), payload), listener_(listener_of_thread), phase_(phase) {
  if (listener_) listener_->enter(phase, payload);
}

phase_range::~phase_range() {
  if (listener_) listener_->leave(phase_);
}

}  // namespace unmask
