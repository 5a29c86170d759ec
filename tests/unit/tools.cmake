# SPDX-License-Identifier: Apache-2.0
# What the subcommands of `ddl` are made of.
foreach(name args filestore perf_check perf_rows perf_stats plan_view)
  ddl_unit_test(${name} ddl_tools)
endforeach()
