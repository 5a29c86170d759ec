# SPDX-License-Identifier: Apache-2.0
# Frames over sockets, and the transports between processes.
foreach(name stream shm shm_window tcp tcp_rails)
  ddl_unit_test(${name} ddl_internal)
endforeach()
if(DDL_VERBS AND DDL_VERBS_INCLUDE_DIR)
  ddl_unit_test(watch_memory ddl_internal)
endif()
