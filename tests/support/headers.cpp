// SPDX-License-Identifier: BSD-3-Clause
// headers.cpp: the source that the precompiled header of the tests is made for.
