# How a test becomes a program and a line in ctest.
#
# A test program is linked with rowlock_testing (everything, nothing hidden) and cmocka. It exits with
# 0, with the number of failures, or with 77 when what it needs is not there (skipped); with
# ROWLOCK_TEST_NO_SKIP=1 in its environment it must fail instead of skipping. Programs that talk to a
# database find it in the environment:
#
#   ROWLOCK_TEST_POSTGRESQL   postgresql://user:password@host:port/rowlock_test, a superuser
#   ROWLOCK_TEST_MYSQL        mysql://user:password@host:port/rowlock_test, with all privileges
#   ROWLOCK_TEST_SQLITE       a folder in which files may be made
#   ROWLOCK_TEST_PGBOUNCER    as ROWLOCK_TEST_POSTGRESQL, through PgBouncer in transaction mode
#   ROWLOCK_TEST_STANDBY      as ROWLOCK_TEST_POSTGRESQL, a hot standby that refuses writes
#   ROWLOCK_TEST_POSTGRESQL_TLS  as ROWLOCK_TEST_POSTGRESQL, a server with TLS; the folder of its
#                             certificates is ROWLOCK_TEST_POSTGRESQL_TLS_CERTIFICATES
#   ROWLOCK_TEST_FOUND_ROWS   if set, the application's own connections to MySQL have CLIENT_FOUND_ROWS
#
# ctest may run programs side by side: each uses tables with a prefix of its own. The label "once" is
# for tests for which one of several builds is enough.

option(ROWLOCK_TESTS_ONCE "Build and register the tests that one preset is enough for, too" ON)
set(ROWLOCK_TEST_PREFIX "" CACHE STRING "Command to run test programs under, as a list: valgrind;-q")
pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka>=1.1.5)

# rlk_is_left_out(<variable> <label>...): nonzero for a test labelled "once" where those are not wanted.
function(rlk_is_left_out out)
    set(${out} 0 PARENT_SCOPE)
    if("once" IN_LIST ARGN AND NOT ROWLOCK_TESTS_ONCE)
        set(${out} 1 PARENT_SCOPE)
    endif()
endfunction()

# What programs and their shared objects are compiled with.
function(rlk_test_target target)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support)
    target_link_libraries(${target} PRIVATE rowlock_testing PkgConfig::cmocka ${ARGN})
    # cmocka 2 deprecates assertions for newer forms that cmocka 1 does not have.
    target_compile_options(${target} PRIVATE -Wno-deprecated-declarations)
endfunction()

# rowlock_test_objects(<target> <source>...)
#
# Compiled once for many programs, which have $<TARGET_OBJECTS:target> among their sources.
function(rowlock_test_objects target)
    add_library(${target} OBJECT ${ARGN})
    rlk_test_target(${target})
endfunction()

# rowlock_test_program(<target> SOURCES <source>... [LIBRARIES <library>...])
#
# The program alone, not registered; for those that several tests share or that tests start.
function(rowlock_test_program target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
        message(FATAL_ERROR "rowlock_test_program(${target} ...): ${arg_UNPARSED_ARGUMENTS}")
    endif()
    add_executable(${target} ${arg_SOURCES})
    rlk_test_target(${target} ${arg_LIBRARIES})
    set_target_properties(${target} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endfunction()

# rowlock_add_test(<ctest name> COMMAND <command>... [LABELS <label>...] [TIMEOUT <seconds>] [SERIAL])
#
# Registers any command. TIMEOUT is 60 unless said, for a machine with nothing else to do; it ends
# what hangs, and so is not reached before four times as long; tests with a longer one start earlier,
# so that a run does not end with a long one alone. SERIAL: no other test of the same
# database runs meanwhile, and none that are not SERIAL: they have the label "alone", and scripts/test
# runs them after all others.
function(rowlock_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "COMMAND;LABELS")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND)
        message(FATAL_ERROR "rowlock_add_test(${name} ...): ${arg_UNPARSED_ARGUMENTS}")
    endif()
    rlk_is_left_out(left_out ${arg_LABELS})
    if(left_out)
        return()
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    if(arg_SERIAL)
        list(APPEND arg_LABELS alone)
        string(REGEX REPLACE ".*[.]" "" database ${name})
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${database})
    endif()
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
                         LABELS "${arg_LABELS}")
