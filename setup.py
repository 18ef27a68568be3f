# SPDX-License-Identifier: BSD-3-Clause
"""Names the wheel: one for every Python 3, but only for the platform of the libraries inside."""

import pathlib

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

LIBRARIES = pathlib.Path(__file__).parent / "python" / "fleetblas" / "lib"


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        if not (LIBRARIES / "libfleetblas.so").exists():
            raise SystemExit(f"{LIBRARIES} has no libfleetblas.so: run make first")
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class PlatformPackage(Distribution):
    """With libraries, though none of them is an extension module: they belong into platlib."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"bdist_wheel": PlatformWheel}, distclass=PlatformPackage)
