# Turns the templates of `rowlock fence-sql` into a C header, at build time. Unlike the statements of the
# drivers they keep their comments: those are for the person who reads the output.
#
#   cmake -DFOLDER=sql/fence -DOUT=fence_sql.h -P embed.cmake
cmake_minimum_required(VERSION 3.21)

# c_text(<out> <text>): as a C string literal, a line each.
function(c_text out text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    set(${out} "    \"${text}\"" PARENT_SCOPE)
endfunction()

# read_block(<out> <file> <name>): the text after "-- name: <name>", up to the next one or the end.
function(read_block out file name)
    file(READ "${file}" text)
    set(start "-- name: ${name}\n")
    string(FIND "${text}" "${start}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "${file}: block '${name}' is missing")
    endif()
    string(LENGTH "${start}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 text)
    string(FIND "${text}" "-- name: " end)
    string(SUBSTRING "${text}" 0 ${end} text)
    string(STRIP "${text}" text)
    c_text(text "${text}\n")
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

set(header "/* Made by sql/fence/embed.cmake. Do not edit. */\n")
foreach(dialect IN ITEMS postgresql mysql sqlite)
    foreach(name IN ITEMS column update trigger)
        read_block(text "${FOLDER}/${dialect}.sql" ${name})
        string(APPEND header "static const char fence_${dialect}_${name}[] =\n${text};\n")
    endforeach()
endforeach()
file(WRITE "${OUT}" "${header}")
