// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/benchmarks/replay.h"

#include <algorithm>
#include <memory>

#include "harness/base/compressed.h"
#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json_lines.h"
#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/declare.h"
#include "harness/workload/benchmarks/python_random.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t largest_file = std::size_t{1} << 28;

// What a record says of the case, in our words.
struct golden_case {
  const benchmark* of = nullptr;
  std::string group, item;
  benchmark_options options;
  std::string where;
};

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  if (!text.starts_with(before) || !text.ends_with(after)) return text;
  return text.substr(before.size(), text.size() - before.size() - after.size());
}

std::string item_of(const json_reader& record) {
  const json_value& id = record.at("item_id");
  if (id.text() != nullptr) return *id.text();
  if (id.integer() != nullptr) return std::to_string(*id.integer());
  return std::to_string(record.child("item_id").integer("index", 0, 1 << 30));
}

// lm-eval's task, without the remark in brackets.
void set_lm_eval(golden_case& c, const json_reader& record) {
  const std::string task = record.text("task").substr(0, record.text("task").find(" ("));
  const auto groups_of = [&](const char* name, const std::string& group) {
    c.of = &find_benchmark(name, "LM");
    c.group = group;
  };
  if (task.starts_with("minerva_math_")) {
    groups_of("math", task.substr(13));
  } else if (task.starts_with("mmlu_") && task.ends_with("_generative")) {
    groups_of("mmlu_generative", between(task, "mmlu_", "_generative"));
  } else if (task.starts_with("mmlu_")) {
    groups_of("mmlu", task.substr(5));
  } else {
    c.of = &find_benchmark(task == "arc_challenge" ? "arc_c" : task, "LM");
  }
  const bool chat = record.given("chat_template");
  c.options.form = !chat                                           ? "raw"
                   : record.flag_or("fewshot_as_multiturn", false) ? "chat"
                                                                   : "one-turn";
  c.options.world = record.integer_or("world_size", 1, 1 << 20, 1);
  c.options.rank = record.integer_or("rank", 0, 1 << 20, 0);
}

void set_opencompass(golden_case& c, const json_reader& record) {
  const std::string version = record.text("version"), config = record.text("config");
  const std::string harness = version.find("FOCUS") != std::string::npos        ? "OC-F"
                              : version.find("LLaDA fork") != std::string::npos ? "OC-L"
                                                                                : "OC-S";
  if (config.starts_with("longbench_")) {
    c.of = &find_benchmark("longbench", harness);
    c.group = between(record.text("task"), "longbench/", "");
    c.item = c.group + ":" + c.item;
  } else {
    for (const benchmark& b : benchmarks()) {
      if (b.harness == harness && b.config == config && b.name != "math500") c.of = &b;
    }
    if (c.of == nullptr) c.of = &find_benchmark("math500", harness + "/" + config);
    if (c.of->name.starts_with("mmlu")) c.group = c.item.substr(0, c.item.find(':'));
  }
  c.options.form = record.given("messages") ? "chat" : "raw";
}

golden_case case_of(const json_reader& record) {
  golden_case c;
  c.item = item_of(record);
  if (record.text("harness") == "lm-eval") {
    set_lm_eval(c, record);
  } else {
    set_opencompass(c, record);
  }
  c.options.shots = static_cast<int>(record.integer("shots", 0, 1000));
  c.where = record.text("task") + " item " + c.item;
  return c;
}

// First place where two texts differ, for a reader.
std::string difference(const std::string& got, const std::string& want) {
  const auto [a, b] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  const auto at = static_cast<std::size_t>(a - got.begin());
  const std::size_t from = at < 20 ? 0 : at - 20;
  return "at byte " + std::to_string(at) + " ours reads " + py::in_ticks(got.substr(from, 60)) +
         ", theirs " + py::in_ticks(want.substr(from, 60));
}

const std::vector<std::pair<std::string, chat_format>> formats = {{"llada", chat_format::llada},
                                                                  {"dream", chat_format::qwen25},
                                                                  {"sdar", chat_format::qwen3},
                                                                  {"llada2", chat_format::ling}};

std::string rendered_with(const std::string& name, const std::vector<chat_message>& messages) {
  for (const auto& [known, format] : formats) {
    if (known == name) return apply_chat_template(format, messages, true);
  }
  throw usage_error("the golden prompts name the chat template '" + name + "', which is unknown");
}

