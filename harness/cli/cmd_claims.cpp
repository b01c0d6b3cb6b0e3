// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>

#include "harness/experiment/campaign.h"
#include "harness/analysis/layout.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/analysis/store.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

using texts = std::vector<std::string>;

template <class Item, class Paper>
void keep_papers(std::vector<Item>& items, const texts& papers, const Paper& paper_of) {
  if (papers.empty()) return;
  texts known;
  for (const Item& item : items) known.push_back(paper_of(item));
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const std::string& paper : papers) {
    if (std::find(known.begin(), known.end(), paper) == known.end()) {
      throw usage_error(unknown_name("paper", paper, known));
    }
  }
  std::erase_if(items, [&](const Item& item) {
    return std::find(papers.begin(), papers.end(), paper_of(item)) == papers.end();
  });
}

std::vector<paper_claim> claims_of(const fs::path& root, const texts& papers) {
  std::vector<paper_claim> claims;
  if (fs::is_directory(root / "claims")) claims = read_claims(root / "claims");
  keep_papers(claims, papers, [](const paper_claim& c) { return c.paper; });
  return claims;
}

// The artifacts that these claims are about.
std::vector<campaign_item> items_for(const std::vector<paper_claim>& claims, const fs::path& root,
                                     const std::string& scale, const machine_view& machine) {
  std::set<fs::path> wanted;
  for (const paper_claim& c : claims) {
    if (std::find(c.scales.begin(), c.scales.end(), scale) != c.scales.end()) {
      wanted.insert(fs::weakly_canonical(c.artifact));
    }
  }
  std::vector<campaign_item> items = items_at(find_artifacts(root, machine), scale);
  std::erase_if(items, [&](const campaign_item& item) {
    return !wanted.contains(fs::weakly_canonical(item.artifact.file));
  });
  return items;
}

void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw environment_error("cannot write " + file.string());
}

void list_claims(const std::vector<paper_claim>& claims) {
  for (const paper_claim& c : claims) {
    std::string scales;
    for (const std::string& s : c.scales) scales += (scales.empty() ? "" : ", ") + s;
    fmt::print("{:<12} {:<38} {} ({}; {}; {})\n", c.paper, c.id, c.statement, c.source,
               name_of(c.kind), scales);
  }
}

// The paper's tables of everything that has rows; artifacts without a layout have none.
void write_tables(const std::vector<campaign_item>& items, const fs::path& directory) {
  for (const campaign_item& item : items) {
    const artifact_header& h = item.artifact.header;
    const fs::path place = directory / h.paper / h.id / item.scale;
    if (!item.artifact.problem.empty() || !fs::is_directory(place)) continue;
    try {
      const paper_layout layout = read_layout(item.artifact.file, item.scale);
      if (layout.columns.empty()) continue;
      const laid_out_table table = lay_out(layout, read_rows(place).rows);
      const std::string stem = (directory / "tables" / (h.paper + "_" + h.id)).string();
      write_text(stem + ".md", render_layout(table, layout_format::md));
      write_text(stem + ".csv", render_layout(table, layout_format::csv));
      write_text(stem + ".tex", render_layout(table, layout_format::latex));
    } catch (const error& problem) {
      fmt::print(stderr, "{} {}: no table: {}\n", h.paper, h.id, problem.what());
    }
  }
}

}  // namespace

int command_claims(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("results", po::value<std::string>()->default_value("runs"),
                        "where rows lie, as RESULTS/PAPER/ARTIFACT/SCALE")(
      "scale", po::value<std::string>()->default_value("tiny"), "tiny, shapes or full")(
      "format,o", po::value<std::string>()->default_value("md"), "md or json")(
      "experiments-dir", po::value<std::string>()->default_value("experiments"),
      "where claims and artifacts lie");
  po::variables_map values;
  const char* epilogue =
      "\nlist: the claims; report: check them against rows that are there; run: measure what is "
      "missing first.\nverdicts: REPRODUCED; PARTLY, some points hold; AMBIGUOUS, the sample is "
      "too "
      "small to tell;\nNOT REPRODUCED; NOT RUN, with what it needs.\nexit code 4 when a claim is "
      "NOT REPRODUCED or PARTLY\n";
  if (!parse_command("claims list|run|report [PAPER...] [options]", epilogue, options,
                     {"what", "papers..."}, arguments, values)) {
    return 0;
  }
  const texts known = {"list", "run", "report"};
  if (!values.count("what")) throw usage_error("claims needs one of list, run and report");
  const std::string what = values["what"].as<texts>().front();
  if (std::find(known.begin(), known.end(), what) == known.end()) {
    throw usage_error(unknown_name("claims command", what, known));
  }
  const std::string format = values["format"].as<std::string>();
  if (format != "md" && format != "json") {
    throw usage_error(unknown_name("claims format", format, {"md", "json"}));
  }
  const fs::path root = values["experiments-dir"].as<std::string>();
  const std::string scale = values["scale"].as<std::string>();
  const fs::path results = values["results"].as<std::string>();
  const std::vector<paper_claim> claims =
      claims_of(root, values.count("papers") ? values["papers"].as<texts>() : texts{});
  if (what == "list") {
    list_claims(claims);
    return 0;
  }
  const machine_view machine = this_machine();
  if (what == "run") {
    run_campaign(items_for(claims, root, scale, machine), results, run_artifact, std::cerr);
  }
  const std::vector<checked_claim> checked = check_claims(claims, results, scale, machine);
  fmt::print("{}", format == "json" ? claims_json(checked) : claims_markdown(checked));
  return exit_status_of(checked);
}

