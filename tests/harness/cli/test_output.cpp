// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What reaches standard output and the terminal: texts of strangers, full disks, narrow windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/base/display.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/cli/terminal.h"
#include "harness/cli/watch.h"
#include "tests/harness/cli/program.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

test::outcome run(const std::string& arguments) {
  return test::run_program(UNMASK_SOURCE_DIR, arguments);
}

// Bytes that a terminal obeys: C0 but newline and tab, DEL, and C1 as UTF-8.
bool commands(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) return true;
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == 0xC2 && next >= 0x80 && next < 0xA0) return true;
  }
  return false;
}

TEST(output, control_characters_are_written_out) {
  EXPECT_EQ(shown("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(shown("\x1b]0;PWNED\x07\x1b[2J"), "\\u001b]0;PWNED\\u0007\\u001b[2J");
  EXPECT_EQ(shown("\x7f"), "\\u007f");
  EXPECT_EQ(shown("\xC2\x9B"
                  "31m"),
            "\\u009b31m");  // CSI as one C1 character
  EXPECT_EQ(shown("\xE2\x80\xAE"
                  "cod.exe"),
            "\\u202ecod.exe");  // right-to-left override
  EXPECT_EQ(shown("\xE2\x81\xA6x\xE2\x81\xA9"), "\\u2066x\\u2069");
  EXPECT_EQ(shown("\r"), "\\u000d");
  EXPECT_EQ(shown("gr\xC3\xBC\xC3\x9F \xE6\xBC\xA2 \xF0\x9F\x98\x80"),
            "gr\xC3\xBC\xC3\x9F \xE6\xBC\xA2 \xF0\x9F\x98\x80");
  EXPECT_EQ(shown("\xFFx\x9B\xC3"), "\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD");  // no UTF-8
  EXPECT_EQ(shown("\xC0\x9B"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // ESC, overlong, is none either
  EXPECT_EQ(shown_line("a\nb"), "a b");
}

TEST(output, a_width_counts_columns) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\xE6\xBC\xA2\xE5\xAD\x97"), 4);  // two ideographs
  EXPECT_EQ(display_width("e\xCC\x81"), 1);                 // e and a combining acute
  EXPECT_EQ(cut_to_width("abcdef", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(cut_to_width("abcd", 4), "abcd");
  EXPECT_EQ(cut_to_width("\xE6\xBC\xA2\xE5\xAD\x97", 3), "\xE6\xBC\xA2\xE2\x80\xA6");
}

// A copy of an embedded model in which tokens of the answer "5*7=35, ..." command the terminal.
fs::path hostile_model(const fs::path& folder) {
  const fs::path from = fs::path(UNMASK_SOURCE_DIR) / "experiments/models/tiny-llada";
  const fs::path to = folder / "hostile";
  fs::create_directories(to);
  for (const auto& file : fs::directory_iterator(from)) {
    fs::copy_file(file.path(), to / file.path().filename());
  }
  // In the byte alphabet of GPT-2 the bytes 0x1B and 0x07 are written U+011B and U+0107.
  const std::set<std::string> changed = {"##", "\xC4\xA0##", "\xC4\xA0####"};
  auto json = nlohmann::json::parse(test::text_of(to / "tokenizer.json"));
  auto& model = json["model"];
  for (const std::string& token : changed) {
    const auto id = model["vocab"].at(token).get<int>();
    model["vocab"].erase(token);
    model["vocab"]["\xC4\x9B]0;PWNED" + std::to_string(id) + "\xC4\x87\xC4\x9B[2J"] = id;
  }
  auto merges = nlohmann::json::array();
  for (const auto& merge : model["merges"]) {
    const std::string whole = merge.at(0).get<std::string>() + merge.at(1).get<std::string>();
    if (!changed.contains(whole)) merges.push_back(merge);
  }
  model["merges"] = merges;
  fs::remove(to / "tokenizer.json");
  write_file(to / "tokenizer.json", json.dump());
  return to;
}

TEST(output, no_token_of_a_checkpoint_commands_the_terminal) {
  const scratch_folder scratch;
  const fs::path model = hostile_model(scratch.path());
  const std::string arguments = "generate --model '" + model.string() +
                                "' --set params.threshold=0.9 'Compute 5 * 7 - 15 - 19 + 38.'";
  const test::outcome plain = run(arguments);
  EXPECT_EQ(plain.code, 0) << plain.text;
  EXPECT_NE(plain.text.find("\\u001b]0;PWNED"), std::string::npos) << plain.text;
  EXPECT_FALSE(commands(plain.text)) << plain.text;
  const test::outcome watched = run(arguments + " --watch");
  EXPECT_FALSE(commands(watched.text)) << watched.text;
  const test::outcome drawn =
      test::run_on_terminal(UNMASK_SOURCE_DIR, arguments + " --watch --pause 0", 80, 24);
  EXPECT_EQ(drawn.code, 0);
  EXPECT_EQ(drawn.text.find("\x1b]0;"), std::string::npos);
  EXPECT_EQ(drawn.text.find("\x07"), std::string::npos);
  EXPECT_EQ(drawn.text.find("\x1b[2J"), std::string::npos);
}

TEST(output, no_label_of_a_row_commands_the_terminal) {
  const scratch_folder scratch;
  std::string rows =
      test::text_of(fs::path(UNMASK_SOURCE_DIR) / "results/epyc-2core/quickstart.jsonl");
  rows.resize(rows.find('\n') + 1);
  const std::string label = "\"label\":\"";
  const std::size_t at = rows.find(label) + label.size();
  rows.replace(at, rows.find('"', at) - at,
               "=cmd\\u001b]52;c;cm0=\\u0007|<img src=x>\xC2\x9B"
               "2J\xE2\x80\xAE");
  const fs::path file = scratch.path() / "rows.jsonl";
  write_file(file, rows);
  for (const char* format : {"md", "csv", "latex", "json"}) {
    const test::outcome o = run("table '" + file.string() + "' --format " + format);
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_FALSE(commands(o.text)) << format << o.text;
    EXPECT_EQ(o.text.find("\xE2\x80\xAE"), std::string::npos) << format;
    EXPECT_NE(o.text.find("cm0="), std::string::npos) << format << o.text;
  }
  const test::outcome csv = run("table '" + file.string() + "' --format csv");
  EXPECT_NE(csv.text.find("'=cmd"), std::string::npos) << csv.text;
  const test::outcome md = run("table '" + file.string() + "'");
  EXPECT_NE(md.text.find("\\|\\<img"), std::string::npos) << md.text;
  const test::outcome terminal =
      test::run_on_terminal(UNMASK_SOURCE_DIR, "table '" + file.string() + "'", 100, 24);
  EXPECT_EQ(terminal.text.find('\x1b'), std::string::npos) << terminal.text;
  const test::outcome error = run("\"$(printf 'no\\033[31mred')\"");
  EXPECT_EQ(error.code, 2);
  EXPECT_FALSE(commands(error.text)) << error.text;
}

// All of the program prints through base/output.h; a new print elsewhere would open the hole again.
TEST(output, nothing_prints_past_the_one_place) {
  const fs::path root = fs::path(UNMASK_SOURCE_DIR) / "harness";
  int looked_at = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string ending = entry.path().extension();
    if (ending != ".cpp" && ending != ".h") continue;
    const std::string name = fs::relative(entry.path(), root);
    // Its own lines are cleaned there, between the sequences that redraw them.
    if (name == "base/output.cpp" || name == "run/progress.cpp") continue;
    ++looked_at;
    const std::string text = test::text_of(entry.path());
    for (const char* call : {"fmt::print(", "std::cout", "std::cerr", "std::printf(", "std::puts(",
                             "std::fputs(", "std::fprintf("}) {
      EXPECT_EQ(text.find(call), std::string::npos) << name << " calls " << call;
    }
  }
  EXPECT_GT(looked_at, 100);
}

TEST(output, a_full_disk_is_an_error_of_every_command) {
  const scratch_folder scratch;
  const std::string rows = "results/epyc-2core/quickstart.jsonl";
  const std::string out = "'" + scratch.path().string() + "/";
  for (const std::string& arguments : std::vector<std::string>{
           "--version",
           "--help",
           "help run",
           "run --help",
           "list methods",
           "list",
           "show vanilla",
           "doctor",
           "doctor --json",
           "completion bash",
           "man",
           "table " + rows,
           "table " + rows + " --format csv",
           "table " + rows + " --format json",
           "crossover results/epyc-2core/crossover.jsonl --base vanilla",
           "generate -n 32 x",
           "generate -n 32 --watch x",
           "bench tiny-sdar -n 32 --repetitions 1 --warmup 0 --no-progress -o " + out + "b'",
           "profile tiny-sdar --tool nsys --print-command",
           "run experiments/quickstart.toml --dry-run",
           "plan experiments/quickstart.toml"}) {
    const test::outcome o =
        test::run_shell(UNMASK_SOURCE_DIR, "\"$UNMASK\" " + arguments + " > /dev/full");
    EXPECT_EQ(o.code, 3) << arguments << "\n" << o.text;
    EXPECT_NE(o.text.find("unmask: standard output: No space left on device"), std::string::npos)
        << arguments << "\n"
        << o.text;
  }
}

TEST(terminal, tables_are_padded_and_fit) {
  const std::string table =
      "before\n\n| method | >a | verdict |\n|---|---:|---|\n| one | 1.5 | PASS |\n| a \\| b | "
      "20.25 | NOT_VERIFIED: a reason that is long |\n\n(1) note\n";
  EXPECT_EQ(fitted(table, 100),
            "before\n\n"
            "method     >a  verdict\n"
            "------  -----  -----------------------------------\n"
            "one       1.5  PASS\n"
            "a | b   20.25  NOT_VERIFIED: a reason that is long\n\n(1) note\n");
  std::istringstream narrow(fitted(table, 30));
  for (std::string line; std::getline(narrow, line);) EXPECT_LE(display_width(line), 30) << line;
  // Headings of numbers take two lines before a column is cut: 13 + 2 + 9 + 2 + 12 = 38 columns.
  EXPECT_EQ(fitted("| method | computed/unmasked | forward passes (NFE) |\n|---|---:|---:|\n"
                   "| 13 characters | 4.00 | 192 |\n",
                   38),
            "method         computed/       forward\n"
            "                unmasked  passes (NFE)\n"
            "-------------  ---------  ------------\n"
            "13 characters       4.00           192\n");
  const std::string tiny = fitted(table, 12);
  EXPECT_NE(tiny.find("more columns"), std::string::npos) << tiny;
  EXPECT_EQ(fitted("| no table |\n", 10), "| no table |\n");
}

TEST(terminal, tables_fit_a_window_and_are_whole_in_a_pipe) {
  const std::string arguments = "table results/epyc-2core/quickstart.jsonl";
  const test::outcome drawn = test::run_on_terminal(UNMASK_SOURCE_DIR, arguments, 80, 24);
  EXPECT_EQ(drawn.code, 0) << drawn.text;
  std::istringstream in(drawn.text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    EXPECT_LE(display_width(line), 80) << line;
    EXPECT_FALSE(line.starts_with("|")) << line;
  }
  EXPECT_NE(run(arguments).text.find("| tiny-llada | fast_dllm, threshold 0.9 |"),
            std::string::npos);
}

TEST(terminal, a_canvas_is_clipped_to_the_screen_around_this_step) {
  std::vector<watched_cell> cells(100, {"\xC2\xB7"});
  cells[70] = {"ab", true, true, 0.99F};
  const auto lines = screen_of(cells, "step 1", {10, 8}, false);
  ASSERT_EQ(lines.size(), 7U);  // status, 5 of the canvas, legend; one row stays free
  EXPECT_EQ(lines[0].substr(0, 6), "step 1");
  EXPECT_TRUE(std::ranges::any_of(
      lines, [](const std::string& l) { return l.find("ab") != std::string::npos; }));
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 10) << line;
  const auto whole = screen_of(cells, "step 1", {80, 24}, true);
  EXPECT_EQ(whole.size(), 4U);
  EXPECT_NE(whole[1].find("\x1b[4;38;5;34mab\x1b[0m"), std::string::npos) << whole[1];
  EXPECT_NE(whole.back().find("from 0.95"), std::string::npos) << whole.back();
}

TEST(terminal, watching_uses_the_other_screen_squares_and_colours_unless_told) {
  const std::string arguments =
      "generate --watch --pause 0 -n 256 --set params.threshold=0.9 'Compute 5 * 7 - 15 - 19 + "
      "38.'";
  const test::outcome o = test::run_on_terminal(UNMASK_SOURCE_DIR, arguments, 40, 12);
  EXPECT_EQ(o.code, 0) << o.text;
  const std::size_t enter = o.text.find("\x1b[?1049h"), leave = o.text.find("\x1b[?1049l");
  ASSERT_NE(enter, std::string::npos);
  ASSERT_NE(leave, std::string::npos);
  EXPECT_LT(enter, leave);
  EXPECT_NE(o.text.find("#### 39"), std::string::npos) << o.text.substr(leave);
  EXPECT_NE(o.text.find("\x1b[38;5;34m"), std::string::npos);
  EXPECT_NE(o.text.find("\xE2\x96\xAA"), std::string::npos);  // end tokens
  EXPECT_EQ(o.text.find("<|endoftext|>"), std::string::npos);
  // No step writes more lines than there are.
  for (std::size_t at = enter;
       (at = o.text.find("\x1b[H", at)) != std::string::npos && at < leave;) {
    const std::size_t next = std::min(o.text.find("\x1b[H", at + 1), leave);
    EXPECT_LT(std::count(o.text.begin() + static_cast<std::ptrdiff_t>(at),
                         o.text.begin() + static_cast<std::ptrdiff_t>(next), '\n'),
              12);
    at = next;
  }
  const std::string colour = "\x1b[38;5;";
  EXPECT_EQ(
      test::run_on_terminal(UNMASK_SOURCE_DIR, arguments, 40, 12, "NO_COLOR=1").text.find(colour),
      std::string::npos);
  EXPECT_EQ(test::run_on_terminal(UNMASK_SOURCE_DIR, arguments + " --color never", 40, 12)
                .text.find(colour),
            std::string::npos);
  EXPECT_EQ(run(arguments).text.find('\x1b'), std::string::npos);
  EXPECT_NE(run(arguments + " --color always").text.find(colour), std::string::npos);
  EXPECT_EQ(run("generate --color sometimes x").code, 2);
}

TEST(terminal, an_interrupted_watch_leaves_the_other_screen) {
  const test::outcome o = test::run_on_terminal(
      UNMASK_SOURCE_DIR,
      "generate --watch --pause 60000 'Compute 3 + 4.' & sleep 3; kill -TERM $!; wait $!", 80, 24);
  EXPECT_NE(o.text.find("\x1b[?1049l"), std::string::npos) << o.text;
}

}  // namespace
}  // namespace unmask
