# SPDX-License-Identifier: BSD-3-Clause
# join_tests.cmake: writes several test files into one, so that the headers are compiled once for
# all of them. Each keeps its unnamed namespace to itself, under the name of its file.
#
# usage: cmake -DOUT=FILE "-DSOURCES=FILE;FILE" -P join_tests.cmake
set(joined "")
foreach(source ${SOURCES})
  get_filename_component(name ${source} NAME_WE)
  file(READ ${source} text)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} {\n" text "${text}")
  # What a compiler or a test reports is about the file that was written by hand.
  string(APPEND joined "#line 1 \"${source}\"\n${text}\n")
endforeach()
file(WRITE ${OUT} "${joined}")
