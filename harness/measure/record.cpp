// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/record.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/base/digest.h"
#include "harness/devices/device.h"
#include "harness/devices/first_use.h"
#include "harness/rows/estimates.h"
#include "harness/rows/glossary.h"
#include "harness/rows/row_table.h"
#include "harness/rows/statistics.h"

namespace unmask {
namespace {

bool stops(std::int32_t token, const token_rules& rules) {
  return std::ranges::find(rules.stop_ids, token) != rules.stop_ids.end();
}

std::string broken_answer_law(const answer_record& a, const token_rules& rules) {
  const sequence_counters& w = a.work;
  const auto length = static_cast<std::int64_t>(a.tokens.size());
  for (const std::int32_t token : a.tokens) {
    if (token == rules.mask_id) return "the answer still holds masks";
    if (token < 0 || token >= rules.vocabulary) {
      return fmt::format("token {} is outside the vocabulary of {}", token, rules.vocabulary);
    }
  }
  if (!(a.seconds > 0) || !std::isfinite(a.seconds) || !(a.first_block_seconds >= 0) ||
      !(a.first_block_seconds <= a.seconds)) {
    return fmt::format("times do not fit: first block {} s, whole answer {} s",
                       a.first_block_seconds, a.seconds);
  }
  if (a.prompt_tokens < 0 || a.canvas_tokens < 0) return "a number of tokens is negative";
  if (std::string broken = broken_counters(w); !broken.empty()) return broken;
  if (w.committed < length) {
    return fmt::format("{} tokens came out but only {} were unmasked", length, w.committed);
  }
  if (w.committed > a.canvas_tokens) {
    return fmt::format("{} tokens were unmasked in a response of {}", w.committed, a.canvas_tokens);
  }
  return "";
}

struct totals {
  sequence_counters work;
  std::int64_t prompt = 0, canvas = 0, output = 0, answer = 0, after_eos = 0, beyond = 0;
};

totals sum_of(const pass_record& pass, const token_rules& rules) {
  totals t;
  for (const answer_record& a : pass.answers) {
    const auto length = static_cast<std::int64_t>(a.tokens.size());
    const std::int64_t output = output_tokens_of(a, rules);
    t.prompt += a.prompt_tokens;
    t.canvas += a.canvas_tokens;
    t.output += output;
    t.answer += answer_tokens_of(a, rules);
    t.after_eos += length - output;
    t.beyond += a.work.committed - length;
    add_counters(t.work, a.work);
  }
  return t;
}

void count_metrics(result_row& row, const pass_record& pass, const totals& t,
                   const measured_point& point) {
  const token_rules& rules = point.rules;
  const auto put = [&](const char* name, auto value) {
    row.metrics[name] = {static_cast<double>(value), origin::counted};
  };
  // Mean and population deviation over the requests.
  const auto put_spread = [&](const std::string& name, const auto& tokens_of) {
    moments tokens;
    for (const answer_record& a : pass.answers) tokens.add(static_cast<double>(tokens_of(a)));
    if (tokens.n == 0) return;
    put((name + "_mean").c_str(), tokens.mean());
    put((name + "_std").c_str(), tokens.deviation());
  };
  put("prompt_tokens", t.prompt);
  put("canvas_tokens", t.canvas);
  put("output_tokens", t.output);
  put("answer_tokens", t.answer);
  put("tokens_after_eos", t.after_eos);
  put("tokens_beyond_answer", t.beyond);
  put_spread("prompt_tokens", [](const answer_record& a) { return a.prompt_tokens; });
  put_spread("output_tokens", [&](const answer_record& a) { return output_tokens_of(a, rules); });
  for (const counter_spec& c : counter_list()) {
    row.metrics[c.metric] = {c.of(t.work), c.counted() ? origin::counted : origin::analytic};
  }
  // Without layers, or with too few of them, the rows of later layers mean nothing.
  const std::int64_t late_layers = row.model.layers - point.first_late_layer;
  if (late_layers > 0 && t.work.keys_seen > 0) {
    put("processed_rows",
        static_cast<double>(t.work.late_layer_rows) / static_cast<double>(late_layers));
  }
  for (const ratio_spec& r : ratio_list()) {
    const auto over = row.value_of(r.over), under = row.value_of(r.under);
    if (over && under && *under > 0) put(r.name, *over / *under);
  }
}

// Puts what a pass adds up: its total, or a time's share of the steps in each repetition and in the mean.
void total_metrics(result_row& row, const std::vector<pass_record>& passes) {
  for (const total_spec& t : total_list()) {
    const origin from = t.counted() ? origin::counted : origin::measured;
    if (t.told == told_as::total) {
      const std::optional<double> total = t.of(passes.front());
      if (total && (t.counted() || *total > 0)) row.metrics[t.metric] = {*total, from};
    } else if (t.told == told_as::share) {
      std::vector<double> shares;
      for (const pass_record& p : passes) {
        if (p.all_seconds() > 0) shares.push_back(t.of(p).value_or(0) / p.all_seconds());
      }
      if (shares.size() != passes.size()) continue;
      row.metrics[t.metric] = {mean_of(shares), from};
      if (shares.size() > 1) row.metrics[t.metric].samples = shares;
    }
  }
}

double median_of(const std::vector<double>& samples) {
  const double low = percentile_of(samples, 0.5);
  std::vector<double> negative;
  for (const double s : samples) negative.push_back(-s);
  return (low - percentile_of(negative, 0.5)) / 2;
}

// One repetition that was stopped for a while would move the mean of ten to three times its value.
// From this many times the median on, a row's times are those of its median repetition.
constexpr double outlier_from = 1.5;
bool has_outlier(const std::vector<double>& samples) {
  return samples.size() > 2 && std::ranges::max(samples) > outlier_from * median_of(samples);
}

// Of the repetitions of one quantity, in a row with or without an outlier.
double middle_of(const std::vector<double>& samples, const result_row& row) {
  return row.samples.median ? median_of(samples) : mean_of(samples);
}

// The middle of each request over the repetitions, so that n is the number of requests.
void latency_metrics(result_row& row, const std::vector<pass_record>& passes) {
  const std::size_t n = passes.front().answers.size();
  std::vector<double> whole(n), first(n), of_request(passes.size()), of_block(passes.size());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t p = 0; p < passes.size(); ++p) {
      of_request[p] = passes[p].answers[i].seconds;
      of_block[p] = passes[p].answers[i].first_block_seconds;
    }
    whole[i] = middle_of(of_request, row);
    first[i] = middle_of(of_block, row);
  }
  const auto put = [&](const char* name, const std::vector<double>& samples, double q) {
    if (percentile_earned(q, n)) {
      row.metrics[name] = {percentile_of(samples, q), origin::measured};
    }
  };
  put("ttfb_p50_seconds", first, 0.5);
  put("e2e_p50_seconds", whole, 0.5);
  put("e2e_p95_seconds", whole, 0.95);
  put("e2e_p99_seconds", whole, 0.99);
}

