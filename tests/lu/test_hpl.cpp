// SPDX-License-Identifier: BSD-3-Clause
// test_hpl.cpp: HPL.dat, the command line, and the program on ranks that are threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "comm/inproc.hpp"
#include "hpl/energy.hpp"
#include "hpl/lines.hpp"
#include "hpl/program.hpp"

namespace fleet::lu {
namespace {

/// As HPL's own example, with places for what tests change.
struct Dat {
  std::string device = "6", orders = "2\n29 60", blocks = "2\n4 16", pmap = "0",
              grids = "2\n1 2\n2 2", threshold = "16.0", depths = "2\n0 1", file = "HPL.out";

  std::string text() const {
    return "HPLinpack benchmark input file\nInnovative Computing Laboratory\n" + file +
           " output file name (if any)\n" + device + " device out\n" + count(orders) +
           count(blocks) + pmap + " PMAP process mapping\n" + count(grids) + threshold +
           " threshold\n" +
           "3 # of panel fact\n0 1 2 PFACTs\n2 # of recursive stopping criterium\n2 4 NBMINs\n" +
           "1\n2 NDIVs\n3\n1 0 2 RFACTs\n1\n3 BCASTs\n" + count(depths) +
           "2 SWAP\n64 swapping threshold\n0 L1\n0 U\n1 Equilibration\n8 memory alignment\n";
  }
  static std::string count(const std::string& list) { return list + " of what the line is for\n"; }
};

std::string failure_of(const Dat& dat) {
  try {
    parse_input(dat.text());
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(Input, IsWhatHplDatSays) {
  const Input input = parse_input(Dat{}.text());
  EXPECT_EQ(input.device, 6);
  EXPECT_EQ(input.file, "HPL.out");
  EXPECT_EQ(input.orders, (std::vector<std::int64_t>{29, 60}));
  EXPECT_EQ(input.blocks, (std::vector<std::int64_t>{4, 16}));
  EXPECT_FALSE(input.column_major);
  ASSERT_EQ(input.grids.size(), 2u);
  EXPECT_EQ(input.grids[1].rows, 2);
  EXPECT_EQ(input.grids[1].cols, 2);
  EXPECT_EQ(input.threshold, 16);
  EXPECT_EQ(input.depths, (std::vector<int>{0, 1}));
  EXPECT_EQ(std::string({input.rfact, input.pfact}), "CL");
  EXPECT_EQ(input.ndiv, 2);
  EXPECT_EQ(input.nbmin, 2);
  EXPECT_EQ(input.bcast, 3);
}

TEST(Input, NamesTheLineThatIsWrong) {
  EXPECT_EQ(failure_of({.orders = "2\n29"}), "HPL.dat: line 6 needs N, not 'of'");
  EXPECT_EQ(failure_of({.orders = "1\n-3"}), "HPL.dat: line 6 has -3, which is no N");
  EXPECT_EQ(failure_of({.orders = "1\n29x"}), "HPL.dat: line 6 needs N, not '29x'");
  EXPECT_EQ(failure_of({.orders = "0\n29"}), "HPL.dat: line 5 has 0, which is no count");
  EXPECT_EQ(failure_of({.blocks = "1\n0"}), "HPL.dat: line 8 has 0, which is no NB");
  EXPECT_EQ(failure_of({.pmap = "2"}), "HPL.dat: line 9 has 2, which is no PMAP (0 or 1)");
  EXPECT_EQ(failure_of({.grids = "1\n0\n2"}), "HPL.dat: line 11 has 0, which is no P");
  EXPECT_EQ(failure_of({.threshold = "nan"}), "HPL.dat: line 13 needs threshold, not 'nan'");
  try {
    parse_input("one line\n");
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "HPL.dat: line 2 is missing");
  }
}

Settings settings_of(std::vector<const char*> arguments) { return parse_settings(arguments); }

TEST(Settings, AreThoseOfTheCommandLine) {
  EXPECT_EQ(settings_of({}).schedule.overlap, Overlap::full);
  EXPECT_TRUE(settings_of({}).has_progress_thread(Overlap::full));
  EXPECT_FALSE(settings_of({"--overlap=lookahead"}).has_progress_thread(Overlap::lookahead));
  EXPECT_TRUE(settings_of({"--progress=thread"}).has_progress_thread(Overlap::lookahead));
  EXPECT_FALSE(settings_of({"--progress=none"}).has_progress_thread(Overlap::full));
  EXPECT_EQ(settings_of({"--pivot=none"}).schedule.pivoting, Pivoting::none);
  EXPECT_EQ(settings_of({"--cores=3", "--patience=1.5"}).cores, 3);
  EXPECT_FALSE(settings_of({"--devices=none"}).devices);
  const auto devices =
      settings_of({"--cpu-share=0.31", "--devices=0,2", "--transfer-overlap=off"}).devices;
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->which, "0,2");
  EXPECT_EQ(devices->cpu_share, 0.31);
  EXPECT_FALSE(devices->overlaps_transfers);
  EXPECT_FALSE(settings_of({"--devices=all", "--cpu-share=auto"}).devices->cpu_share);
  EXPECT_EQ(settings_of({"--devices=all"}).matrix, MatrixPlace::host);
  EXPECT_EQ(settings_of({"--matrix=devices"}).matrix, MatrixPlace::devices);
  EXPECT_EQ(settings_of({}).matrix, MatrixPlace::best);
  EXPECT_THROW(settings_of({"--matrix=devices", "--devices=all"}), Failure);
  for (const char* wrong :
       {"--cpu-share=0.5", "--matrix=gpu", "--cpu-share=2", "--cpu-share=", "--transfer-overlap=no",
        "--overlap=much", "--pivot=", "--cores=-1", "--cores=two", "--patience=1e10", "--what=1",
        "HPL.dat", "--patience=-1"})
    EXPECT_THROW(settings_of({wrong}), Failure) << wrong;
}

class Program : public testing::Test {
 protected:
  ~Program() override { std::filesystem::remove_all(folder_); }

