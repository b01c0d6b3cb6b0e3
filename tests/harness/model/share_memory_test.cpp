// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a rank needs of the machine: memory for its share of the weights, and its part of a checkpoint. The
// model of the first test is large enough for the system's own counts of pages.
#include <gtest/gtest.h>

#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <map>

#include "harness/model/safetensors.h"
#include "harness/model/share.h"
#include "harness/model/transformer.h"
#include "kernels/cpu/backend.h"
#include "kernels/sanitized.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using namespace test;

// kB of a line "NAME: number kB" of /proc/self/status.
double status_of(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1));
  }
  throw std::logic_error("no " + name);
}

// Bytes by which the process grew at most while work() ran; what it returns stays.
template <class Work>
auto grown_by(double& bytes, const Work& work) {
  ::malloc_trim(0);  // memory that was given back would hide what is taken
  std::ofstream("/proc/self/clear_refs") << 5 << std::flush;  // the peak is that of now
  const double before = status_of("VmRSS");
  auto made = work();
  bytes = 1024 * (status_of("VmHWM") - before);
  return made;
}

model_config large() {
  model_config c;
  c.name = "large";
  c.layers = 32;
  c.hidden = 256;
  c.heads = c.kv_heads = 8;
  c.head_dim = 32;
  c.feed_forward = 1024;
  c.vocabulary = 512;
  c.rope = {32, 10000.0F};
  return c;
}

// 34 M numbers in bfloat16. What a rank draws and packs is its share, and a twentieth at most besides.
TEST(share_memory, a_rank_takes_its_share_and_little_else) {
  if (sanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const model_config c = large();
  model_config small = c;
  small.layers = 1;
  const model_share share = share_of(1, 2, 0);
  // A large block goes back when it is freed. Without this, the allocator raises that size at each free, and
  // what it keeps for later depends on the order of the threads.
  ::mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  {  // tables and threads that stay, and the program's own pages
    const model_weights first = random_weights(small, 1, dtype::bf16, share);
    const transformer model(small, first, cpu_backend(), weight_format::f32, 8, dtype::f32, share);
  }
  double all = 0;
  {
    const model_weights whole = grown_by(all, [&] { return random_weights(c, 1, dtype::bf16); });
    EXPECT_GT(all, 0.95 * static_cast<double>(whole.bytes));
  }
  double drawn = 0, packed = 0;
  const model_weights part =
      grown_by(drawn, [&] { return random_weights(c, 1, dtype::bf16, share); });
  const auto held = static_cast<double>(part.bytes);
  EXPECT_LT(drawn, 1.05 * held);
  EXPECT_GT(drawn, 0.95 * held);
  EXPECT_GT(all, 1.5 * drawn);
  const auto model = grown_by(packed, [&] {
    return std::make_unique<transformer>(c, part, cpu_backend(), weight_format::f32, 8, dtype::f32,
                                         share);
  });
  // Of its own memory: the embedding is read where it lies.
  const double own = static_cast<double>(model->weight_bytes()) - 2.0 * c.vocabulary * c.hidden;
  EXPECT_LT(packed, 1.05 * own);
  EXPECT_GT(packed, 0.95 * own);
}

// A checkpoint of one layer in two files.
struct sizes {
  std::int64_t hidden, heads, head_dim, width;
};
constexpr sizes of_two_heads = {16, 2, 6, 32};

std::map<std::string, std::vector<std::int64_t>> tensors(const sizes& of) {
  const std::string l = "model.layers.0.";
  const std::int64_t hidden = of.hidden, heads = of.heads * of.head_dim, width = of.width;
  return {{"model.embed_tokens.weight", {12, hidden}},
          {"model.norm.weight", {hidden}},
          {"lm_head.weight", {12, hidden}},
          {l + "input_layernorm.weight", {hidden}},
          {l + "post_attention_layernorm.weight", {hidden}},
          {l + "self_attn.q_proj.weight", {heads, hidden}},
          {l + "self_attn.k_proj.weight", {heads, hidden}},
          {l + "self_attn.v_proj.weight", {heads, hidden}},
          {l + "self_attn.q_norm.weight", {of.head_dim}},
          {l + "self_attn.k_norm.weight", {of.head_dim}},
          {l + "self_attn.o_proj.weight", {hidden, heads}},
          {l + "mlp.gate_proj.weight", {width, hidden}},
          {l + "mlp.up_proj.weight", {width, hidden}},
          {l + "mlp.down_proj.weight", {hidden, width}}};
}

std::string config_text(const sizes& of) {
  const auto key = [](const char* name, std::int64_t n) {
    return "\"" + std::string(name) + "\": " + std::to_string(n) + ", ";
  };
  return "{" + key("hidden_size", of.hidden) + key("num_attention_heads", of.heads) +
         key("num_key_value_heads", of.heads) + key("head_dim", of.head_dim) +
         key("intermediate_size", of.width) +
         R"("architectures": ["SDARForCausalLM"], "num_hidden_layers": 1, "vocab_size": 12,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000,
            "mask_token_id": 11, "eos_token_id": 10})";
}

