# SPDX-License-Identifier: BSD-3-Clause
"""check_layers.py finds each kind of wrong line, and nothing in right ones."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
from check_layers import PLACES, findings_in

SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"


# Of each rule: a file and a line that break it, and a file in which the same line may stand.
BROKEN = {
    "a CUDA header or call outside the CUDA backend": (
        "src/exec/execute.cpp",
        "cudaFree(data);",
        "src/exec/cuda_memory.cpp",
    ),
    "reading the environment outside base/options": (
        "src/blas/context.cpp",
        'secure_getenv("X");',
        "src/base/options.cpp",
    ),
    "printing outside the log": (
        "src/exec/probe.cpp",
        'std::fprintf(stderr, "");',
        "src/blas/log.cpp",
    ),
    "ending the process": ("src/blas/gate.cpp", "std::quick_exit(1);", "src/libblas/chosen.cpp"),
    "a thread or a lock in the model": (
        "src/exec/simulate.cpp",
        "#include <mutex>",
        "src/exec/sim_backend.cpp",
    ),
    "a clock or a random number in the model": (
        "src/exec/fair_share.hpp",
        "#include <chrono>",
        "src/exec/probe.cpp",
    ),
    "a library loaded by the model": (
        "src/exec/trace.cpp",
        "void* handle = dlopen(path, RTLD_NOW);",
        "src/exec/blas_library.cpp",
    ),
    "a routine in the planner, which knows matrices, chains and ops": (
        "src/plan/walk.cpp",
        "if (problem.routine == Routine::trsm) return;",
        "src/plan/bound_traffic.cpp",
    ),
    "a file in the model": (
        "src/program/expand.cpp",
        "#include <fstream>",
        "src/machine/machine.cpp",
    ),
    "an unordered container in the planner: the same inputs must give the same plan": (
        "src/program/decompose.cpp",
        "std::unordered_set<int> seen;",
        "src/blas/plan_cache.hpp",
    ),
    "nlohmann/json in a header": (
        "src/machine/machine.hpp",
        "#include <nlohmann/json.hpp>",
        "src/machine/machine_json.cpp",
    ),
    "unfinished work": ("src/plan/plan.cpp", "int x;  // TO" + "DO", None),
}


def errors(path, line):
    return [why for _, why, is_warning in findings_in(path, SPDX + line + "\n") if not is_warning]


class CheckLayers(unittest.TestCase):
    def test_every_rule_finds_what_breaks_it(self):
        self.assertEqual(sorted(BROKEN), sorted(what for what, *_ in PLACES))
        for what, (path, line, fine) in BROKEN.items():
            self.assertIn(what, errors(path, line))
            if fine:
                self.assertNotIn(what, errors(fine, line))

    def test_the_planner_knows_no_routine_however_it_is_asked(self):
        for line in ("traits().solves", "traits_of(r)", "RoutineTraits t;", "call.problem.routine"):
            self.assertEqual(len(errors("src/plan/planner.cpp", line)), 1, line)
            self.assertEqual(errors("src/program/expand.cpp", line), [], line)
        self.assertEqual(errors("src/plan/pools.cpp", "call.problem.type"), [])

    def test_the_simulator_is_as_pure_as_the_model(self):
        for name in (
            "simulate.cpp",
            "fair_share.cpp",
            "kernel_pool.hpp",
            "trace.cpp",
            "busy_time.hpp",
        ):
            for line in (
                "#include <thread>",
                "#include <random>",
                "std::unordered_map<int, int> m;",
            ):
                self.assertEqual(len(errors(f"src/exec/{name}", line)), 1, (name, line))

    def test_an_include_names_a_layer_that_there_is(self):
        self.assertEqual(len(errors("src/schedule/x.cpp", '#include "base/error.hpp"')), 1)
        self.assertEqual(len(errors("src/plan/plan.cpp", '#include "plan.hpp"')), 1)

    def test_programs_are_between_machines_and_plans(self):
        self.assertEqual(errors("src/program/expand.cpp", '#include "machine/machine.hpp"'), [])
        self.assertEqual(errors("src/plan/mover.cpp", '#include "program/decompose.hpp"'), [])
        self.assertEqual(len(errors("src/program/expand.cpp", '#include "plan/plan.hpp"')), 1)
        self.assertEqual(len(errors("src/machine/machine.cpp", '#include "program/tuning.hpp"')), 1)

    def test_a_layer_may_include_only_itself_and_those_below(self):
        self.assertEqual(errors("src/plan/plan.cpp", '#include "machine/machine.hpp"'), [])
        self.assertEqual(len(errors("src/plan/plan.cpp", '#include "exec/backend.hpp"')), 1)
        self.assertEqual(len(errors("src/preload/preload.cpp", '#include "base/error.hpp"')), 1)
        self.assertEqual(len(errors("src/exec/probe.cpp", '#include "fleetblas/fleetblas.h"')), 1)
        self.assertEqual(errors("src/libblas/own.cpp", '#include "preload/names.hpp"'), [])
        self.assertEqual(len(errors("src/preload/front.cpp", '#include "libblas/forward.hpp"')), 1)

    def test_the_environment_is_read_in_options_only(self):
        self.assertEqual(errors("src/base/options.cpp", 'std::getenv("X");'), [])
        self.assertEqual(len(errors("src/blas/context.cpp", 'std::getenv("X");')), 1)

    def test_only_the_cuda_backend_sees_cuda(self):
        self.assertEqual(errors("src/exec/cuda_backend.cpp", "#include <cuda_runtime.h>"), [])
        self.assertEqual(len(errors("src/exec/execute.cpp", "#include <cublas_v2.h>")), 1)

    def test_nothing_prints_or_ends_the_process(self):
        self.assertEqual(len(errors("src/exec/probe.cpp", 'printf("x");')), 1)
        self.assertEqual(len(errors("src/exec/probe.cpp", "std::cerr << 1;")), 1)
        self.assertEqual(len(errors("src/exec/probe.cpp", "std::abort();")), 1)
        self.assertEqual(len(errors("src/exec/probe.cpp", "assert(x);")), 1)
        self.assertEqual(errors("src/exec/probe.cpp", "static_assert(x);"), [])
        self.assertEqual(errors("src/exec/probe.cpp", 'std::snprintf(text, 9, "%f", x);'), [])

    def test_the_model_has_no_threads_clocks_or_files(self):
        for header in ("thread", "mutex", "chrono", "fstream", "random"):
            line = f"#include <{header}>"
            self.assertEqual(len(errors("src/plan/planner.cpp", line)), 1, header)
            self.assertEqual(errors("src/exec/host_backend.cpp", line), [], header)
        self.assertEqual(len(errors("src/plan/planner.cpp", "std::unordered_map<int, int> m;")), 1)

    def test_words_in_comments_and_strings_do_not_count(self):
        self.assertEqual(errors("src/exec/probe.cpp", "// never calls abort()"), [])
        self.assertEqual(errors("src/exec/probe.cpp", 'say("do not abort()");'), [])

    def test_a_file_without_licence_or_with_a_note_to_self_is_found(self):
        self.assertEqual(len(list(findings_in("src/plan/plan.cpp", "int x;\n"))), 1)
        self.assertEqual(len(errors("src/plan/plan.cpp", "// FIX" + "ME later")), 1)

    def test_a_long_file_is_a_warning(self):
        found = list(findings_in("src/plan/plan.cpp", SPDX + "int x;\n" * 500))
        self.assertEqual([is_warning for _, _, is_warning in found], [True])


if __name__ == "__main__":
    unittest.main()