// Means over the repetitions, of what every repetition has.
void pass_metrics(result_row& row, const std::vector<pass_record>& passes) {
  for (const auto& [name, first] : passes.front().metrics) {
    std::vector<double> values;
    for (const pass_record& pass : passes) {
      const auto found = pass.metrics.find(name);
      if (found != pass.metrics.end()) values.push_back(found->second.value);
    }
    if (values.size() == passes.size()) {
      const bool repeated = values.size() > 1 && name.ends_with("_per_second");
      row.metrics[name] = {mean_of(values), first.from,
                           first.samples.empty() && repeated ? values : first.samples};
    }
  }
}

// The first pass's answer to the same request; where clients left, null if it has none.
const answer_record* first_answer(const pass_record& first, const pass_record& other,
                                  std::size_t i) {
  if (!first.clients_left) return &first.answers[i];
  const std::size_t request = other.answers[i].request;
  const auto at = std::ranges::lower_bound(first.answers, request, {}, &answer_record::request);
  return at != first.answers.end() && at->request == request ? &*at : nullptr;
}

std::string disagreement(const std::vector<pass_record>& passes) {
  const pass_record& first = passes.front();
  for (std::size_t p = 1; p < passes.size(); ++p) {
    const topology_record &ranks = passes[p].topology, &before = first.topology;
    if (ranks.hosts != before.hosts || ranks.transport != before.transport) {
      return fmt::format(
          "ranks of repetition {} were connected by {} on {} machine{}, those of the first by {} "
          "on "
          "{}: unmask run --fresh measures the point anew",
          p + 1, ranks.transport, ranks.hosts, ranks.hosts == 1 ? "" : "s", before.transport,
          before.hosts);
    }
    const std::vector<answer_record>& answers = passes[p].answers;
    if (!first.clients_left && answers.size() != first.answers.size()) {
      return "repetitions answered different numbers of requests";
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const answer_record* mine = first_answer(first, passes[p], i);
      if (!mine || mine->tokens == answers[i].tokens || first.answers_vary) continue;
      return fmt::format("repetition {} gave other tokens than the first for request {}", p + 1,
                         (first.clients_left ? answers[i].request : i) + 1);
    }
  }
  return "";
}

