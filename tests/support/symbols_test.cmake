# Compares what a library exports with the committed list, and looks for calls that a library must not
# make: ending the process, writing to a stream, handling signals, changing what the process shares.
#
#   cmake -DNM=nm -DLIBRARY=librowlock.so -DEXPECTED=symbols/rowlock.txt -P symbols_test.cmake
#
# A name that disappears from a list breaks users; one that is added is a promise. To accept a change,
# edit the list.
cmake_minimum_required(VERSION 3.21)

set(never
    exit _exit _Exit quick_exit abort __assert_fail on_exit
    printf vprintf fprintf vfprintf dprintf vdprintf puts fputs putchar putc fputc fwrite perror psignal
    __printf_chk __vprintf_chk __fprintf_chk __vfprintf_chk __dprintf_chk stdout stderr syslog
    err errx warn warnx error
    signal sigaction bsd_signal sysv_signal sigprocmask raise kill
    setenv unsetenv putenv setlocale chdir umask
    rand srand random srandom strtok localtime gmtime ctime asctime
    fork system popen)

# names(<out> <nm option>): the symbols' names, without versions, sorted.
function(names out option)
    execute_process(COMMAND ${NM} -D -P ${option} ${LIBRARY} OUTPUT_VARIABLE lines
                    COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX REPLACE "[ @][^\n]*" "" lines "${lines}")
    string(STRIP "${lines}" lines)
    string(REPLACE "\n" ";" lines "${lines}")
    list(SORT lines)
    set(${out} "${lines}" PARENT_SCOPE)
endfunction()

names(exported --defined-only)
list(REMOVE_ITEM exported ROWLOCK_0)
file(STRINGS "${EXPECTED}" expected)
list(SORT expected)
foreach(name IN LISTS exported)
    if(NOT name IN_LIST expected)
        message(SEND_ERROR "${LIBRARY} exports ${name}, which ${EXPECTED} does not list")
    endif()
endforeach()
foreach(name IN LISTS expected)
    if(NOT name IN_LIST exported)
        message(SEND_ERROR "${LIBRARY} does not export ${name}, which ${EXPECTED} lists")
    endif()
endforeach()

names(called --undefined-only)
if(NOT "vsnprintf" IN_LIST called AND NOT "__vsnprintf_chk" IN_LIST called)
    message(SEND_ERROR "${LIBRARY}: cannot read what it calls: ${called}")
endif()
foreach(name IN LISTS never)
    if(name IN_LIST called)
        message(SEND_ERROR "${LIBRARY} calls ${name}(): a library must not")
    endif()
endforeach()
