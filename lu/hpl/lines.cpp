// SPDX-License-Identifier: BSD-3-Clause
// lines.cpp: widths and words as HPL 2.3 has them.
#include "hpl/lines.hpp"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <sstream>

namespace fleet::lu {
namespace {

constexpr int kLineWidth = 80;

std::string rule(char of) { return std::string(kLineWidth, of) + "\n"; }

__attribute__((format(printf, 1, 2))) std::string print(const char* format, ...) {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

template <typename List, typename Value>
std::string list(const char* name, const List& values, Value&& value) {
  std::ostringstream text;
  text << print("%-7s:", name);
  for (const auto& each : values) text << print(" %7lld", static_cast<long long>(value(each)));
  return text.str() + "\n";
}

constexpr auto kItself = [](auto value) { return value; };

std::string where_time_went(const Means& means, const Outcome& outcome) {
  const auto of = [&](What what) { return outcome.most[static_cast<std::size_t>(what)]; };
  const double under_way = of(What::panel_way) + of(What::rows_way);
  std::string text = print(
      "- %d core%s a rank; of the slowest ranks' time %.2f s went to products, "
      "%.2f to panels (%.2f of it to pivots), %.2f to rows, %.2f to waiting",
      means.cores, means.cores == 1 ? "" : "s", of(What::product), of(What::panel),
      of(What::pivots), of(What::pack), of(What::wait));
  if (under_way > 0) text += print("; messages were under way for %.2f", under_way);
  if (of(What::devices) > 0) text += print("; devices worked for %.2f", of(What::devices));
  return text + "\n";
}

std::string devices_line(const Settings& settings) {
  if (!settings.devices) return {};
  const DeviceMeans& devices = *settings.devices;
  return "DEVICES: " + devices.which + ", the CPU's share R " +
         (devices.cpu_share ? print("%.2f", *devices.cpu_share) : "by measured rates") +
         (devices.overlaps_transfers ? "" : ", transfers before and after products") + "\n";
}

/// R of each kind of work.
std::string shares_line(const Outcome& outcome) {
  std::string text;
  for (std::size_t work = 0; work < kWorks; ++work)
    if (const auto& share = outcome.cpu_shares[work])
      text += print("%s %.3f %s", text.empty() ? "- the CPU's share R of products:" : ",", *share,
                    to_string(static_cast<Work>(work)));
  return text.empty() ? text : text + "\n";
}

std::string place_of(const Means& means) {
  const std::size_t devices = means.matrix_devices.size();
  if (devices == 0) return "host memory";
  return print("the memory of %zu device%s a rank", devices, devices == 1 ? "" : "s");
}

std::string energy_line(const Trial& trial, const Outcome& outcome) {
  if (!outcome.joules || *outcome.joules <= 0) return {};
  return print("- processors (no devices) took %.0f J, %.0f W: %.3f Gflops/W\n", *outcome.joules,
               *outcome.joules / outcome.seconds,
               gflops(trial.n, outcome.seconds) * outcome.seconds / *outcome.joules);
}

}  // namespace

std::string heading(const Input& input, const Settings& settings, const std::string& ranks_are,
                    const std::string& blas) {
  std::ostringstream text;
  text
      << rule('=') << "fleetblas-linpack " << fleet_version()
      << (settings.schedule.pivoting == Pivoting::partial
              ? "  --  Linpack by LU with partial pivoting over "
              : "  --  LU without pivots, which is no Linpack, over ")
      << ranks_are << "\n"
      << rule('=') << "\nThe following parameter values will be used:\n\n"
      << list("N", input.orders, kItself) << list("NB", input.blocks, kItself)
      << "PMAP   : " << (input.column_major ? "Column" : "Row") << "-major process mapping\n"
      << list("P", input.grids, [](const auto& grid) { return grid.rows; })
      << list("Q", input.grids, [](const auto& grid) { return grid.cols; })
      << list("DEPTH", input.depths, kItself) << "OVERLAP: " << to_string(settings.schedule.overlap)
      << (settings.has_progress_thread(settings.schedule.overlap) ? ", messages driven by a thread"
                                                                  : "")
      << "\n"
      << devices_line(settings) << "BLAS   : " << blas << "\n\n"
      << "The letters of T/V are those of HPL.dat. PFACT, NBMIN, NDIV, RFACT, BCAST, SWAP, L1, U,\n"
         "EQUIL and ALIGN choose between variants of HPL and change nothing here. DEPTH 0 is\n"
         "without overlap, any other one with the overlap above.\n\n"
      << rule('-')
      << "\n- The matrix A is randomly generated for each test, with HPL's numbers.\n"
         "- The following scaled residual check will be computed:\n"
         "      ||Ax-b||_oo / ( eps * ( || x ||_oo * || A ||_oo + || b ||_oo ) * N )\n"
      << print("- The relative machine precision (eps) is taken to be       %23.6e\n",
               std::ldexp(1.0, -53))
      << print("- Computational tests pass if scaled residuals are less than      %18.1f\n",
               input.threshold)
      << "\n";
  return text.str();
}

bool passes(const Input& input, const Outcome& outcome) {
  // As with HPL, a threshold that is not positive leaves out the check.
  return outcome.info == 0 && (input.threshold <= 0 || outcome.residual < input.threshold);
}

std::string result_lines(const Input& input, const Trial& trial, const Means& means, int depth,
                         const Outcome& outcome) {
  if (!outcome.refusal.empty()) return "- skipped: " + outcome.refusal + "\n";
  std::string text = rule('=');
  text += "T/V                N    NB     P     Q               Time                 Gflops\n" +
          rule('-');
  // A name that no reader of results takes for a Linpack result.
  const std::string variant =
      trial.schedule.pivoting == Pivoting::none
          ? "no-pivot"
          : print("W%c%d%d%c%d%c%d", trial.column_major ? 'C' : 'R', depth, input.bcast,
                  input.rfact, input.ndiv, input.pfact, input.nbmin);
  text += print("%s%12lld %5lld %5d %5d %18.2f %22.4e\n", variant.c_str(),
                static_cast<long long>(trial.n), static_cast<long long>(trial.nb), trial.rows,
                trial.cols, outcome.seconds, gflops(trial.n, outcome.seconds));
  text += "- the matrix is in " + place_of(means) + " when the clock starts" +
          (outcome.panel_way.empty() ? "" : "; panels go " + outcome.panel_way) + "\n";
  text += where_time_went(means, outcome) + shares_line(outcome) + energy_line(trial, outcome) +
          rule('-');
  if (outcome.info > 0)
    return text + print("The matrix is singular: pivot %lld is zero ...... FAILED\n",
                        static_cast<long long>(outcome.info));
  if (input.threshold <= 0) return text;
  return text + print("||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= %18.8e ...... %s\n",
                      outcome.residual, passes(input, outcome) ? "PASSED" : "FAILED");
}

std::string closing(const Counts& counts) {
  return rule('=') +
         print("\nFinished %6d tests with the following results:\n",
               counts.passed + counts.failed + counts.skipped) +
         print("         %6d tests completed and passed residual checks,\n", counts.passed) +
         print("         %6d tests completed and failed residual checks,\n", counts.failed) +
         print("         %6d tests skipped because of illegal input values.\n", counts.skipped) +
         rule('-') + "\nEnd of Tests.\n" + rule('=');
}

}  // namespace fleet::lu
