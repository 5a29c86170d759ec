# SPDX-License-Identifier: Apache-2.0
# What the Slurm plugin is made of, without Slurm: the few calls that it needs of it are in the tests.
if(DDL_SPANK)
  foreach(name step settings controller)
    ddl_unit_test(${name} spank_parts ddlplan)
  endforeach()
endif()
