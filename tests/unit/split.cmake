# SPDX-License-Identifier: Apache-2.0
# Communicators split from communicators, over transport/loop.
ddl_unit_test(keep ddl_internal)
ddl_unit_test(split ddl_internal)
