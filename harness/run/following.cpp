// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/following.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/base/ranks/group.h"
#include "harness/base/ranks/memory.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/plan/serve_settings.h"
#include "harness/profile/phase_clock.h"
#include "harness/run/pass_use.h"

namespace unmask {
namespace {

using nlohmann::json;

constexpr double for_ever = 0;
constexpr double seconds_to_end = 2;
constexpr std::size_t most_words = 400;  // of what a rank said last

// Moves of a group wait so long while this lives.
class waiting {
 public:
  waiting(rank_group& group, double seconds, const char* variable = patience_variable)
      : group_(group), before_(group.patience()) {
    group.wait_for(seconds, variable);
  }
  ~waiting() { group_.wait_for(before_); }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

 private:
  rank_group& group_;
  double before_;
};

// The same while ranks start, load and calibrate.
class waiting_for_loading : waiting {
 public:
  explicit waiting_for_loading(rank_group& group)
      : waiting(group, ranks_loading_patience(), loading_patience_variable) {}
};

// The program that this process runs, also if its file was replaced meanwhile: the same of all ranks of a
// machine.
std::string own_program() {
  struct stat about {};
  if (::stat("/proc/self/exe", &about) != 0) return "";
  return fmt::format("{} {} {}", about.st_dev, about.st_ino, about.st_size);
}

// What this process tells of itself. A file of another machine is known by its content, and bits are those of
// a processor.
std::string own_facts(const executor& with, const std::optional<rank_place>& place) {
  if (!place || place->on_one_machine()) return rank_facts(own_program(), "");
  return rank_facts(with.program_hash(), capture_environment("").cpu_model);
}

// What a group prepares and passes, of which rank 0 and the followers each have their own.
struct prepared_group {
  std::vector<preparation> points;
  std::string problem;  // of the whole group; empty: none

  // "" for what is ready, else what is missing, by point; and the model's hash.
  std::string told() const {
    json all = json::array(), models = json::array();
    for (const preparation& p : points) {
      all.push_back(p.point ? "" : p.reason);
      models.push_back(p.point ? p.point->model().hash : "");
    }
    return json{{"problem", problem}, {"points", all}, {"models", models}}.dump();
  }
};

// An error in words that a row can have.
std::string said_of(const std::exception& problem) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&problem) != nullptr;
  return no_memory ? "no memory is left for its share of the model" : problem.what();
}

prepared_group prepared_by(executor& with, std::span<const experiment_point> group) {
  prepared_group done;
  try {
    done.points = with.prepare(group);
  } catch (const rank_failure&) {
    throw;
  } catch (const std::exception& problem) {
    done.problem = said_of(problem);
  }
  return done;
}