// Empty: equal to the byte.
std::string compare_texts(const json_reader& record, const task_item& item) {
  std::string text = item.prompt;
  if (const std::string chat = record.text_or("chat_template", ""); !chat.empty()) {
    text = rendered_with(chat, item.messages);
  }
  if (record.given("prompt") && record.text("prompt") != text) {
    return difference(text, record.text("prompt"));
  }
  if (record.given("prompt_sha256") && sha256_hex(text) != record.text("prompt_sha256")) {
    return "has another hash; " + difference(text.substr(0, record.text("prompt_head").size()),
                                             record.text("prompt_head"));
  }
  if (!record.given("messages")) return "";
  const json_value::array& messages = *record.at("messages").items();
  if (messages.size() != item.messages.size()) {
    return "has " + std::to_string(item.messages.size()) + " turns, theirs " +
           std::to_string(messages.size());
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const json_reader m(messages[i], record.file());
    if (m.text("role") != item.messages[i].role)
      return "turn " + std::to_string(i) + " is another's";
    if (m.text("content") != item.messages[i].content) {
      return "turn " + std::to_string(i) + " " +
             difference(item.messages[i].content, m.text("content"));
    }
  }
  for (const auto& [name, theirs] : *record.at("rendered").members()) {
    const std::string ours = rendered_with(name, item.messages);
    if (ours != *theirs.text())
      return "through " + name + "'s template " + difference(ours, *theirs.text());
  }
  return "";
}

std::string compare(const json_reader& record, const golden_case& c, const task_item& item) {
  if (std::string reason = compare_texts(record, item); !reason.empty()) return reason;
  if (record.given("continuations")) {
    if (declared::texts_of(record, "continuations") != item.continuations)
      return "continuations differ";
    if (record.integer("target", 0, 100) != item.right) return "another choice is right";
  }
  if (c.of->harness == "LM" && record.given("stop") &&
      declared::texts_of(record, "stop") != item.stop) {
    return "stop strings differ";
  }
  // LLaDA's own scripts set the length beside the config.
  if (record.given("max_out_len") && c.of->harness != "OC-L" &&
      record.integer("max_out_len", 1, 1 << 20) != item.gen_length) {
    return "length " + std::to_string(item.gen_length) + ", theirs " +
           std::to_string(record.integer("max_out_len", 1, 1 << 20));
  }
  return "";
}

class prompt_replayer {
 public:
  // `recorded`: the repository's own extracts, for items that an extract among `data` lacks.
  prompt_replayer(const std::vector<fs::path>& data, const fs::path& recorded, fs::path examples)
      : places_{official_files(data), official_files({recorded})}, examples_(std::move(examples)) {}

  // lm-eval's records of ARC and PIQA hold the whole item.
  void learn(const json_reader& record) {
    const std::string task = record.text("task");
    if (!record.given("continuations") || (task != "arc_challenge" && task != "piqa")) return;
    source_item item;
    item.id = item_of(record);
    item.fields["question"] = item.fields["goal"] =
        between(record.text("prompt"), "Question: ", "\nAnswer:");
    for (const std::string& choice : declared::texts_of(record, "continuations")) {
      item.fields[std::string(1, static_cast<char>('A' + item.choices.size()))] = choice.substr(1);
      item.choices.push_back(choice.substr(1));
      item.fields["sol" + std::to_string(item.choices.size())] = choice.substr(1);
    }
    item.right = static_cast<int>(record.integer("target", 0, 100));
    auto& known = told_[task == "piqa" ? "piqa" : "arc_c"];
    if (std::ranges::find(known, item.id, &source_item::id) == known.end()) known.push_back(item);
  }

  // The reason why the case failed, empty: passed. Throws environment errors for missing data.
  std::string run(const json_reader& record) {
    golden_case c = case_of(record);
    c.options.examples = examples_;
    std::string lack;
    for (const official_files& files : places_) {
      try {
        const benchmark_set& set = set_of(c, files);
        for (std::size_t i = 0; i < set.size(); ++i) {
          if (set.source(i).id == c.item && !is_blank(set.source(i))) {
            const std::string reason = compare(record, c, set.item(i));
            return reason.empty() ? "" : c.where + ": " + reason;
          }
        }
        lack = c.where + ": is not in the official file";
      } catch (const error& problem) {
        if (problem.code() != exit_code::environment) throw;
        if (lack.empty()) lack = problem.what();
      }
    }
    throw environment_error(lack);
  }

 private:
  // Extracts keep the numbers of rows by leaving those out that no case asks for.
  static bool is_blank(const source_item& item) {
    return std::ranges::all_of(item.fields, [](const auto& f) { return f.second.empty(); });
  }