  std::string file(const char* name) const { return folder_ / name; }
  /// By `ranks` ranks; the text is what rank 0 has written.
  Exit run(int ranks, Dat dat, Settings settings = {}) {
    dat.device = "8";
    dat.file = file("HPL.out");
    settings.input = file("HPL.dat");
    std::ofstream(settings.input) << dat.text();
    std::vector<Exit> exits(static_cast<std::size_t>(ranks));
    const Place place{.ranks_are = "threads", .ranks_on_its_cores = ranks, .ranks_on_node = ranks};
    run_ranks(ranks, {}, [&](Comm& all) {
      exits[static_cast<std::size_t>(all.rank())] = run_program(all, settings, place);
    });
    for (const Exit exit : exits) EXPECT_EQ(exit, exits[0]);
    output_ = (std::ostringstream() << std::ifstream(dat.file).rdbuf()).str();
    return exits[0];
  }
  int count(const std::string& text) const {
    int found = 0;
    for (std::size_t at = output_.find(text); at != output_.npos; at = output_.find(text, at + 1))
      ++found;
    return found;
  }

  std::string output_;

 private:
  const std::filesystem::path folder_ = [] {
    std::string name = std::filesystem::temp_directory_path() / "linpack-XXXXXX";
    return std::filesystem::path(mkdtemp(name.data()));
  }();
};

TEST_F(Program, RunsAllCombinationsAndPrintsTheLinesOfHpl) {
  EXPECT_EQ(run(4, {}), kAllPassed) << output_;
  // 2 grids, 2 orders, 2 block sizes, 2 depths.
  EXPECT_EQ(count("...... PASSED\n"), 16);
  EXPECT_EQ(count("\nWR03C2L2          29     4     1     2 "), 1) << output_;
  EXPECT_EQ(count("\nWR13C2L2          60    16     2     2 "), 1) << output_;
  EXPECT_EQ(count("||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= "), 16);
  EXPECT_EQ(count("\nFinished     16 tests with the following results:\n"
                  "             16 tests completed and passed residual checks,\n"),
            1)
      << output_;
}

TEST_F(Program, NumbersRanksAlongColumnsWhereItIsAskedTo) {
  EXPECT_EQ(run(4, {.orders = "1\n50", .blocks = "1\n8", .pmap = "1"}), kAllPassed);
  EXPECT_EQ(count("\nWC13C2L2"), 2) << output_;
}

TEST_F(Program, SkipsWhatCannotBeRunAndSaysWhy) {
  EXPECT_EQ(run(2, {.orders = "2\n0 20", .blocks = "1\n100", .grids = "2\n1 2\n2 2"}),
            kNotAllPassed);
  EXPECT_EQ(count("- skipped: N = 0 is no size of a system\n"), 4);
  EXPECT_EQ(count("- skipped: a grid of 2 x 2 needs more than 2 ranks\n"), 2);
  EXPECT_EQ(count("...... PASSED\n"), 2);
  EXPECT_EQ(run(1, {.orders = "1\n2000000", .blocks = "1\n100", .grids = "1\n1\n1"}),
            kNotAllPassed);
  EXPECT_EQ(count("- skipped: N = 2000000 takes 298"), 2) << output_;
}

TEST_F(Program, FailsResidualsAboveTheThreshold) {
  EXPECT_EQ(run(1, {.orders = "1\n20", .grids = "1\n1\n1", .threshold = "1e-9"}), kNotAllPassed);
  EXPECT_EQ(count("...... FAILED\n"), 4) << output_;
}

TEST_F(Program, LeavesOutTheCheckWithoutAThreshold) {
  EXPECT_EQ(run(1, {.orders = "1\n20", .grids = "1\n1\n1", .threshold = "-1"}), kAllPassed);
  EXPECT_EQ(count("||Ax-b||_oo/("), 0) << output_;
}

TEST_F(Program, NeverCallsAResultWithoutPivotsALinpackResult) {
  run(1, {.orders = "1\n20", .grids = "1\n1\n1"}, settings_of({"--pivot=none"}));
  EXPECT_EQ(count("\nWR"), 0);
  EXPECT_EQ(count("\nno-pivot"), 4) << output_;
  EXPECT_EQ(count("partial pivoting"), 0) << output_;
}

TEST_F(Program, WritesTheTimelineOfAllRanks) {
  const std::string trace = file("trace.json");
  Settings settings;
  settings.trace = trace;
  EXPECT_EQ(run(4, {}, settings), kAllPassed);
  output_ = (std::ostringstream() << std::ifstream(trace).rdbuf()).str();
  for (const char* rank : {"\"pid\": 0,", "\"pid\": 3,"})
    for (const char* what : {"panel", "product", "rows under way"})
      EXPECT_GT(count(std::string(rank) + " \"name\": \"" + what + "\""), 0) << rank << what;
  EXPECT_EQ(count("\"ph\": \"b\""), count("\"ph\": \"e\""));
}

TEST_F(Program, SaysWhatCoresAndDevicesShared) {
  setenv("FLEETBLAS_BACKEND", "host", 1);
  Settings settings;
  settings.devices = DeviceMeans{.which = "1", .cpu_share = 0.5};
  settings.trace = file("trace.json");
  Dat dat;
  dat.orders = "1\n200";
  EXPECT_EQ(run(4, dat, settings), kAllPassed);
  unsetenv("FLEETBLAS_BACKEND");
  EXPECT_EQ(count("DEVICES: 1, the CPU's share R 0.50"), 1);
  EXPECT_GT(count("the CPU's share R of products: "), 0);
  EXPECT_GT(count("; devices worked for "), 0);
  output_ = (std::ostringstream() << std::ifstream(settings.trace).rdbuf()).str();
  EXPECT_GT(count("\"name\": \"devices\""), 0);
}

class Counters : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* zone : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0", "dtpm"})
      set(zone, 5e6);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void set(const std::string& zone, double microjoules) const {
    std::filesystem::create_directories(folder_ / zone);
    std::ofstream(folder_ / zone / "energy_uj") << std::fixed << microjoules;
    std::ofstream(folder_ / zone / "max_energy_range_uj") << 1e8;
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("counters" + std::to_string(getpid()));
};

TEST_F(Counters, AreThoseOfProcessorsAndWrapAround) {
  NodeEnergy energy(folder_);

  EXPECT_EQ(energy.joules(), 0);
  set("intel-rapl:0", 7e6);
  set("intel-rapl:0:0", 9e6);
  EXPECT_EQ(energy.joules(), 2);
  set("intel-rapl:1", 1e6);

  EXPECT_EQ(energy.joules(), 2 + 96);
  EXPECT_FALSE(NodeEnergy(folder_ / "none").is_readable());
}

TEST_F(Counters, ThatAreMissingHaveNoLine) {
  Trial trial{.n = 50, .nb = 8, .rows = 1, .cols = 2, .schedule = {}};
  const auto joules = [&](const std::string& folder) {
    trial.counters = {.folder = folder, .ranks_on_node = 2};
    std::optional<double> found;
    run_ranks(2, {}, [&](Comm& all) {
      const Outcome outcome = run_trial(all, trial, {});
      if (all.rank() == 0) found = outcome.joules;
    });
    return found;
  };

  EXPECT_EQ(joules(folder_), 0);
  EXPECT_EQ(joules(folder_ / "none"), std::nullopt);
  Outcome outcome{.seconds = 2};
  EXPECT_EQ(result_lines({}, trial, {}, 1, outcome).find(" J, "), std::string::npos);
  outcome.joules = 100;
  EXPECT_NE(result_lines({}, trial, {}, 1, outcome).find("100 J, 50 W"), std::string::npos);
}

TEST_F(Program, EndsOnAllRanksWhereTheInputIsMissing) {
  Settings settings;
  settings.input = file("none.dat");
  int ended = 0;
  std::mutex mutex;
  run_ranks(3, {}, [&](Comm& all) {
    EXPECT_THROW(run_program(all, settings, {}), NothingToRun);
    const std::lock_guard lock(mutex);
    ++ended;
  });
  EXPECT_EQ(ended, 3);
}

}  // namespace
}  // namespace fleet::lu