// The last lines of a file, in one.
std::string last_words_in(const std::filesystem::path& file) {
  std::string all;
  try {
    all = read_file(file, std::size_t{1} << 20);
  } catch (const error&) {
    return "";
  }
  std::ranges::replace(all, '\n', ' ');
  while (!all.empty() && all.back() == ' ') all.pop_back();
  if (all.size() > most_words) all = "..." + all.substr(all.size() - most_words);
  return all;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

// Of one of so many ranks on this machine.
int threads_of(int ranks) {
  return std::max(1, operation_threads() / ranks);
}
int threads_of(const rank_place& place) {
  return threads_of(place.local_ranks > 0 ? place.local_ranks : place.ranks);
}

// The processes of ranks 1, 2, ... and rank 0's end of their group.
class rank_team {
 public:
  // Starts the others.
  rank_team(int ranks, const std::string& facts) : threads_(threads_of(ranks)) {
    const std::shared_ptr<rank_memory> memory = rank_memory::create(ranks);
    group_ = std::make_shared<rank_group>(memory, 0);
    start_others(ranks, memory->file());
    group_->watch([this](int rank) { return why_ended(rank); });
    const waiting_for_loading start(*group_);  // of new processes
    meet(facts);
  }
  // Waits for those that a launcher started.
  rank_team(const rank_place& place, const std::string& facts)
      : group_(join_ranks(place)), threads_(threads_of(place)), launcher_(place.launcher) {
    meet(facts);
  }

  // Followers that wait for a command take their leave; others are ended.
  ~rank_team() {
    try {
      if (works()) {
        const waiting briefly(*group_, seconds_to_end);
        group_->from_first(json{{"do", "end"}}.dump());
      }
    } catch (const rank_failure&) {
    }
    for (const auto& follower : followers_) {
      follower->let_end(works() ? seconds_to_end : 0);
    }
  }
  rank_team(const rank_team&) = delete;
  rank_team& operator=(const rank_team&) = delete;

  rank_group& group() { return *group_; }
  // Sends a command, then runs rank 0's part of it as one of the group, on its share of the cores. An
  // error leaves the others somewhere else: the team is then of no use.
  template <class Work>
  auto together(const json& command, const Work& work) {
    const ranks_in_force force(group_.get());
    const fewer_threads fewer(threads_);
    in_order_ = false;
    group_->from_first(command.dump());
    struct back_in_order {
      bool& flag;
      int errors = std::uncaught_exceptions();
      ~back_in_order() { flag = std::uncaught_exceptions() == errors; }
    } const order{in_order_};
    return work();
  }
  bool works() const { return in_order_ && group_->failure().empty(); }
  // Why ranks that a launcher started are of no use any more; empty: rank 0 starts its own.
  std::string lost() const {
    if (launcher_.empty()) return "";
    return fmt::format("{}; {} started the ranks and must start them again",
                       group_->failure().empty() ? "a rank lost its way" : group_->failure(),
                       launcher_);
  }

 private:
  void start_others(int ranks, const std::string& memory) {
    if (file_of_code() != program_to_start()) {
      throw environment_error(
          "NOT RUN: several ranks need the program unmask, which can be started again for each; "
          "unmask run measures this point");
    }
    const std::string program = fmt::format("/proc/{}/exe", ::getpid());
    const std::vector<std::string> words = own_words();
    for (int rank = 1; rank < ranks; ++rank) {
      std::vector<std::string> command = {"env",
                                          fmt::format("{}={} {}", follows_whom, rank, memory),
                                          fmt::format("OMP_NUM_THREADS={}", threads_),
                                          "CUDA_VISIBLE_DEVICES=" + gpus_of_rank(rank), program};
      command.insert(command.end(), words.begin() + 1, words.end());
      said_.push_back(scratch_.path() / fmt::format("rank-{}.txt", rank));
      followers_.push_back(std::make_unique<child_process>(command, "/dev/null", said_.back()));
    }
  }

  void meet(const std::string& facts) {
    const std::string other = unlike_rank(group_->gather(facts));
    if (!other.empty()) group_->give_up(other);
  }

  std::string why_ended(int rank) {
    const auto at = static_cast<std::size_t>(rank - 1);
    const std::optional<int> status = followers_[at]->ended();
    if (!status) return "";
    const std::string said = last_words_in(said_[at]);
    return fmt::format("rank {} (process {}) {}{}{}", rank, followers_[at]->pid(),
                       how_it_ended(*status), said.empty() ? "" : "; its last words: ", said);
  }

  std::shared_ptr<rank_group> group_;
  int threads_;
  scratch_folder scratch_;
  std::vector<std::filesystem::path> said_;
  std::vector<std::unique_ptr<child_process>> followers_;
  std::string launcher_;  // empty: rank 0 started the others
  bool in_order_ = true;
};

// Ranks that this process starts have a GPU each, the only one that they see.
void check_gpus_for(const run_keys& run) {
  if (!find_device(run.device).is_card) return;
  const auto visible = static_cast<std::int64_t>(cuda::query().devices.size());
  if (visible >= run.ranks) return;
  throw environment_error(fmt::format(
      "{} ranks need {} GPUs, one for each, and {} {} visible; CUDA_VISIBLE_DEVICES says "
      "which",
      run.ranks, run.ranks, visible, visible == 1 ? "is" : "are"));
}

class ranked_executor;

// One point of several ranks, on rank 0. What is no pass is that of the point itself.
class ranked_point final : public prepared_point {
 public:
  ranked_point(ranked_executor& all, std::size_t number, std::unique_ptr<prepared_point> own);
  ~ranked_point() override;
  model_record model() const override { return own_->model(); }
  workload_record workload() const override { return own_->workload(); }
  token_rules rules() const override { return own_->rules(); }
  std::vector<active_knob> knobs() const override { return own_->knobs(); }
  std::int32_t first_late_layer() const override { return own_->first_late_layer(); }
  pass_record pass() override;
  std::vector<phase_seconds> phases_of_other_ranks() const override { return phases_; }
  pass_size size() const override { return own_->size(); }
  void count_in(work_meter& meter) override { own_->count_in(meter); }
  std::string memory() const override { return own_->memory(); }
  void remember(const std::string& memory) override;
  parameter_map measured_settings() const override { return own_->measured_settings(); }
  std::string calibration_report() const override { return own_->calibration_report(); }
  std::map<std::string, std::string> measured_reports() const override {
    return own_->measured_reports();
  }
  bool probe(const probe_settings&, std::ostream&) override {
    throw usage_error("probes need ranks = 1: they look at whole layers");
  }
  std::vector<scored_answer> score(const pass_record& pass) override { return own_->score(pass); }
  std::map<std::string, std::string> samples(const std::vector<scored_answer>& scores,
                                             const std::string& run_id, const std::string& point_id,
                                             const std::string& date) const override {
    return own_->samples(scores, run_id, point_id, date);
  }

 private:
  ranked_executor& all_;
  std::size_t number_;
  std::unique_ptr<prepared_point> own_;
  std::vector<phase_seconds> phases_;  // of ranks 1, 2, ... in the last pass, if somebody listened
};

// The phases of one rank, as they travel to rank 0, and those of ranks 1, 2, ... of what all told.
std::string told_phases(const phase_clock& clock) {
  json all = json::object();
  for (const phase_total& t : clock.totals()) all[name_of(t.phase)] = t.own_seconds;
  return all.dump();
}
std::vector<phase_seconds> phases_of_others(const std::vector<std::string>& told) {
  std::vector<phase_seconds> others;
  for (std::size_t rank = 1; rank < told.size(); ++rank) {
    phase_seconds& of = others.emplace_back();
    const json phases = json::parse(told[rank]);
    for (const auto& [name, seconds] : phases.items()) {
      of[phase_named(name.c_str())] = seconds.get<double>();
    }
  }
  return others;
}

class ranked_executor final : public executor {
 public:
  ranked_executor(executor& with, const std::optional<rank_place>& place) : with_(with) {
    launched_ = place.has_value();
    if (!place) return;
    ranks_ = place->ranks;
    team_ = std::make_unique<rank_team>(*place, own_facts(with, place));
  }
  method_catalogue methods() const override { return with_.methods(); }
  void identify(experiment_point& point) override { with_.identify(point); }
  std::string environment() const override { return with_.environment(); }
  std::string source_hash() const override { return with_.source_hash(); }
  std::string program_hash() const override { return with_.program_hash(); }

  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    // Without layers nothing is computed that several could share.
    const auto ranks = runs_dry(group.front().run) ? 1 : static_cast<int>(group.front().run.ranks);
    if (ranks == 1) {
      if (!launched_) team_.reset();
      return with_.prepare(group);
    }
    if (!launched_) check_gpus_for(group.front().run);
    if (!works() || team_->group().size() != ranks) start_team(ranks);
    device_ = group.front().run.device;
    group_ids_.clear();
    for (const experiment_point& p : group) group_ids_.push_back(p.id);
    prepared_group own;
    const std::vector<std::string> lacks = prepare_all([&] {
      own = prepared_by(with_, group);
      return own.told();
    });
    if (!own.problem.empty()) throw environment_error(own.problem);
    for (std::size_t i = 0; i < own.points.size(); ++i) {
      preparation& p = own.points[i];
      if (!p.point) continue;
      if (lacks[i].empty()) {
        p.point = std::make_unique<ranked_point>(*this, i, std::move(p.point));
      } else {
        p = {nullptr, row_verdict::failed, lacks[i]};
      }
    }
    return std::move(own.points);
  }

  // One pass of point `number`, by new ranks if the last ones are of no use. `phases`: of the others, if
  // somebody listens.
  pass_record pass(std::size_t number, prepared_point& own, std::vector<phase_seconds>& phases) {
    if (!works()) start_again();
    const bool heard = current_listener() != nullptr;
    use_meter meter(meter_of(device_));
    return team_->together({{"do", "pass"}, {"point", number}, {"listens", heard}}, [&] {
      pass_record pass = own.pass();
      put_use_of_ranks(pass, team_->group().gather(told_use(meter.finish(), pass.use)));
      phases.clear();
      if (heard) phases = phases_of_others(team_->group().gather(std::string()));
      return pass;
    });
  }

  // What a point knows by now, so that all ranks know it; new ones are told when they start.
  void remember(std::size_t number, const std::string& memory) {
    if (works()) tell(number, memory);
  }
  void enter(std::size_t number, const prepared_point* own) { alive_[number] = own; }
  void forget(std::size_t number) { alive_.erase(number); }

 private:
  // All ranks prepare the group, rank 0 by `own`, which returns prepared_group::told(). What the
  // followers lack, by point.
  template <class Own>
  std::vector<std::string> prepare_all(const Own& own) {
    return team_->together({{"do", "prepare"}, {"points", group_ids_}}, [&] {
      const waiting_for_loading load(team_->group());
      return lacks_of(team_->group().gather(own()));
    });
  }

  std::vector<std::string> lacks_of(const std::vector<std::string>& told) const {
    std::vector<std::string> lacks(group_ids_.size());
    const json models = json::parse(told[0]).at("models");
    for (std::size_t rank = 1; rank < told.size(); ++rank) {
      const json of_rank = json::parse(told[rank]);
      const std::string problem = of_rank.at("problem");
      for (std::size_t i = 0; i < lacks.size(); ++i) {
        const std::string lack =
            problem.empty() ? of_rank.at("points").at(i).get<std::string>() : problem;
        if (!lack.empty()) lacks[i] = fmt::format("rank {}: {}", rank, lack);
        if (lack.empty() && i < models.size() && of_rank.at("models").at(i) != models.at(i) &&
            models.at(i) != "") {
          lacks[i] = fmt::format("rank {} read another checkpoint than rank 0", rank);
        }
      }
    }
    return lacks;
  }

  void tell(std::size_t number, const std::string& memory) {
    team_->together({{"do", "remember"}, {"point", number}, {"memory", memory}}, [] { return 0; });
  }

  bool works() const { return team_ && team_->works(); }

  void start_team(int ranks) {
    if (launched_) throw environment_error(team_->lost());
    ranks_ = ranks;
    team_.reset();  // never two at once
    team_ = std::make_unique<rank_team>(ranks, own_facts(with_, std::nullopt));
  }

  void start_again() {
    start_team(ranks_);
    const json ready = {{"problem", ""}, {"points", json::array()}, {"models", json::array()}};
    prepare_all([&] { return ready.dump(); });
    for (const auto& [number, own] : alive_) {
      if (const std::string memory = own->memory(); !memory.empty()) tell(number, memory);
    }
  }

  executor& with_;
  std::unique_ptr<rank_team> team_;
  bool launched_ = false;  // by somebody else
  int ranks_ = 1;          // of the team
  std::string device_;     // of the group
  std::vector<std::string> group_ids_;
  std::map<std::size_t, const prepared_point*> alive_;  // by their number in the group
};