  std::vector<source_item> items_of(const golden_case& c, const official_files& files) const {
    const benchmark& b = *c.of;
    if (b.name == "math" && files.folder("math", b.split).empty()) {
      // The goldens ask for items of MATH-500, whose file names them by the same paths.
      return find_benchmark("math500", "LM").read(files, "test", "");
    }
    const auto told = told_.find(b.name);
    if (told != told_.end()) {
      try {
        return b.read(files, b.split == "dev" ? "test" : b.split, "");
      } catch (const error&) {
        return told->second;
      }
    }
    return b.read(files, b.split, c.group);
  }

  const benchmark_set& set_of(const golden_case& c, const official_files& files) {
    const std::string key = std::to_string(&files - places_.data()) + c.of->name + "\n" +
                            c.of->harness + "\n" + c.of->config + "\n" + c.group + "\n" +
                            c.options.form + "\n" + std::to_string(c.options.shots) + "\n" +
                            std::to_string(c.options.rank) + "/" + std::to_string(c.options.world);
    auto& set = sets_[key];
    if (!set) set = std::make_unique<benchmark_set>(*c.of, items_of(c, files), files, c.options);
    return *set;
  }

  const std::vector<official_files> places_;
  fs::path examples_;
  std::map<std::string, std::vector<source_item>> told_;
  std::map<std::string, std::unique_ptr<benchmark_set>> sets_;
};

std::vector<std::vector<std::size_t>> rows_of(const json_reader& file, const char* key) {
  std::vector<std::vector<std::size_t>> all;
  for (const json_value& list : *file.at(key).items()) {
    all.emplace_back();
    for (const json_value& row : *list.items()) {
      all.back().push_back(static_cast<std::size_t>(*row.integer()));
    }
  }
  return all;
}

golden_result replay_draws(const fs::path& path) {
  golden_result result{path.filename().string(), 0, 0, 0, {}};
  const json_value value = parse_json(read_plain_or_gzip(path, largest_file), path.string());
  const json_reader file(value, path.string());
  const auto population = static_cast<std::size_t>(file.integer("population", 1, 1 << 30));
  for (const auto& [key, k] : {std::pair<const char*, std::size_t>{"k5", 5}, {"k4", 4}}) {
    python_random generator(1234);
    std::size_t document = 0;
    for (const std::vector<std::size_t>& rows : rows_of(file, key)) {
      const bool equal = generator.sample(population, k) == rows;
      result.add(equal ? ""
                       : std::string(key) + ", document " + std::to_string(document) +
                             ": other rows");
      ++document;
    }
  }
  if (const json_value* word = file.find("first_words_seed_1234")) {
    python_random generator(1234);
    const json_value::array one{*word};
    for (const json_value& expected : word->items() ? *word->items() : one) {
      result.add(generator.bits(32) == static_cast<std::uint32_t>(*expected.integer())
                     ? ""
                     : "the generator's first words differ");
    }
  }
  return result;
}

std::vector<fs::path> json_files(const fs::path& folder) {
  std::vector<fs::path> all = entries_of(folder);
  std::erase_if(all, [](const fs::path& f) {
    return f.filename().string().find(".jsonl") == std::string::npos;
  });
  return all;
}

}  // namespace

golden_results replay_prompts(const fs::path& directory, std::vector<fs::path> data,
                              const fs::path& examples) {
  golden_results replay;
  data.push_back(directory / "data");
  data.push_back(directory / ".." / "data");
  data.push_back(directory / "longbench_zh");
  prompt_replayer replayer(data, examples / "../../../tests/goldens/evals/data", examples);
  std::vector<std::pair<fs::path, std::string>> texts;
  for (const fs::path& path : json_files(directory / "prompts")) {
    texts.emplace_back(path, read_plain_or_gzip(path, largest_file));
    each_object({path.string(), texts.back().second},
                [&](const json_reader& record, std::size_t) { replayer.learn(record); });
  }
  for (const auto& [path, text] : texts) {
    golden_result result{path.filename().string(), 0, 0, 0, {}};
    each_object({path.string(), text}, [&](const json_reader& record, std::size_t) {
      try {
        result.add(replayer.run(record));
      } catch (const error& problem) {
        if (problem.code() != exit_code::environment) throw;
        replay.not_run.push_back(problem.what());
      }
    });
    replay.files.push_back(std::move(result));
  }
  for (const char* name : {"gsm8k_fewshot_draws.json", "gsm8k_fewshot_draws.json.gz"}) {
    const fs::path path = directory / "prompts" / name;
    if (fs::is_regular_file(path)) replay.files.push_back(replay_draws(path));
  }
  return replay;
}

}  // namespace unmask
