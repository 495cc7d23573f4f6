# Compiles each public header alone, and use.h, as C99, C11 and C++17 with every warning an error.
#
#   cmake -DCC=... -DHEADERS=a.h,b.h -DINCLUDE=... -DUSE=use.h -DWORK=... -P header_test.cmake
cmake_minimum_required(VERSION 3.21)

string(REPLACE "," ";" HEADERS "${HEADERS}")
list(LENGTH HEADERS count)
if(count LESS 6)
    message(FATAL_ERROR "only ${count} headers: ${HEADERS}")
endif()

set(compilers "${CC}:c99" "${CC}:c11")
foreach(pair IN ITEMS gcc:c99 gcc:c11 g++:c++17 clang:c99 clang:c11 clang++:c++17)
    string(REPLACE ":" ";" parts "${pair}")
    list(GET parts 0 name)
    find_program(found_${name} ${name})
    if(found_${name})
        list(APPEND compilers "${pair}")
    endif()
endforeach()

# strict(<compiler> <standard> <include line>)
function(strict compiler standard text)
    set(language c)
    set(suffix c)
    if(standard MATCHES "^c\\+\\+")
        set(language c++)
        set(suffix cc)
    endif()
    file(WRITE "${WORK}/one.${suffix}" "${text}\n")
    execute_process(
        COMMAND ${compiler} -x ${language} -std=${standard} -Wall -Wextra -Wpedantic -Werror -Wundef
                -fsyntax-only -I${INCLUDE} ${WORK}/one.${suffix}
        RESULT_VARIABLE rc ERROR_VARIABLE said)
    if(NOT rc EQUAL 0)
        string(SUBSTRING "${said}" 0 1500 said)
        message(SEND_ERROR "${compiler} -std=${standard}: ${text}\n${said}")
    endif()
endfunction()

foreach(pair IN LISTS compilers)
    string(REPLACE ":" ";" parts "${pair}")
    list(GET parts 0 compiler)
    list(GET parts 1 standard)
    foreach(header IN LISTS HEADERS)
        strict(${compiler} ${standard} "#include <${header}>\nextern int not_empty;")
    endforeach()
    strict(${compiler} ${standard} "#include \"${USE}\"")
endforeach()