ranked_point::ranked_point(ranked_executor& all, std::size_t number,
                           std::unique_ptr<prepared_point> own)
    : all_(all), number_(number), own_(std::move(own)) {
  all_.enter(number_, own_.get());
}
ranked_point::~ranked_point() {
  all_.forget(number_);
}
pass_record ranked_point::pass() {
  return all_.pass(number_, *own_, phases_);
}
void ranked_point::remember(const std::string& memory) {
  own_->remember(memory);
  all_.remember(number_, memory);
}

// ---- a follower ----

struct leader_address {
  int rank = 0;
  std::string file;
};

std::optional<leader_address> leader() {
  const char* given = std::getenv(follows_whom);
  if (given == nullptr) return std::nullopt;
  const std::string text = given;
  const std::size_t blank = text.find(' ');
  leader_address all;
  all.rank = std::atoi(text.c_str());
  if (blank == std::string::npos || all.rank < 1 || all.rank >= most_ranks) {
    throw usage_error(std::string(follows_whom) + " is '" + text +
                      "' but is set for the ranks of a run only: unset it");
  }
  all.file = text.substr(blank + 1);
  return all;
}

std::vector<experiment_point> points_of(const std::vector<experiment_point>& plan,
                                        const json& ids) {
  std::vector<experiment_point> group;
  for (const std::string id : ids) {
    const auto at = std::ranges::find(plan, id, &experiment_point::id);
    if (at == plan.end()) {
      throw environment_error("its plan has no point " + id +
                              ": it was started with other words, or with other files");
    }
    group.push_back(*at);
  }
  return group;
}

