# SPDX-License-Identifier: Apache-2.0
# What run.bats starts: the bootstrap alone, without a communicator.
add_executable(pmix_exchange pmix_exchange.c)
target_link_libraries(pmix_exchange PRIVATE ddl_internal)
set_target_properties(pmix_exchange PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# What split.bats starts.
add_executable(split_parts split_parts.c)
target_link_libraries(split_parts PRIVATE ddl)
set_target_properties(split_parts PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
ddl_bats_test(split)
# What kin.bats starts.
add_executable(kin kin.c)
target_link_libraries(kin PRIVATE ddl)
set_target_properties(kin PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
ddl_bats_test(kin)
# What mem.bats starts.
add_executable(mem_kill mem_kill.c)
target_link_libraries(mem_kill PRIVATE ddl)
set_target_properties(mem_kill PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
ddl_bats_test(mem)
