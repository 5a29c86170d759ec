# SPDX-License-Identifier: Apache-2.0
# Frames over sockets, and the transports between processes.
foreach(name stream shm shm_window tcp tcp_rails)
  ddl_unit_test(${name} ddl_internal)
endforeach()

# RDMA, over a fabric in one process.
if(DDL_VERBS AND DDL_VERBS_INCLUDE_DIR)
  add_library(fake_verbs STATIC fake_verbs.c fake_verbs_qp.c fake_verbs_wire.c fake_verbs_fabric.c)
  target_link_libraries(fake_verbs PUBLIC ddl_internal)
  foreach(name watch_memory verbs verbs_post verbs_lanes verbs_link verbs_take verbs_random verbs_memory verbs_api verbs_device)
    ddl_unit_test(${name} fake_verbs)
  endforeach()
  ddl_unit_test(survey ddl_tools fake_verbs)
  add_test(NAME long_verbs_random COMMAND test_verbs_random long)
  set_tests_properties(long_verbs_random PROPERTIES LABELS long TIMEOUT 1800)
endif()
