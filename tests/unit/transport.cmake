# SPDX-License-Identifier: Apache-2.0
# Frames over sockets, and the transports between processes.
foreach(name stream shm shm_window tcp tcp_rails)
  ddl_unit_test(${name} ddl_internal)
endforeach()