class follower {
 public:
  follower(const std::vector<experiment_point>& plan, executor& with, rank_group& group)
      : plan_(plan), with_(with), group_(group) {}

  // False: the end.
  bool obey(const json& command) {
    const std::string what = command.at("do");
    if (what == "end") return false;
    if (what == "prepare") {
      prepare(command.at("points"));
      return true;
    }
    preparation& of = done_.points.at(command.at("point").get<std::size_t>());
    if (what == "remember") {
      of.point->remember(command.at("memory"));
    } else {
      pass(*of.point, command.at("listens"));
    }
    return true;
  }

 private:
  // Layers are launched one by one while somebody listens to their phases, so that all ranks have to listen
  // if rank 0 does.
  void pass(prepared_point& point, bool listens) {
    phase_clock clock;
    use_meter meter(meter_of(group_points_.front().run.device));
    machine_use own;
    {
      const listening as_rank_0(listens ? &clock : nullptr);
      own = point.pass().use;
    }
    group_.gather(told_use(meter.finish(), own));
    if (listens) group_.gather(told_phases(clock));
  }

  void prepare(const json& ids) {
    done_ = {};
    group_points_ = points_of(plan_, ids);
    const waiting_for_loading load(group_);
    done_ = prepared_by(with_, group_points_);
    group_.gather(done_.told());
  }

