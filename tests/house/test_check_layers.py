# SPDX-License-Identifier: BSD-3-Clause
"""check_layers.py finds each kind of wrong line, and nothing in right ones."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools"))
from check_layers import findings_in

SPDX = "// SPDX-License-Identifier: BSD-3-Clause\n"


def errors(path, line):
    return [why for _, why, is_warning in findings_in(path, SPDX + line + "\n") if not is_warning]


class CheckLayers(unittest.TestCase):
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
