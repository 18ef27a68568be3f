/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oldest_libstdcxx.h: included into every C++ file of the x86-64 library (see CMakeLists.txt). It
 * asks for std::condition_variable::wait under the version that it had before GCC 12, which did not
 * change what it does: with it, libraries built by GCC 12 load where libstdc++ is of GCC 11
 * (manylinux_2_34: the Enterprise Linux 9 of most clusters).
 */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
#endif
