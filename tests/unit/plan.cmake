# SPDX-License-Identifier: Apache-2.0
# The tests of plan/.
ddl_unit_test(options ddlplan)
ddl_unit_test(hostlist ddlplan)
ddl_unit_test(topology ddlplan)
ddl_unit_test(plan ddlplan)
ddl_unit_test(plan_memory ddlplan)
target_link_options(test_plan_memory PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