// In how many requests a later pass gave other tokens than the first, as a sentence; empty: in none.
std::string varied_answers(const std::vector<pass_record>& passes) {
  const pass_record& first = passes.front();
  std::set<std::size_t> others;
  for (const pass_record& pass : passes) {
    for (std::size_t i = 0; i < pass.answers.size(); ++i) {
      const answer_record* mine = first_answer(first, pass, i);
      if (mine && mine->tokens != pass.answers[i].tokens) {
        others.insert(static_cast<std::size_t>(mine - first.answers.data()));
      }
    }
  }
  if (others.empty()) return "";
  return fmt::format(
      "{} of {} requests got other tokens in another repetition, because the real clock decides "
      "which requests run together; the score is the mean of the repetitions, counts are of the "
      "first",
      others.size(), first.answers.size());
}

// The scores of the first pass; if answers vary, each with the mean of all passes in its place.
std::vector<scored_answer> scores_of_passes(const measured_point& point) {
  std::vector<scored_answer> all = point.scores;
  for (scored_answer& a : all) {
    double sum = a.scored ? a.value : 0;
    std::int64_t n = a.scored ? 1 : 0;
    for (const std::vector<scored_answer>& pass : point.later_scores) {
      const auto again = std::ranges::find(pass, a.item, &scored_answer::item);
      if (again == pass.end()) continue;
      a.exact = a.exact && again->exact;
      a.undecided = a.undecided || again->undecided;
      if (a.note.empty()) a.note = again->note;
      a.measures.insert(a.measures.end(), again->measures.begin(), again->measures.end());
      a.libraries.insert(again->libraries.begin(), again->libraries.end());
      sum += again->scored ? again->value : 0;
      n += again->scored ? 1 : 0;
    }
    a.scored = n > 0;
    a.value = n > 0 ? sum / static_cast<double>(n) : 0;
  }
  return all;
}

// Tokens of a pass: of passes that differ the mean.
double mean_tokens(const std::vector<pass_record>& passes,
                   const std::function<std::int64_t(const answer_record&)>& tokens_of) {
  double sum = 0;
  for (const pass_record& pass : passes) {
    for (const answer_record& a : pass.answers) sum += static_cast<double>(tokens_of(a));
  }
  return sum / static_cast<double>(passes.size());
}

std::string bytes_of(const std::vector<std::int32_t>& tokens) {
  std::string bytes;
  for (const std::int32_t t : tokens) bytes += std::to_string(t) + " ";
  return bytes + "\n";
}

// Keeps what was answered, so that another run can be told to have answered the same.
void hash_answers(result_row& row, const pass_record& pass) {
  std::string all;
  for (const answer_record& answer : pass.answers) all += bytes_of(answer.tokens);
  row.answers_hash = sha256_hex(all);
}

// Keeps how often every judged text repeats itself; nothing of answers. The sums are those of the score.
void keep_repetition(item_records& items, const std::vector<scored_answer>& scores) {
  for (const scored_answer& s : scores) {
    const auto found = std::ranges::find_if(
        s.measures, [](const measure& m) { return m.name == "repeated_sequences"; });
    const measure repeats = found == s.measures.end() ? measure{"", 0, 0} : *found;
    items.sequences.push_back(static_cast<std::int64_t>(repeats.of));
    items.repeated_sequences.push_back(static_cast<std::int64_t>(repeats.sum));
  }
  if (std::ranges::all_of(items.sequences, [](std::int64_t n) { return n == 0; })) {
    items.sequences.clear();
    items.repeated_sequences.clear();
  }
}

