# SPDX-License-Identifier: BSD-3-Clause
# join_tests.cmake: joins several test files into one, so that their headers are compiled once. The
# unnamed namespace of each file becomes a namespace with the name of the file.
#
# usage: cmake -DOUT=FILE "-DSOURCES=FILE;FILE" -P join_tests.cmake
set(joined "")
foreach(source ${SOURCES})
  get_filename_component(name ${source} NAME_WE)
  file(READ ${source} text)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} {\n" text "${text}")
  # Compiler and test messages refer to the original file.
  string(APPEND joined "#line 1 \"${source}\"\n${text}\n")
endforeach()
file(WRITE ${OUT} "${joined}")