endfunction()

# rowlock_test(NAME <ctest name> SOURCES <source>... [LIBRARIES <library>...] [ARGS <argument>...]
#              [LABELS <label>...] [TIMEOUT <seconds>] [DRIVER postgresql|mysql|sqlite] [SERIAL])
#
# One program, one test. The target is the name with "_" for other characters, and "_test" at its end
# ("faults.mysql" gives faults_mysql_test). DRIVER adds the driver's name as a label, and leaves the
# test out when that driver is not built.
function(rowlock_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;TIMEOUT;DRIVER"
                          "SOURCES;LIBRARIES;ARGS;LABELS")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
        message(FATAL_ERROR "rowlock_test(NAME ${arg_NAME} ...): ${arg_UNPARSED_ARGUMENTS}")
    endif()
    get_property(drivers GLOBAL PROPERTY rowlock_drivers)
    rlk_is_left_out(left_out ${arg_LABELS})
    if(left_out OR (arg_DRIVER AND NOT arg_DRIVER IN_LIST drivers))
        return()
    endif()
    string(REGEX REPLACE "[^A-Za-z0-9]" "_" target "${arg_NAME}_test")
    rowlock_test_program(${target} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
    rlk_register("${arg_NAME}" "${arg_SERIAL}" "${arg_TIMEOUT}" "${arg_LABELS};${arg_DRIVER}"
                 ${target} ${arg_ARGS})
endfunction()

# rowlock_test_drivers(NAME <name> SOURCES <source>... [LIBRARIES <library>...] [ARGS <argument>...]
#                      [LABELS <label>...] [TIMEOUT <seconds>] [DRIVERS <driver>...] [SERIAL])
#
# One program <name>_test, registered as <name>.<driver> for each of DRIVERS (all, unless said) that
# is built: with the driver's name as its first argument, before ARGS, and as a label.
function(rowlock_test_drivers)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;TIMEOUT"
                          "SOURCES;LIBRARIES;ARGS;LABELS;DRIVERS")
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
        message(FATAL_ERROR "rowlock_test_drivers(NAME ${arg_NAME} ...): ${arg_UNPARSED_ARGUMENTS}")
    endif()
    rlk_is_left_out(left_out ${arg_LABELS})
    if(left_out)
        return()
    endif()
    string(REGEX REPLACE "[^A-Za-z0-9]" "_" target "${arg_NAME}_test")
    rowlock_test_program(${target} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
    get_property(drivers GLOBAL PROPERTY rowlock_drivers)
    foreach(driver IN LISTS drivers)
        if(NOT arg_DRIVERS OR driver IN_LIST arg_DRIVERS)
            rlk_register("${arg_NAME}.${driver}" "${arg_SERIAL}" "${arg_TIMEOUT}"
                         "${arg_LABELS};${driver}" ${target} ${driver} ${arg_ARGS})
        endif()
    endforeach()
endfunction()

# What rowlock_test() and rowlock_test_drivers() share: parsed arguments, a program and its arguments
# back into a call.
function(rlk_register name serial timeout labels)
    list(REMOVE_ITEM labels "")
    set(options "")
    if(serial)
        list(APPEND options SERIAL)
    endif()
    if(NOT timeout)
        set(timeout 60)
    endif()
    if(ROWLOCK_TEST_PREFIX)
        math(EXPR timeout "${timeout} * 10")
    endif()
    list(POP_FRONT ARGN program)
    rowlock_add_test(${name} COMMAND ${ROWLOCK_TEST_PREFIX} $<TARGET_FILE:${program}> ${ARGN}
                     LABELS ${labels} TIMEOUT ${timeout} ${options})
endfunction()