void keep_items(result_row& row, const measured_point& point) {
  const std::vector<answer_record>& answers = point.passes.front().answers;
  if (point.scores.size() != answers.size()) return;
  const bool synthetic = row.model.weights == "synthetic";
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const scored_answer& s = point.scores[i];
    row.items.id.push_back(s.id);
    row.items.score.push_back(s.scored && !synthetic ? s.value : std::nan(""));
    row.items.exact.push_back(s.exact && !synthetic);
    row.items.output_tokens.push_back(output_tokens_of(answers[i], point.rules));
    row.items.answer_hash.push_back(sha256_hex(bytes_of(answers[i].tokens)).substr(0, 16));
    const sequence_counters& work = answers[i].work;
    row.items.forwards.push_back(work.forwards);
    row.items.denoise_steps.push_back(work.denoise_steps);
    row.items.committed.push_back(work.committed);
    row.items.rows.push_back(work.rows);
    row.items.decode_rows.push_back(work.decode_rows);
    row.items.late_layer_rows.push_back(work.late_layer_rows);
    row.items.seconds.emplace_back();
    for (const pass_record& pass : point.passes) {
      row.items.seconds.back().push_back(pass.answers[i].seconds);
    }
  }
  if (!synthetic) keep_repetition(row.items, point.scores);
}

// Standard deviation of the trials' means; trials lie one after the other.
double trial_deviation(const std::vector<scored_answer>& scores, std::size_t trials) {
  if (trials < 2 || scores.size() % trials != 0) return 0;
  const std::size_t items = scores.size() / trials;
  std::vector<double> means;
  for (std::size_t t = 0; t < trials; ++t) {
    moments trial;
    for (std::size_t i = t * items; i < (t + 1) * items; ++i) {
      if (scores[i].scored) trial.add(scores[i].value);
    }
    means.push_back(trial.n > 0 ? trial.mean() : 0);
  }
  return deviation_of(means);
}

// The mean of the means of groups and its interval: squares of the distances to the ends add up.
void score_groups(score_record& s, const std::vector<scored_answer>& scores) {
  std::map<std::string, std::vector<double>> groups;
  for (const scored_answer& a : scores) {
    if (a.scored) groups[a.group].push_back(a.value);
  }
  if (groups.size() < 2) return;
  double sum = 0, below = 0, above = 0;
  for (const auto& [name, values] : groups) {
    const interval i = score_interval(values);
    const double mean = mean_of(values);
    sum += mean;
    below += (mean - i.low) * (mean - i.low);
    above += (i.high - mean) * (i.high - mean);
  }
  const auto n = static_cast<double>(groups.size());
  s.mean_of_groups = sum / n;
  s.group_range = {std::max(0.0, s.mean_of_groups - std::sqrt(below) / n),
                   std::min(1.0, s.mean_of_groups + std::sqrt(above) / n)};
}

// The mean of every item that was scored, which trials ask several times, whole trial after trial.
std::vector<double> item_means(const std::vector<scored_answer>& scores, std::size_t trials) {
  if (trials == 0 || scores.size() % trials != 0) trials = 1;
  const std::size_t items = scores.size() / trials;
  std::vector<double> means;
  for (std::size_t i = 0; i < items; ++i) {
    moments item;
    for (std::size_t t = 0; t < trials; ++t) {
      const scored_answer& a = scores[t * items + i];
      if (a.scored) item.add(a.value);
    }
    if (item.n > 0) means.push_back(item.mean());
  }
  return means;
}

