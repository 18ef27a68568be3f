# SPDX-License-Identifier: BSD-3-Clause
"""One module per command, each with add_arguments(parser) and execute(arguments) -> exit status."""
