# SPDX-License-Identifier: Apache-2.0
# Schedules, kernels, and the engine over transport/loop.
foreach(stem sched sched_allreduce sched_blocks sched_wires multiring cost cost_uplinks tuning reduce kernels blocks ulp rounding audit engine engine_algorithms engine_collectives request_buffers ids persistent pace priority serve serve_turns mem)
  ddl_unit_test(${stem} ddl_internal)
endforeach()
# What rounding may take, and the order of reductions.
foreach(stem accuracy choose reproducible)
  ddl_unit_test(${stem} ddl_internal)
endforeach()
# These read JSON that the engine wrote.
foreach(stem stats dump)
  ddl_unit_test(${stem} ddl_internal PkgConfig::JANSSON)
endforeach()
# The end of a program takes libcrypto down.
ddl_unit_test(serve_exit ddl_internal PkgConfig::CRYPTO)
add_test(NAME long_persistent COMMAND test_persistent long)
set_tests_properties(long_persistent PROPERTIES LABELS long TIMEOUT 1200)
if(TARGET fake_verbs)
  ddl_unit_test(engine_verbs fake_verbs)
  target_link_libraries(test_persistent PRIVATE fake_verbs)
  target_compile_definitions(test_persistent PRIVATE WITH_FAKE_VERBS)
endif()