void score_row(result_row& row, const std::vector<scored_answer>& scores) {
  score_record s;
  double sum = 0;
  for (const scored_answer& a : scores) {
    s.undecided += a.undecided;
    if (!a.scored) continue;
    ++s.n;
    s.exact += a.exact;
    sum += a.value;
    s.libraries.insert(a.libraries.begin(), a.libraries.end());
  }
  if (s.n == 0 || row.model.weights == "synthetic") return;
  s.mean = sum / static_cast<double>(s.n);
  const std::int64_t trials = std::max<std::int64_t>(row.workload.benchmark.trials, 1);
  const interval i = score_interval(item_means(scores, static_cast<std::size_t>(trials)));
  s.low = i.low;
  s.high = i.high;
  score_groups(s, scores);
  std::map<std::string, double> of;
  for (const scored_answer& a : scores) {
    for (const measure& m : a.measures) {
      s.beside[m.name] += m.sum;
      of[m.name] += m.of;
    }
  }
  for (auto& [name, value] : s.beside) value = of[name] > 0 ? value / of[name] : 0;
  if (trials > 1) {
    s.trial_deviation = trial_deviation(scores, static_cast<std::size_t>(trials));
  }
  row.score = s;
}

// "3 of 500 items are undecided, the first, ID: NOTE"; empty when none is.
std::string undecided_items(const std::vector<scored_answer>& scores) {
  const auto undecided = [](const scored_answer& a) { return a.undecided; };
  const auto first = std::ranges::find_if(scores, undecided);
  if (first == scores.end()) return "";
  const auto n = std::ranges::count_if(scores, undecided);
  return fmt::format("{} of {} items {} undecided, the first, {}: {}", n, scores.size(),
                     n == 1 ? "is" : "are", first->id.empty() ? "without an id" : first->id,
                     first->note.empty() ? "no reason given" : first->note);
}

// The speed of a setting that never acted is the speed of something else.
void check_activity(result_row& row, const std::vector<active_knob>& knobs) {
  // Decisions without meaning, or without a layer, say nothing about a setting.
  if (row.model.weights == "synthetic" || row.run.impose != "none" ||
      row.value_of("keys_seen").value_or(0) == 0) {
    return;
  }
  std::string idle;
  for (const active_knob& knob : knobs) {
    if (row.value_of(knob.counter) != 0) continue;
    idle += fmt::format("{}{} changed nothing ({} is 0)", idle.empty() ? "" : ", ", knob.setting,
                        knob.counter);
  }
  if (idle.empty()) return;
  row.verdict = row_verdict::inactive;
  row.reason = row.reason.empty() ? idle : idle + "; " + row.reason;
}

void add_reason(result_row& row, const std::string& more) {
  if (!more.empty()) row.reason += (row.reason.empty() ? "" : "; ") + more;
}

// A batch that was never full has another speed than a full one.
void check_batch(result_row& row, const pass_record& pass) {
  const std::size_t items = pass.answers.size();
  if (pass.served || static_cast<std::size_t>(row.run.batch_size) <= items) return;
  add_reason(row, fmt::format(
                      "batch_size is {}, but no batch held more than the {} item{} there {}",
                      row.run.batch_size, items, items == 1 ? "" : "s", items == 1 ? "is" : "are"));
}

// What the spread between repetitions shows of the machine, and what it cannot show: work that makes
// all of them equally slow. A row without a score keeps its verdict and has the reason.
void judge_times(result_row& row, const measured_point& point) {
  const bool scored = row.verdict == row_verdict::pass;
  if (is_noisy(row)) {
    if (scored) row.verdict = row_verdict::noisy;
    add_reason(row, fmt::format("the speed is known to ±{:.0f} % only, from {} repetitions",
                                100 * row.samples.half_width, row.samples.seconds.size()));
  }
  if (point.passes.front().time != origin::measured) return;
  machine_use all;
  for (const pass_record& pass : point.passes) all += pass.use;
  const bool waits = point.passes.front().served || (row.device && row.device->is_card);
  row.samples.disturbance = disturbance(all, waits || threads_sleep());
  if (!row.samples.disturbance.empty()) {
    if (scored) row.verdict = row_verdict::noisy;
    add_reason(row, row.samples.disturbance);
  }
}

// The times of the repetitions, and who used the processors meanwhile.
void sample_times(result_row& row, const measured_point& point) {
  sample_record& s = row.samples;
  s.warmup_seconds = point.warmup_seconds;
  s.stop = point.stop;
  s.taken_up = static_cast<std::int64_t>(std::min(point.taken_up, point.passes.size()));
  for (const pass_record& pass : point.passes) {
    s.seconds.push_back(pass.seconds);
    if (pass.time != origin::measured) continue;
    s.own_share.push_back(pass.use.own_share());
    s.other_share.push_back(pass.use.other_share());
    s.throttled_seconds.push_back(pass.use.throttled_seconds);
  }
  s.half_width = relative_half_width(s.seconds);
  s.median = has_outlier(s.seconds);
}

