// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/goldens/replay/likelihood.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "harness/base/compressed.h"
#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/decode/likelihood.h"
#include "harness/model/tokenizer.h"
#include "tests/goldens/replay/replay.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t largest_file = std::size_t{1} << 28;
constexpr double tolerance = 1e-5;
constexpr std::int32_t most_rows = 4096;

const json_value::array& list_of(const json_value& value) {
  const json_value::array* list = value.items();
  if (!list) throw usage_error("something that should be a list is none");
  return *list;
}

std::int64_t integer_of(const json_value& value) {
  const auto number = value.integer();
  if (!number || *number < INT32_MIN || *number > INT32_MAX) {
    throw usage_error("something that should be a whole number of 32 bits is none");
  }
  return *number;
}

std::vector<std::int32_t> ids_of(const json_value& list) {
  std::vector<std::int32_t> ids;
  for (const json_value& id : list_of(list)) {
    ids.push_back(static_cast<std::int32_t>(integer_of(id)));
  }
  return ids;
}

std::vector<double> numbers_of(const json_value& list) {
  std::vector<double> numbers;
  for (const json_value& n : list_of(list)) {
    const auto* real = std::get_if<double>(&n.data);
    numbers.push_back(real ? *real : static_cast<double>(integer_of(n)));
  }
  return numbers;
}

// A model or tokenizer that is not in the folders: the case is neither passed nor failed.
struct lacking_data : error {
  explicit lacking_data(const std::string& what) : error(exit_code::environment, what) {}
};

bool near(double got, double want) {
  return std::abs(got - want) <= tolerance * std::max(std::abs(want), 1e-3);
}

std::string off(const std::string& what, double got, double want) {
  return what + " is " + std::to_string(got) + ", theirs " + std::to_string(want);
}

class replayer {
 public:
  replayer(std::vector<fs::path> roots, const backend& backend)
      : roots_(std::move(roots)), backend_(&backend) {}

  // The reason why the case failed, empty: passed. Environment error without its model.
  std::string run(const json_reader& c, likelihood_rule rule) {
    const bool dream = rule == likelihood_rule::dream;
    const transformer& model = model_of(c.text("model"));
    likelihood_settings s;
    s.rule = rule;
    s.batch_size = static_cast<std::int32_t>(c.integer("batch_size", 1, 1024));
    s.guidance = dream ? 0 : c.number_or("cfg_scale", 0, 100, 0);
    const auto context = ids_of(c.at(dream ? "prefix_ids" : "prompt_ids"));
    const auto continuation = ids_of(c.at(dream ? "target_ids" : "answer_ids"));
    const auto length = static_cast<std::int32_t>(continuation.size());
    double sum = 0;
    std::int32_t rounds = 0, forwards = 0;
    for (const json_value& entry : list_of(c.at("iterations"))) {
      const json_reader iteration(entry, c.file());
      const auto& rows =
          list_of(iteration.at(dream ? "masked_target_positions" : "masked_answer_positions"));
      likelihood_round masks;
      if (!dream) {
        const auto counts = llada_counts(
            static_cast<std::int32_t>(iteration.integer("k", 1, length)), length, s.batch_size);
        if (counts != ids_of(iteration.at("masked_count"))) return "other counts of masks";
      }
      for (std::size_t r = 0; r < rows.size(); ++r) {
        masks.push_back({ids_of(rows[r]), 1});
        masks.back().share = dream ? numbers_of(iteration.at("p_mask")).at(r)
                                   : static_cast<double>(masks.back().positions.size()) / length;
      }
      const double loss = round_loss(model, context, continuation, masks, s, forwards);
      const double theirs = iteration.number("loss", -1e30, 1e30);
      if (!near(loss, theirs)) return off("loss of round " + std::to_string(rounds), loss, theirs);
      sum += loss;
      ++rounds;
    }
    const double result = -sum / rounds;
    for (const char* key : {"log_likelihood_float32", "log_likelihood_float64_recomputed"}) {
      const double theirs = c.number(key, -1e30, 1e30);
      if (!near(result, theirs)) return off("the result", result, theirs);
    }
    return "";
  }

  std::string run_pair(const json_reader& c, const std::string& bos, const std::string& eos) {
    if (!tokens_) tokens_ = find_tokenizer();
    const encoded_pair pair = encode_pair(*tokens_, c.text("context"), c.text("continuation"), bos,
                                          tokens_->token_id(eos));
    if (pair.context != ids_of(c.at("prefix_ids"))) return "other tokens of the context";
    if (pair.continuation != ids_of(c.at("target_ids"))) return "other tokens of the continuation";
    return "";
  }

 private:
  const transformer& model_of(const std::string& name) {
    auto& model = models_[name];
    if (model) return *model;
    for (const fs::path& root : roots_) {
      const fs::path folder = root / "models" / name;
      if (!fs::is_regular_file(folder / "config.json")) continue;
      const model_config config = read_model_config(folder);
      model = std::make_unique<transformer>(config, load_weights(config, folder, true, text_alone),
                                            *backend_, weight_format::f32, most_rows);
      return *model;
    }
    throw lacking_data("there is no models/" + name + " in the folders of golden data");
  }

  tokenizer find_tokenizer() const {
    for (const fs::path& root : roots_) {
      for (const char* name :
           {"tokenizer.json", "tokenizer.json.gz", "tokenizer.reconstructed.json.gz"}) {
        const fs::path folder = root / "tokenizers" / "dream";
        if (!fs::is_regular_file(folder / name)) continue;
        return tokenizer::parse(read_plain_or_gzip(folder / name, largest_file),
                                read_plain_or_gzip(folder / "tokenizer_config.json", largest_file),
                                folder.string());
      }
    }
    throw lacking_data("there is no tokenizers/dream in the folders of golden data");
  }

  std::vector<fs::path> roots_;
  const backend* backend_;
  std::map<std::string, std::unique_ptr<transformer>> models_;
  std::optional<tokenizer> tokens_;
};

}  // namespace

golden_results replay_likelihood(const fs::path& directory, std::vector<fs::path> data,
                                 const backend& backend) {
  for (const char* root : {"data", "../data", "..", "../goldens"}) data.push_back(directory / root);
  replayer all(data, backend);
  golden_results replay;
  for (const char* name : {"llada.json", "dream.json", "dream_encode_pair.json"}) {
    fs::path path = directory / "likelihood" / name;
    if (!fs::is_regular_file(path)) path += ".gz";
    if (!fs::is_regular_file(path)) continue;
    const json_value value = parse_json(read_plain_or_gzip(path, largest_file), path.string());
    const json_reader file(value, path.string());
    golden_result result{path.filename().string(), 0, 0, {}};
    std::size_t number = 0;
    for (const json_value& entry : list_of(file.at("cases"))) {
      const json_reader c(entry, path.string());
      const std::string id = c.text_or("id", "case " + std::to_string(number++));
      try {
        const std::string reason =
            name == std::string("dream_encode_pair.json")
                ? all.run_pair(c, file.text("bos"), file.text("eos"))
                : all.run(c, name == std::string("llada.json") ? likelihood_rule::llada
                                                               : likelihood_rule::dream);
        result.add(reason.empty() ? "" : id + ": " + reason);
      } catch (const lacking_data& problem) {
        replay.not_run.push_back(id + ": " + problem.what());
      } catch (const std::exception& problem) {
        result.add(id + ": not a case that can be replayed: " + problem.what());
      }
    }
    replay.files.push_back(std::move(result));
  }
  return replay;
}

}  // namespace unmask
