# SPDX-License-Identifier: Apache-2.0
# What the subcommands of `ddl` are made of, and the command itself as its users see it.
foreach(name args check_report filestore perf_check perf_measure perf_rows perf_stats plan_traffic plan_view stat_view)
  ddl_unit_test(${name} ddl_tools)
endforeach()
target_link_options(test_perf_measure PRIVATE -Wl,--wrap=ddl_wait)

add_test(NAME unit_tools COMMAND ${PROJECT_SOURCE_DIR}/tests/fabric/runner ${CMAKE_CURRENT_SOURCE_DIR}/tools.bats)
set_tests_properties(unit_tools PROPERTIES LABELS unit TIMEOUT 120 SKIP_RETURN_CODE 77 ENVIRONMENT DDL_BUILD=${CMAKE_BINARY_DIR})
add_test(NAME unit_perf_kernels COMMAND ${PROJECT_SOURCE_DIR}/tests/fabric/runner ${CMAKE_CURRENT_SOURCE_DIR}/kernels.bats)
set_tests_properties(unit_perf_kernels PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT DDL_BUILD=${CMAKE_BINARY_DIR})
add_test(NAME unit_completion COMMAND ${PROJECT_SOURCE_DIR}/tests/fabric/runner ${CMAKE_CURRENT_SOURCE_DIR}/completion.bats)
set_tests_properties(unit_completion PROPERTIES LABELS unit TIMEOUT 120 SKIP_RETURN_CODE 77 ENVIRONMENT DDL_BUILD=${CMAKE_BINARY_DIR})
