# SPDX-License-Identifier: Apache-2.0
# Debian packages, by CPack: the split is that of rpm/ddl.spec. `make deb` calls it with -DDDL_DEB=ON and prefix /usr, once for the
# plugin, whose release carries the series of Slurm it fits, and once for all else.
if(NOT DDL_DEB)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL lib devel tools python doc)
set(CPACK_PACKAGE_NAME ddl)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The DDL for Slurm developers <ddl@example.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_STRIP_FILES ON)

# package COMPONENT NAME SUMMARY DETAIL
function(ddl_deb component name summary detail)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${summary}\n${detail}" PARENT_SCOPE)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/deb/copyright DESTINATION share/doc/${name} COMPONENT ${component})
endfunction()

ddl_deb(lib libddl${PROJECT_VERSION_MAJOR} "all-reduce along the switches that Slurm knows of: the library"
  "Persistent collectives over shared memory, RDMA and TCP along the plan of a job.")
# opened at run time where there are RDMA devices
set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS "libibverbs1, ibverbs-providers")
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_GENERATE_SHLIBS ON)
ddl_deb(devel libddl-dev "all-reduce along the switches that Slurm knows of: headers"
  "Headers, ddl.pc, the package file of CMake, and the manual pages of all functions.")
set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS "libddl${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION}-1)")
ddl_deb(tools ddl-tools "all-reduce along the switches that Slurm knows of: the command ddl"
  "Shows the plan of a job, what a node has, how fast it is and what a job that hangs waits for.")
ddl_deb(python python3-ddl "all-reduce along the switches that Slurm knows of: from Python and training frameworks"
  "The collectives of libddl on numpy arrays and whatever else shows its memory, and a back end of\ntorch.distributed. Frameworks are not required.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3, libddl${PROJECT_VERSION_MAJOR} (>= ${PROJECT_VERSION})")
ddl_deb(doc ddl-doc "all-reduce along the switches that Slurm knows of: documents" "Design, text form of plans, precision and platforms.")
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
file(GLOB documents ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/doc/*.md)
install(FILES ${documents} DESTINATION share/doc/ddl-doc COMPONENT doc)

if(DDL_SPANK)
  # The plugin loads into the release series it was built for only. Both slurmd and Slurm's commands come with the package of plugins.
  file(STRINGS ${DDL_SLURM_HEADERS}/slurm/slurm_version.h number REGEX "define SLURM_VERSION_NUMBER")
  string(REGEX MATCH "0x[0-9a-fA-F]+" number "${number}")
  math(EXPR year "${number} >> 16")
  math(EXPR month "(${number} >> 8) & 255")
  math(EXPR after "${month} + 1")
  foreach(part year month after)
    string(REGEX REPLACE "^(.)$" "0\\1" ${part} ${${part}})
  endforeach()
  list(APPEND CPACK_COMPONENTS_ALL spank)
  set(DDL_DEB_SPANK_RELEASE 1+sl${year}${month})
  ddl_deb(spank slurm-spank-ddl "Slurm plugin that gives jobs a plan along the switches (--ddl)"
    "The SPANK plugin of DDL for Slurm ${year}.${month}. Nothing happens until plugstack.conf includes\n/etc/slurm/plugstack.conf.d/ddl.conf, and then only to jobs that ask for it by --ddl.")
  # A conflict, since dpkg lets an upgrade break a dependency.
  set(CPACK_DEBIAN_SPANK_PACKAGE_DEPENDS "slurm-wlm-basic-plugins")
  set(CPACK_DEBIAN_SPANK_PACKAGE_CONFLICTS
    "slurm-wlm-basic-plugins (<< ${year}.${month}~), slurm-wlm-basic-plugins (>= ${year}.${after}~)")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/conffiles "/etc/slurm/plugstack.conf.d/ddl.conf\n")
  set(CPACK_DEBIAN_SPANK_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/conffiles)
  file(WRITE ${PROJECT_BINARY_DIR}/spank-release ${DDL_DEB_SPANK_RELEASE})
endif()
include(CPack)
