# SPDX-License-Identifier: BSD-3-Clause
"""check_layers.py finds each kind of wrong line, and nothing in right ones."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
from check_layers import LIBRARIES, PLACES, ROOMS, crowded_rooms, findings_in, shared_names

SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"


# Of each rule: a file and a line that break it, and a file in which the same line may stand.
BROKEN = {
    "a CUDA header or call outside the CUDA backend": (
        "src/run/execute.cpp",
        "cudaFree(data);",
        "src/backend/cuda/memory.cpp",
    ),
    "reading the environment outside base/options": (
        "src/core/context.cpp",
        'secure_getenv("X");',
        "src/base/options.cpp",
    ),
    "printing outside the log": (
        "src/probe/probe.cpp",
        'std::fprintf(stderr, "");',
        "src/preload/preload.cpp",
    ),
    "ending the process": ("src/core/gate.cpp", "std::quick_exit(1);", "src/libblas/chosen.cpp"),
    "a thread or a lock in the model": (
        "src/sim/simulate.cpp",
        "#include <mutex>",
        "src/backend/sim/backend.cpp",
    ),
    "a clock or a random number in the model": (
        "src/sim/fair_share.hpp",
        "#include <chrono>",
        "src/probe/probe.cpp",
    ),
    "a library loaded by the model": (
        "src/sim/trace.cpp",
        "void* handle = dlopen(path, RTLD_NOW);",
        "src/cpu/library.cpp",
    ),
    "a routine in the planner, which knows matrices, chains and ops": (
        "src/plan/walk.cpp",
        "if (problem.routine == Routine::trsm) return;",
        "src/plan/bound_traffic.cpp",
    ),
    "a file in the model": (
        "src/program/expand.cpp",
        "#include <fstream>",
        "src/machine/machine_json.cpp",
    ),
    "an unordered container in the planner: the same inputs must give the same plan": (
        "src/program/decompose.cpp",
        "std::unordered_set<int> seen;",
        "src/core/plan_cache.hpp",
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
                self.assertEqual(len(errors(f"src/sim/{name}", line)), 1, (name, line))

    def test_an_include_names_a_layer_that_there_is(self):
        self.assertEqual(len(errors("src/schedule/x.cpp", '#include "base/error.hpp"')), 1)
        self.assertEqual(len(errors("src/plan/plan.cpp", '#include "plan.hpp"')), 1)

    def test_programs_are_between_machines_and_plans(self):
        self.assertEqual(errors("src/program/expand.cpp", '#include "machine/machine.hpp"'), [])
        self.assertEqual(errors("src/plan/mover.cpp", '#include "program/decompose.hpp"'), [])
        self.assertEqual(len(errors("src/program/expand.cpp", '#include "plan/plan.hpp"')), 1)
        self.assertEqual(len(errors("src/machine/machine.cpp", '#include "program/tuning.hpp"')), 1)

    def test_a_room_may_include_only_itself_and_those_below(self):
        self.assertEqual(errors("src/plan/plan.cpp", '#include "machine/machine.hpp"'), [])
        self.assertEqual(len(errors("src/plan/plan.cpp", '#include "run/backend.hpp"')), 1)
        self.assertEqual(len(errors("src/preload/preload.cpp", '#include "base/error.hpp"')), 1)
        self.assertEqual(errors("src/preload/preload.cpp", '#include "api/dropin.h"'), [])
        self.assertEqual(errors("src/preload/names.hpp", '#include "problem/arguments.hpp"'), [])
        self.assertEqual(len(errors("src/preload/names.hpp", '#include "problem/problem.hpp"')), 1)
        self.assertEqual(len(errors("src/probe/probe.cpp", '#include "fleetblas/fleetblas.h"')), 1)
        self.assertEqual(errors("src/libblas/own.cpp", '#include "preload/names.hpp"'), [])
        self.assertEqual(len(errors("src/preload/front.cpp", '#include "libblas/forward.hpp"')), 1)

    def test_rooms_side_by_side_do_not_see_each_other(self):
        for room, of in (
            ("tune", "run/backend.hpp"),
            ("run", "tune/tune.hpp"),
            ("recover", "probe/probe.hpp"),
            ("probe", "recover/recover.hpp"),
            ("probe", "backend/host/backend.hpp"),
            ("backend/host", "backend/sim/backend.hpp"),
            ("backend/cuda", "backend/host/memory.hpp"),
            ("core", "backend/cuda/backend.hpp"),
            ("core", "api/boundary.hpp"),
        ):
            self.assertEqual(len(errors(f"src/{room}/x.cpp", f'#include "{of}"')), 1, (room, of))
        line = '#include "backend/device_library.hpp"'
        self.assertEqual(errors("src/backend/cuda/backend.cpp", line), [])

    def test_what_solves_over_ranks_sees_the_public_headers_only(self):
        for room, included, is_fine in (
            ("factor", "fleetblas/fleetblas.h", True),
            ("factor", "dist/matrix.hpp", True),
            ("comm", "dist/grid.hpp", False),
            ("dist", "base/error.hpp", False),
            ("hall", "comm/comm.hpp", False),
        ):
            found = errors(f"lu/{room}/x.cpp", f'#include "{included}"')
            self.assertEqual(not found, is_fine, (room, included))

    def test_rooms_form_no_circle(self):
        for room, below in ROOMS.items():
            for other in below:
                self.assertNotIn(room, ROOMS[other], (room, other))

    def test_no_room_has_over_a_fifth_of_the_lines(self):
        even = {f"src/{room}/x.cpp": 100 for room in "abcde"}
        self.assertEqual(list(crowded_rooms(even)), [])
        self.assertEqual(len(list(crowded_rooms({**even, "src/a/b/y.cpp": 10}))), 1)
        self.assertEqual(list(crowded_rooms({**even, "tests/unit/y.cpp": 999})), [])

    def test_every_room_that_has_a_library_has_one(self):
        self.assertEqual(
            sorted(room for rooms in LIBRARIES for room in rooms),
            sorted(room for room in ROOMS if room != "backend/cuda"),
        )

    def test_files_of_a_library_keep_different_names_to_themselves(self):
        def shared(first, second, where="src/run/y.cpp", around="fleet"):
            files = {"src/cpu/x.cpp": (first, "fleet"), where: (second, around)}
            wrapped = "namespace {} {{\nnamespace {{\n{}\n}}  // namespace\n}}  // namespace {}\n"
            text_of = {p: wrapped.format(n, code, n) for p, (code, n) in files.items()}
            return len(list(shared_names(text_of)))

        for line in (
            "struct Naming {};",
            "enum class Ints { narrow, wide };",
            "constexpr double kSteady = 0.02;",
            "constexpr Naming kNamings[] = {{1, 2}};",
            "bool is_empty(const View& view) { return true; }",
            "#define FLEET_DEFINE(x) x",
        ):
            self.assertEqual(shared(line, line), 1, line)
            self.assertEqual(shared(line, line, "src/plan/y.cpp"), 0, line)  # of another library
            self.assertEqual(shared(line, ""), 0, line)
        struct = "struct Naming {};"
        self.assertEqual(shared(struct, struct, around="fleet::lapack"), 0)
        self.assertEqual(shared(struct, "#include <nlohmann/json.hpp>\n" + struct), 0)
        self.assertEqual(shared("bool is(int a) {", "bool is(double a) {"), 0)  # an overload
        self.assertEqual(shared("bool is(int a) {", "bool is(int b) {"), 1)
        macro = "#define FLEET_X 1"
        self.assertEqual(shared(macro + "\n#undef FLEET_X", macro), 0)

    def test_the_environment_is_read_in_options_only(self):
        self.assertEqual(errors("src/base/options.cpp", 'std::getenv("X");'), [])
        self.assertEqual(len(errors("src/core/context.cpp", 'std::getenv("X");')), 1)

    def test_only_the_cuda_backend_sees_cuda(self):
        self.assertEqual(errors("src/backend/cuda/backend.cpp", "#include <cuda_runtime.h>"), [])
        self.assertEqual(len(errors("src/run/execute.cpp", "#include <cublas_v2.h>")), 1)

    def test_nothing_prints_or_ends_the_process(self):
        self.assertEqual(len(errors("src/probe/probe.cpp", 'printf("x");')), 1)
        self.assertEqual(len(errors("src/probe/probe.cpp", "std::cerr << 1;")), 1)
        self.assertEqual(len(errors("src/probe/probe.cpp", "std::abort();")), 1)
        self.assertEqual(len(errors("src/probe/probe.cpp", "assert(x);")), 1)
        self.assertEqual(errors("src/probe/probe.cpp", "static_assert(x);"), [])
        self.assertEqual(errors("src/probe/probe.cpp", 'std::snprintf(text, 9, "%f", x);'), [])

    def test_the_model_has_no_threads_clocks_or_files(self):
        for header in ("thread", "mutex", "chrono", "fstream", "random"):
            line = f"#include <{header}>"
            self.assertEqual(len(errors("src/plan/planner.cpp", line)), 1, header)
            self.assertEqual(errors("src/backend/host/backend.cpp", line), [], header)
        clock = '#include "base/clock.hpp"'
        self.assertEqual(len(errors("src/plan/planner.cpp", clock)), 1)
        self.assertEqual(errors("src/probe/probe.cpp", clock), [])
        self.assertEqual(len(errors("src/plan/planner.cpp", "std::unordered_map<int, int> m;")), 1)

    def test_words_in_comments_and_strings_do_not_count(self):
        self.assertEqual(errors("src/probe/probe.cpp", "// never calls abort()"), [])
        self.assertEqual(errors("src/probe/probe.cpp", 'say("do not abort()");'), [])

    def test_a_file_without_licence_or_with_a_note_to_self_is_found(self):
        self.assertEqual(len(list(findings_in("src/plan/plan.cpp", "int x;\n"))), 1)
        self.assertEqual(len(errors("src/plan/plan.cpp", "// FIX" + "ME later")), 1)

    def test_a_long_file_is_a_warning(self):
        found = list(findings_in("src/plan/plan.cpp", SPDX + "int x;\n" * 500))
        self.assertEqual([is_warning for _, _, is_warning in found], [True])


if __name__ == "__main__":
    unittest.main()