  const std::vector<experiment_point>& plan_;
  executor& with_;
  rank_group& group_;
  std::vector<experiment_point> group_points_;
  prepared_group done_;
};

// A terminal sends its signals to all ranks: rank 0 ends the run, and its end is the others'.
void leave_signals_to_rank_0() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace

bool follows() {
  if (!leader()) return false;
  leave_signals_to_rank_0();
  return true;
}

namespace {

// Obeys until the end, and returns the exit status.
int obey_rank_0(rank_group& group, const std::vector<experiment_point>& points, executor& with,
                const std::string& facts) {
  const ranks_in_force force(&group);
  try {
    group.gather(facts);
    follower one(points, with, group);
    for (bool more = true; more;) {
      const double patience = group.patience();
      group.wait_for(for_ever);  // rank 0 scores and writes meanwhile
      const json command = json::parse(group.from_first(std::string()));
      group.wait_for(patience);
      more = one.obey(command);
    }
  } catch (const rank_failure&) {  // rank 0 has heard of it
    return static_cast<int>(exit_code::environment);
  } catch (const std::exception& problem) {
    group.fail(fmt::format("rank {}: {}", group.rank(), said_of(problem)));
    return static_cast<int>(exit_code::run_failed);
  }
  return 0;
}

}  // namespace

