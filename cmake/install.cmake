# SPDX-License-Identifier: BSD-3-Clause
# Installs the built files in two layouts: as a system library (the default component, under a
# prefix), and into the Python package (component `python`, under python/fleetblas), whose folder is
# itself the prefix.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed_targets fleetblas fleetblas_linpack)
if(TARGET fleetblas_preload)
  list(APPEND installed_targets fleetblas_preload)
endif()

# Within fleetblas_install: the .pc file of another library beside libfleetblas.
macro(install_part name is needs)
  set(part ${name})
  set(part_is "${is}")
  set(part_needs "${needs}")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/fleetblas_part.pc.in ${staging}/${part}.pc @ONLY)
  install(FILES ${staging}/${part}.pc DESTINATION ${pkgconfigdir} ${rule})
endmacro()

# One call per layout. The config file and the .pc file derive the prefix from their own location,
# so an installed tree can be moved.
function(fleetblas_install component libdir includedir cmakedir pkgconfigdir machinesdir docdir)
  if(component STREQUAL "python")
    set(rule COMPONENT python EXCLUDE_FROM_ALL)
  else()
    set(rule COMPONENT ${component})
  endif()
  set(staging ${CMAKE_BINARY_DIR}/install-${component})

  install(TARGETS ${installed_targets} LIBRARY DESTINATION ${libdir} ${rule})
  install(TARGETS fleetblas_libblas LIBRARY DESTINATION ${libdir}/${FLEETBLAS_LIBBLAS_FOLDER} ${rule})
  # Optional: its kernels take long to build, and nothing else needs it.
  if(TARGET fleetblas_cuda)
    install(TARGETS fleetblas_cuda LIBRARY DESTINATION ${libdir} ${rule} OPTIONAL)
  endif()
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/fleetblas DESTINATION ${includedir} ${rule})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/machines/ DESTINATION ${machinesdir} ${rule}
          FILES_MATCHING PATTERN *.json)
  if(docdir)
    install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${docdir} ${rule})
  endif()

  set(config_libdir ${libdir})
  set(config_includedir ${includedir})
  configure_package_config_file(
    ${CMAKE_SOURCE_DIR}/cmake/fleetblas-config.cmake.in ${staging}/fleetblas-config.cmake
    INSTALL_DESTINATION ${cmakedir} PATH_VARS config_libdir config_includedir
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  # Before 1.0 a minor version may change the interface.
  write_basic_package_version_file(${staging}/fleetblas-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${staging}/fleetblas-config.cmake ${staging}/fleetblas-config-version.cmake
          DESTINATION ${cmakedir} ${rule})

  if(pkgconfigdir)
    file(RELATIVE_PATH pc_to_prefix /prefix/${pkgconfigdir} /prefix)
    configure_file(${CMAKE_SOURCE_DIR}/cmake/fleetblas.pc.in ${staging}/fleetblas.pc @ONLY)
    install(FILES ${staging}/fleetblas.pc DESTINATION ${pkgconfigdir} ${rule})
    install_part(fleetblas_linpack "Simulated Linpack on clusters" "")
    if(TARGET fleetblas_mpi AND component STREQUAL "system")
      install_part(fleetblas_mpi "Products and equations over the ranks of an MPI program" " -lfleetblas")
    endif()
  endif()
endfunction()

# Not in the Python package: an MPI is the machine's.
if(TARGET fleetblas-linpack)
  install(TARGETS fleetblas-linpack RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT system)
  file(RELATIVE_PATH bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(fleetblas-linpack PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}"
                        INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS fleetblas_mpi fleetblas_scalapack LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT system)
  set_target_properties(fleetblas_mpi fleetblas_scalapack PROPERTIES INSTALL_RPATH "$ORIGIN"
                        INSTALL_RPATH_USE_LINK_PATH ON)
endif()
fleetblas_install(system ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR}
                  ${CMAKE_INSTALL_LIBDIR}/cmake/fleetblas ${CMAKE_INSTALL_LIBDIR}/pkgconfig
                  ${CMAKE_INSTALL_DATADIR}/fleetblas/machines ${CMAKE_INSTALL_DOCDIR})
fleetblas_install(python lib include cmake lib/pkgconfig machines "")