// Kernels that were not checked on the GPU that ran them prove nothing; ways to multiply that were
// wrong there and not used are said beside the verdict.
void check_kernels(result_row& row) {
  std::string said;
  if (row.model.checked == not_checked) {
    row.verdict = row_verdict::not_verified;
    said = "device_check is off: no kernel was checked on this GPU";
  } else if (const auto at = row.model.checked.find("not used: "); at != std::string::npos) {
    said = "device check: " + row.model.checked.substr(at);
  }
  if (!said.empty()) row.reason = row.reason.empty() ? said : said + "; " + row.reason;
}

}  // namespace

const std::vector<ratio_spec>& ratio_list() {
  static const std::vector<ratio_spec> list = {
      {"tpf", "output_tokens", "nfe", "tokens", "tokens per forward pass"},
      {"committed_per_step", "committed", "denoise_steps", "tokens",
       "unmasked tokens per denoising step"},
      {"redundancy", "decode_rows", "committed", "rows",
       "computed positions outside prefill per unmasked token: positions that are evicted later "
       "in the pass count, and it is below 1 if a prefill pass unmasks tokens"},
      {"token_utilisation", "committed", "decode_rows", "ratio",
       "the inverse of `redundancy` (Optimus); above 1 if a prefill pass unmasks tokens"},
      {"processed_rows_per_committed", "processed_rows", "committed", "rows",
       "the redundancy of FOCUS, Table 5, which counts layers 2 and up"},
      {"processed_rows_per_output", "processed_rows", "output_tokens", "rows",
       "the same per output token, as the tracker of FOCUS prints it"},
  };
  return list;
}

token_rules rules_of(const model_config& model) {
  return {model.vocabulary, model.mask_id, model.stop_ids};
}

std::int64_t output_tokens_of(const answer_record& answer, const token_rules& rules) {
  for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
    if (stops(answer.tokens[i], rules)) return static_cast<std::int64_t>(i) + 1;
  }
  return static_cast<std::int64_t>(answer.tokens.size());
}

std::int64_t answer_tokens_of(const answer_record& answer, const token_rules& rules) {
  const std::int64_t n = output_tokens_of(answer, rules);
  return n > 0 && stops(answer.tokens[static_cast<std::size_t>(n - 1)], rules) ? n - 1 : n;
}

std::string broken_law(const pass_record& pass, const token_rules& rules) {
  if (pass.answers.empty()) {
    if (!pass.served) return "there were no requests";
    const auto rejected = pass.metrics.find("requests_rejected");
    const bool some = rejected != pass.metrics.end() && rejected->second.value > 0;
    return "no request was answered to its end" +
           (some ? fmt::format(": {} were rejected, because they need more pages than there are",
                               rejected->second.value)
                 : "");
  }
  if (!(pass.seconds > 0) || !std::isfinite(pass.seconds)) {
    return fmt::format("the pass took {} s", pass.seconds);
  }
  for (std::size_t i = 0; i < pass.answers.size(); ++i) {
    const std::string problem = broken_answer_law(pass.answers[i], rules);
    if (!problem.empty()) return fmt::format("request {}: {}", i + 1, problem);
    // One clock reading apart at most.
    if (pass.answers[i].seconds > pass.seconds * 1.001 + 1e-6) {
      return fmt::format("request {} took longer than the whole pass", i + 1);
    }
  }
  return "";
}

void describe_device(result_row& row) {
  const auto on = std::ranges::find(device_list(), row.run.device, &device::name);
  if (on != device_list().end()) row.device = {on->is_card, on->times_mean_something};
}