void follow(const std::vector<experiment_point>& points, executor& with) {
  const leader_address address = leader().value();
  rank_group group(rank_memory::open(address.file), address.rank);
  // What was said so far rank 0 has said too.
  if (::ftruncate(STDERR_FILENO, 0) == 0) ::lseek(STDERR_FILENO, 0, SEEK_SET);
  std::exit(obey_rank_0(group, points, with, own_facts(with, std::nullopt)));
}

void follow(const std::vector<experiment_point>& points, executor& with, const rank_place& place) {
  leave_signals_to_rank_0();
  const std::string facts = own_facts(with, place);
  const std::shared_ptr<rank_group> group = join_ranks(place);
  const fewer_threads fewer(threads_of(place));
  std::exit(obey_rank_0(*group, points, with, facts));
}

std::string rank_facts(const std::string& program, const std::string& processor) {
  return program + "\n" + processor;
}

std::string unlike_rank(const std::vector<std::string>& told) {
  const auto program_in = [](const std::string& facts) {
    return facts.substr(0, facts.find('\n'));
  };
  const auto processor_in = [](const std::string& facts) {
    const std::size_t end = facts.find('\n');
    return end == std::string::npos ? std::string() : facts.substr(end + 1);
  };
  for (std::size_t rank = 1; rank < told.size(); ++rank) {
    if (program_in(told[rank]) != program_in(told[0])) {
      return fmt::format("rank {} runs another program than rank 0", rank);
    }
  }
  for (std::size_t rank = 1; rank < told.size(); ++rank) {
    if (told[rank] == told[0]) continue;
    return fmt::format(
        "rank {} has another processor than rank 0 ({}, not {}): what ranks repeat has equal bits "
        "on equal ones only",
        rank, processor_in(told[rank]), processor_in(told[0]));
  }
  return "";
}

std::optional<rank_place> place_for(const std::vector<experiment_point>& points) {
  std::set<std::int64_t> asked;
  for (const experiment_point& p : points) {
    if (p.run.ranks > 1 && !runs_dry(p.run)) asked.insert(p.run.ranks);
  }
  if (asked.empty()) return std::nullopt;
  const std::optional<rank_place> place = launched_place();
  if (!place || asked.contains(place->ranks)) return place;
  throw usage_error(fmt::format("this run asks for {} ranks, and {} started {} ({}): {}",
                                fmt::join(asked, ", "), place->launcher, place->ranks,
                                place->ranks_variable,
                                command_for(*place, static_cast<int>(*asked.rbegin()))));
}

void take_own_gpu(const rank_place& place, const std::vector<experiment_point>& points) {
  const bool needed = std::ranges::any_of(points, [](const experiment_point& p) {
    return p.run.ranks > 1 && !runs_dry(p.run) && find_device(p.run.device).is_card;
  });
  const std::size_t visible = needed ? cuda::query().devices.size() : 0;
  if (visible < 2) return;  // what is missing then, or shared, is said where ranks join
  if (static_cast<std::size_t>(place.local_rank) >= visible) {
    throw environment_error(
        fmt::format("rank {} has no GPU of its own: {} are visible, and {} started {} "
                    "ranks",
                    place.rank, visible, place.launcher, place.ranks));
  }
  const std::string own = gpus_of_rank(place.local_rank);
  tell("rank {}: of {} GPUs it takes CUDA_VISIBLE_DEVICES={} alone, and starts again\n", place.rank,
       visible, own);
  ::setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
  std::vector<std::string> command = own_words();
  command.front() = "/proc/self/exe";
  become_process(command);
}

std::unique_ptr<executor> with_ranks(executor& with, const std::optional<rank_place>& place) {
  return std::make_unique<ranked_executor>(with, place);
}

}  // namespace unmask
