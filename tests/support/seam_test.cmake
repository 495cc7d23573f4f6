# The core waits, sleeps, locks, starts threads and reads clocks by the functions of src/base only, so
# that the simulator (tests/sim) can stand in for them. Looks at what its object files call.
#
#   cmake -DNM=nm "-DOBJECTS=a.o;b.o" -P seam_test.cmake
cmake_minimum_required(VERSION 3.21)

set(never
    "pthread_.*" "poll|ppoll|__poll_chk|__ppoll_chk|select|pselect|epoll_.*" "syscall|futex"
    "clock_.*|time|gettimeofday|timespec_get" "eventfd.*|timerfd_.*|signalfd"
    "nanosleep|usleep|sleep|sched_.*" "read|write|__read_chk" "close|open|pipe|pipe2|dup.*"
    "getpid|gettid|fork" "getrandom|getentropy|rand|random|arc4random.*"
    "sem_.*|mtx_.*|cnd_.*|thrd_.*|atexit|__cxa_atexit")
list(JOIN never "|" never)

execute_process(COMMAND ${NM} -P -u ${OBJECTS} OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
if(NOT lines MATCHES "\nrlk_mutex_lock ")
    message(FATAL_ERROR "cannot read what the core calls: ${lines}")
endif()
string(REPLACE ";" "," lines "${lines}")
string(REPLACE "\n" ";" lines "${lines}")
set(file "")
foreach(line IN LISTS lines)
    if(line MATCHES "^(.*):$")
        get_filename_component(file "${CMAKE_MATCH_1}" NAME_WLE)
    elseif(line MATCHES "^([^ @]+)")
        string(REGEX REPLACE "^(__interceptor_|__tsan_)" "" name "${CMAKE_MATCH_1}")
        if(name MATCHES "^(${never})$")
            message(SEND_ERROR "${file} calls ${name}(): the core goes through src/base")
        endif()
    endif()
endforeach()
