# SPDX-License-Identifier: Apache-2.0
# How ranks find each other, what a node has, and the plan in force.
ddl_unit_test(facts ddl_internal)
ddl_unit_test(cores ddl_internal)
ddl_unit_test(merge ddl_internal)
ddl_unit_test(boot ddl_internal)
ddl_unit_test(settings_rdma ddl_internal)
