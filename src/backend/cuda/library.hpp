// SPDX-License-Identifier: BSD-3-Clause
// library.hpp: NVIDIA's libraries, found at run time. It must not know what is called in them.
#pragma once
#include <string>
#include <vector>

namespace fleet::cuda {

/// The first of these that can be loaded: one that the program has loaded already, one of the
/// nvidia wheels beside this library, one on the library path, or one in the toolkit's folder.
/// `names`: of its file, best first. `wheel`: its folder where it has a wheel of its own
/// ("cublas"). nullptr: there is none.
void* open_library(const std::vector<std::string>& names, const std::string& wheel);

/// The file in which a function of a loaded library lies, or `otherwise`.
std::string file_of(void* function, const std::string& otherwise);

}  // namespace fleet::cuda