int command_campaign(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("output-dir,o", po::value<std::string>()->default_value("runs"),
                        "where rows, tables and claims go")(
      "scale", po::value<std::string>()->default_value("tiny"), "tiny, shapes or full")(
      "only", po::value<texts>()->composing(), "PAPER/ARTIFACT: only this one (repeatable)")(
      "dry-run", "list what would run and what is missing")(
      "experiments-dir", po::value<std::string>()->default_value("experiments"),
      "where claims and artifacts lie");
  po::variables_map values;
  const char* epilogue =
      "\nEvery artifact in turn, then tables and claims. Called again it continues where it "
      "stopped; "
      "an\nartifact that fails does not stop the others. exit code 1 when one failed, 4 when a "
      "claim "
      "is\nNOT REPRODUCED or PARTLY\n";
  if (!parse_command("campaign [PAPER...] [options]", epilogue, options, {"papers..."}, arguments,
                     values)) {
    return 0;
  }
  const texts papers = values.count("papers") ? values["papers"].as<texts>() : texts{};
  const fs::path root = values["experiments-dir"].as<std::string>();
  const fs::path directory = values["output-dir"].as<std::string>();
  const std::string scale = values["scale"].as<std::string>();
  const machine_view machine = this_machine();
  std::vector<campaign_item> items = items_at(find_artifacts(root, machine), scale);
  keep_papers(items, papers, [](const campaign_item& i) { return i.artifact.header.paper; });
  if (values.count("only")) {
    const texts only = values["only"].as<texts>();
    texts names;
    for (const campaign_item& i : items) {
      names.push_back(i.artifact.header.paper + "/" + i.artifact.header.id);
    }
    for (const std::string& name : only) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        throw usage_error(unknown_name("artifact", name, names));
      }
    }
    std::erase_if(items, [&](const campaign_item& i) {
      return std::find(only.begin(), only.end(),
                       i.artifact.header.paper + "/" + i.artifact.header.id) == only.end();
    });
  }
  if (items.empty()) throw usage_error("there are no artifacts in " + root.string());
  if (values.count("dry-run")) {
    std::vector<artifact_entry> entries;
    for (const campaign_item& i : items) entries.push_back(i.artifact);
    fmt::print("{}", artifact_listing(entries));
    return 0;
  }
  const std::vector<campaign_outcome> outcomes =
      run_campaign(items, directory, run_artifact, std::cerr);
  const std::string summary = campaign_markdown(outcomes);
  write_text(directory / "campaign.md", summary);
  write_tables(items, directory);
  fmt::print("{}\n", summary);
  std::vector<paper_claim> claims = claims_of(root, {});
  if (!papers.empty()) {
    std::erase_if(claims, [&](const paper_claim& c) {
      return std::find(papers.begin(), papers.end(), c.paper) == papers.end();
    });
  }
  const std::vector<checked_claim> checked = check_claims(claims, directory, scale, machine);
  write_text(directory / "claims.md", claims_markdown(checked));
  write_text(directory / "claims.json", claims_json(checked));
  fmt::print("{}", claims_markdown(checked));
  const bool failed = std::any_of(outcomes.begin(), outcomes.end(), [](const auto& o) {
    return o.status == campaign_status::failed;
  });
  return failed ? static_cast<int>(exit_code::run_failed) : exit_status_of(checked);
}

}  // namespace unmask
