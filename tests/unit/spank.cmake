# SPDX-License-Identifier: Apache-2.0
# What the Slurm plugin is made of, without Slurm: the few calls that it needs of it are in the tests.
if(DDL_SPANK)
  foreach(name step settings controller)
    ddl_unit_test(${name} ddlplan Threads::Threads)
    target_sources(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/spank/${name}.c)
    target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/spank)
    target_include_directories(test_${name} SYSTEM PRIVATE ${DDL_SLURM_HEADERS})
  endforeach()
endif()