namespace {

// A wrong stop token makes every speed larger: what is behind an answer is counted too. A base model, or
// answers that their length cuts, look the same.
std::string no_end_seen(const measured_point& point) {
  const std::vector<answer_record>& answers = point.passes.front().answers;
  const std::vector<std::int32_t>& stops = point.rules.stop_ids;
  const bool ends = std::ranges::any_of(answers, [&](const answer_record& a) {
    return std::ranges::find_first_of(a.tokens, stops) != a.tokens.end();
  });
  if (ends || answers.empty()) return {};
  return "no answer ended at a stop token: their length cut them, or the stop token is wrong";
}

}  // namespace

// GPUs move bytes by NCCL, other ranks by their group (base/ranks/transport.h).
static topology_record topology_of(const topology_record& group, const std::string& device_name) {
  const device* on = device_if_chosen(device_name);
  const std::string nccl = on != nullptr ? on->rank_library() : "";
  return {group.hosts, nccl.empty() ? group.transport : "NCCL", nccl};
}

void measure_row(result_row& row, const measured_point& point) {
  describe_device(row);
  row.verdict = row_verdict::invalid;
  sample_times(row, point);
  if (point.passes.empty()) {
    row.reason = "nothing was measured";
    return;
  }
  const totals t = sum_of(point.passes.front(), point.rules);
  const double output = mean_tokens(
      point.passes, [&](const answer_record& a) { return output_tokens_of(a, point.rules); });
  count_metrics(row, point.passes.front(), t, point);
  total_metrics(row, point.passes);
  const double seconds = middle_of(row.samples.seconds, row);
  const origin time = point.passes.front().time;
  row.metrics["wall_seconds"] = {seconds, time};
  if (seconds > 0) {
    row.metrics["tokens_per_second"] = {output / seconds, time};
    row.metrics["canvas_tokens_per_second"] = {
        mean_tokens(point.passes, [](const answer_record& a) { return a.work.committed; }) /
            seconds,
        time};
  }
  if (row.device && !row.device->times_mean_something && time != origin::synthetic) {
    row.reason = "emulated kernels: the times mean nothing";
    return;
  }
  row.reason = disagreement(point.passes);
  for (const pass_record& pass : point.passes) {
    if (row.reason.empty()) row.reason = broken_law(pass, point.rules);
  }
  if (!row.reason.empty()) return;
  const pass_record& first = point.passes.front();
  if (!first.clients_left && !first.answers_vary) hash_answers(row, first);
  const std::vector<scored_answer> scores = scores_of_passes(point);
  pass_metrics(row, point.passes);
  if (row.metrics.contains("sum_calls")) row.topology = topology_of(first.topology, row.run.device);
  if (const auto energy = row.value_of("energy_joules"); energy && output > 0) {
    row.metrics["joules_per_token"] = {*energy / output, origin::measured};
  }
  if (!first.served) {
    latency_metrics(row, point.passes);
    if (point.keep_items) keep_items(row, point);
  }
  const bool imposed = row.run.impose != "none";
  if (!imposed) score_row(row, scores);
  if (row.model.weights == "synthetic" || imposed) {
    for (auto& [name, m] : row.metrics) {
      const bool clock = name.ends_with("_seconds");
      if (!clock && m.from != origin::analytic) m.from = origin::synthetic;
    }
    row.verdict = row_verdict::not_verified;
    const std::string commits = setting_of(row, "serve.commits").value_or("model");
    row.reason = imposed ? "commits imposed (" + row.run.impose + "): the output means nothing"
                 : commits == "model" ? "synthetic weights: the output means nothing"
                                      : "decisions from " + commits + ", not from a model";
  } else if (!row.score) {
    row.verdict = row_verdict::not_verified;
    const auto why = std::ranges::find_if(
        scores, [](const scored_answer& a) { return a.note.starts_with("NOT RUN"); });
    const std::string undecided = undecided_items(scores);
    row.reason = why != scores.end()  ? why->note
                 : !undecided.empty() ? undecided
                                      : nothing_to_score;
  } else {
    row.verdict = row_verdict::pass;
    row.reason = row.model.caution;
    add_reason(row, undecided_items(scores));
    add_reason(row, no_end_seen(point));
  }
  add_reason(row, varied_answers(point.passes));
  add_reason(row, first.unmetered);
  judge_times(row, point);
  check_batch(row, first);
  check_activity(row, point.knobs);
  check_kernels(row);
}

}  // namespace unmask