// `change` may alter a tensor, whose values are 0.5 unless it has some.
template <class Change>
void write_checkpoint(const fs::path& at, const sizes& of, const Change& change) {
  write_file(at / "config.json", config_text(of));
  std::vector<f32_tensor> first, second;
  std::string map;
  for (const auto& [name, shape] : tensors(of)) {
    f32_tensor t{name, shape, {}};
    change(t);
    const bool here = name.find("mlp") == std::string::npos;
    (here ? first : second).push_back(std::move(t));
    map +=
        (map.empty() ? "\"" : ", \"") + name + "\": \"" + (here ? "one" : "two") + ".safetensors\"";
  }
  write_file(at / "one.safetensors", make_safetensors(first));
  write_file(at / "two.safetensors", make_safetensors(second));
  write_file(at / "model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
}

// Element [row, column] of one tensor is no number.
void write_damaged(const fs::path& at, const std::string& damaged, std::int64_t row,
                   std::int64_t column) {
  write_checkpoint(at, of_two_heads, [&](f32_tensor& t) {
    if (t.name.find(damaged) == std::string::npos) return;
    t.values.assign(static_cast<std::size_t>(row * t.shape[1] + column + 1), 0.5F);
    t.values.back() = std::numeric_limits<float>::quiet_NaN();
  });
}

// A value that rank 1 of two holds is nothing to rank 0: it never looks there. By hand: the second of two
// heads of 6, the upper half of 32.
TEST(share_memory, a_rank_looks_at_its_part_of_a_checkpoint) {
  struct place {
    const char* tensor;
    std::int64_t row, column;
  };
  for (const place& of : std::vector<place>{{"q_proj", 6, 0},
                                            {"k_proj", 11, 15},
                                            {"v_proj", 6, 3},
                                            {"o_proj", 0, 6},
                                            {"gate_proj", 16, 0},
                                            {"up_proj", 31, 15},
                                            {"down_proj", 15, 16}}) {
    SCOPED_TRACE(of.tensor);
    const scratch_folder directory;
    write_damaged(directory.path(), of.tensor, of.row, of.column);
    const model_config c = read_model_config(directory.path());
    EXPECT_NO_THROW(load_weights(c, directory.path(), true, {}, share_of(0, 2, 0)));
    expect_environment_error(
        [&] { load_weights(c, directory.path(), true, {}, share_of(1, 2, 0)); },
        {of.tensor, "NaN or infinity"});
  }
}

// The pages of mapped files that this process reads: all are closed, and one that is read is noted and opened.
// What the system keeps of a file says less: it reads around and ahead of what it was asked for.
class touched_pages {
 public:
  explicit touched_pages(const std::vector<fs::path>& paths) {
    for (const fs::path& path : paths) {
      file f{mapped_file::open(path), {}, {}};
      f.entries = parse_safetensors(f.mapping->bytes(), path.string());
      f.touched = std::vector<std::atomic<bool>>((f.mapping->bytes().size() + page - 1) / page);
      files_.push_back(std::move(f));
    }
    watching = this;
    struct sigaction on_fault {};
    on_fault.sa_sigaction = open_page;
    on_fault.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &on_fault, &before_);
    protect_all(PROT_NONE);
  }
  ~touched_pages() {
    protect_all(PROT_READ);
    ::sigaction(SIGSEGV, &before_, nullptr);
    watching = nullptr;
  }
  touched_pages(const touched_pages&) = delete;
  touched_pages& operator=(const touched_pages&) = delete;

  // Of the pages of tensors with this in their names.
  double share_of(const std::string& part) const {
    std::size_t all = 0, touched = 0;
    for (const file& f : files_) {
      for (const safetensors_entry& e : f.entries) {
        if (e.name.find(part) == std::string::npos) continue;
        for (std::size_t p = e.begin / page; p <= (e.end - 1) / page; ++p) {
          ++all;
          if (f.touched[p]) ++touched;
        }
      }
    }
    return static_cast<double>(touched) / static_cast<double>(all);
  }

 private:
  struct file {
    std::shared_ptr<const mapped_file> mapping;
    std::vector<safetensors_entry> entries;
    std::vector<std::atomic<bool>> touched;
    std::uintptr_t first() const {
      return reinterpret_cast<std::uintptr_t>(mapping->bytes().data());
    }
  };
  void protect_all(int how) const {
    for (const file& f : files_) {
      ASSERT_EQ(::mprotect(reinterpret_cast<void*>(f.first()), f.mapping->bytes().size(), how), 0);
    }
  }
  static void open_page(int, siginfo_t* fault, void*) {
    const auto address = reinterpret_cast<std::uintptr_t>(fault->si_addr);
    for (file& f : watching->files_) {
      if (address < f.first() || address >= f.first() + f.touched.size() * page) continue;
      f.touched[(address - f.first()) / page] = true;
      ::mprotect(reinterpret_cast<void*>(address / page * page), page, PROT_READ);
      return;
    }
    ::signal(SIGSEGV, SIG_DFL);  // a fault of another kind comes again
  }

  static inline const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  static inline touched_pages* watching = nullptr;
  std::vector<file> files_;
  struct sigaction before_ {};
};

// Rows of q, k, v, gate and up are whole pages of a rank, and so are columns of o and down but for a page at
// each end: a row of o has 8 pages, one of down 16.
TEST(share_memory, a_rank_touches_its_part_of_a_checkpoint) {
  if (sanitized) GTEST_SKIP() << "sanitizers look at faults themselves";
  const scratch_folder directory;
  const fs::path at = directory.path();
  write_checkpoint(at, {64, 64, 128, 16384}, [](f32_tensor&) {});
  const model_config c = read_model_config(at);
  const auto touched_by = [&](const model_share& share) {
    const touched_pages pages({at / "one.safetensors", at / "two.safetensors"});
    const model_weights weights = load_weights(c, at, true, {}, share);
    const transformer model(c, weights, cpu_backend(), weight_format::f32, 8, dtype::f32, share);
    return pages.share_of("_proj");
  };
  EXPECT_EQ(touched_by({}), 1);
  for (const int ranks : {2, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const double touched = touched_by(share_of(rank, ranks, 0));
      EXPECT_LT(touched, 1.0 / ranks + 0.1) << rank << " of " << ranks;
      EXPECT_GT(touched, 0.99 / ranks) << rank << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace unmask
