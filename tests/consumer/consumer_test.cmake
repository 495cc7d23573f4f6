# Builds and installs rowlock into WORK/prefix, checks what was installed, and builds and runs programs
# in C and C++ against it, found by find_package() and by pkg-config.
#
#   cmake -DKIND=shared|static -DSOURCE=... -DDRIVERS=a,b -DCC=... -DNM=... -DGENERATOR=... -DWORK=...
#         -P consumer_test.cmake
cmake_minimum_required(VERSION 3.21)

set(prefix ${WORK}/prefix)
set(shared ON)
set(type Release)
if(KIND STREQUAL "static")
    set(shared OFF)
    set(type Debug) # one is enough to see what an optimizing compiler says; this is quicker
endif()
string(REPLACE "," ";" drivers "${DRIVERS}")
find_program(CXX NAMES c++ g++ clang++ REQUIRED)
find_program(PKG_CONFIG NAMES pkg-config pkgconf REQUIRED)

# run(<what> <command>...): stops the test with the output when the command fails.
function(run what)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE rc OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT rc EQUAL 0)
        message(FATAL_ERROR "${what} (${rc}):\n${said}")
    endif()
    set(said "${said}" PARENT_SCOPE)
endfunction()

function(must_exist)
    foreach(path IN LISTS ARGN)
        file(GLOB found ${prefix}/${path})
        if(NOT found)
            message(SEND_ERROR "not installed: ${path}")
        endif()
    endforeach()
endfunction()

# lock_with(<program>): runs it on a new file.
function(lock_with program)
    file(REMOVE_RECURSE ${WORK}/data)
    file(MAKE_DIRECTORY ${WORK}/data)
    run("${program}" ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/lib ${program} ${WORK}/data/x.db)
    if(NOT said MATCHES "locked and released")
        message(SEND_ERROR "${program} said: ${said}")
    endif()
endfunction()

# ---- install ----

file(REMOVE_RECURSE ${prefix} ${WORK}/project ${WORK}/programs)
set(switches "")
foreach(driver IN ITEMS postgresql mysql sqlite)
    string(TOUPPER ${driver} upper)
    if(driver IN_LIST drivers)
        list(APPEND switches -DROWLOCK_${upper}=ON)
    else()
        list(APPEND switches -DROWLOCK_${upper}=OFF)
    endif()
endforeach()
run(configure ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=${type}
    -DCMAKE_C_COMPILER=${CC} -DROWLOCK_WERROR=ON -DROWLOCK_TESTS=OFF -DBUILD_SHARED_LIBS=${shared}
    -DCMAKE_INSTALL_LIBDIR=lib ${switches})
run(build ${CMAKE_COMMAND} --build ${WORK}/build -j 2)
run(install ${CMAKE_COMMAND} --install ${WORK}/build --prefix ${prefix})

must_exist(include/rowlock/rowlock.h include/rowlock/driver.h include/rowlock/version.h
           lib/pkgconfig/rowlock.pc lib/cmake/rowlock/rowlock-config.cmake
           lib/cmake/rowlock/rowlock-config-version.cmake)
foreach(driver IN LISTS drivers)
    must_exist(lib/librowlock-${driver}.* lib/pkgconfig/rowlock-${driver}.pc
               share/rowlock/migrations/${driver}/0001_locks.up.sql
               share/rowlock/migrations/${driver}/0001_locks.down.sql)
endforeach()
file(STRINGS ${SOURCE}/include/rowlock/version.h numbers REGEX "VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" numbers "${numbers}")
string(REPLACE ";" "." version "${numbers}")
list(GET numbers 0 major)
if(shared)
    must_exist(lib/librowlock.so lib/librowlock.so.${major} lib/librowlock.so.${version})
    foreach(library IN ITEMS rowlock ${drivers})
        string(REGEX REPLACE "^(postgresql|mysql|sqlite)$" "rowlock-\\1" library "${library}")
        run("symbols of ${library}" ${CMAKE_COMMAND} -DNM=${NM} -DLIBRARY=${prefix}/lib/lib${library}.so
            -DEXPECTED=${SOURCE}/tests/support/symbols/${library}.txt
            -P ${SOURCE}/tests/support/symbols_test.cmake)
    endforeach()
endif()

# ---- the command, which finds its libraries by itself ----

foreach(command IN ITEMS "migrate;up;--db;x.db" "run;--db;x.db;name;--;true" "doctor;--db;x.db")
    file(MAKE_DIRECTORY ${WORK}/command)
    run("rowlock ${command}" ${CMAKE_COMMAND} -E chdir ${WORK}/command
        ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ${prefix}/bin/rowlock ${command})
endforeach()
foreach(driver IN LISTS drivers)
    run("rowlock with ${driver}" ${prefix}/bin/rowlock migrate print --dialect ${driver})
endforeach()
if(shared)
    set(driver ${prefix}/lib/librowlock-sqlite.so.${major})
    file(RENAME ${driver} ${WORK}/away)
    execute_process(COMMAND ${prefix}/bin/rowlock list --db x.db RESULT_VARIABLE rc ERROR_VARIABLE said)
    file(RENAME ${WORK}/away ${driver})
    if(NOT rc EQUAL 69 OR NOT said MATCHES "^rowlock: cannot load the sqlite driver: [^\n]+\n$")
        message(SEND_ERROR "without its driver (${rc}): ${said}")
    endif()
endif()

# ---- find_package ----

run("configure the user's project" ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer/project
    -B ${WORK}/project -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_C_COMPILER=${CC}
    -DDRIVERS=${DRIVERS})
run("build the user's project" ${CMAKE_COMMAND} --build ${WORK}/project)
lock_with(${WORK}/project/consumer_c)
lock_with(${WORK}/project/consumer_cc)

# ---- pkg-config ----

set(ENV{PKG_CONFIG_PATH} ${prefix}/lib/pkgconfig)
set(modules "")
set(have "")
foreach(driver IN LISTS drivers)
    list(APPEND modules rowlock-${driver})
    list(APPEND have -DHAVE_${driver})
endforeach()
run("version by pkg-config" ${PKG_CONFIG} --modversion rowlock ${modules})
if(NOT said MATCHES "^(${version}\n)+$")
    message(SEND_ERROR "pkg-config says version ${said}, the header ${version}")
endif()
run("flags by pkg-config" ${PKG_CONFIG} --cflags --libs ${modules})
separate_arguments(flags UNIX_COMMAND "${said}")
file(MAKE_DIRECTORY ${WORK}/programs)
run("compile C by pkg-config" ${CC} -std=c99 -Wall -Wextra -Wpedantic -Werror ${have}
    ${SOURCE}/tests/consumer/project/consumer.c -o ${WORK}/programs/c ${flags})
run("compile C++ by pkg-config" ${CXX} -std=c++17 -Wall -Wextra -Wpedantic -Werror
    ${SOURCE}/tests/consumer/project/consumer.cc -o ${WORK}/programs/cc ${flags})
lock_with(${WORK}/programs/c)
lock_with(${WORK}/programs/cc)
