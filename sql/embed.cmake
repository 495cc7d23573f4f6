# Turns SQL files into C headers, at build time, with nothing but CMake.
#
#   cmake -DDIALECT=postgresql -DSQL=sql/postgresql.sql -DNAMES=sql/statements.txt
#         -DMIGRATIONS=migrations/postgresql -DOUT=sql_postgresql.h -P embed.cmake
#
# Stops the build on a statement that is missing, doubled or unknown, on an unknown fragment, and on
# migrations with gaps.
# Walks the text with FIND and SUBSTRING, never as a CMake list, so that ; [ ] " and \ survive.
cmake_minimum_required(VERSION 3.21)

# Calls <visit>(line) for each line of a text.
function(each_line text visit)
    while(NOT text STREQUAL "")
        string(FIND "${text}" "\n" end)
        if(end EQUAL -1)
            set(line "${text}")
            set(text "")
        else()
            string(SUBSTRING "${text}" 0 ${end} line)
            math(EXPR end "${end} + 1")
            string(SUBSTRING "${text}" ${end} -1 text)
        endif()
        cmake_language(CALL ${visit} "${line}")
    endwhile()
endfunction()

# Appends a line to the C string in the property `text`; comment lines and blank ones are left out.
function(add_c_line line)
    if(line MATCHES "^[ \t]*--" OR line MATCHES "^[ \t]*$")
        return()
    endif()
    string(REPLACE "\\" "\\\\" line "${line}")
    string(REPLACE "\"" "\\\"" line "${line}")
    set_property(GLOBAL APPEND_STRING PROPERTY text "\n        \"${line}\\n\"")
endfunction()

# Which statements this dialect must have: lines "name" (all dialects) or "name dialect dialect".
function(read_name line)
    if(line MATCHES "^#" OR line MATCHES "^[ \t]*$")
        return()
    endif()
    separate_arguments(words UNIX_COMMAND "${line}")
    list(POP_FRONT words name)
    if(NOT words OR DIALECT IN_LIST words)
        set_property(GLOBAL APPEND PROPERTY names "${name}")
    endif()
endfunction()

function(end_statement)
    get_property(name GLOBAL PROPERTY name)
    if(name)
        get_property(text GLOBAL PROPERTY text)
        if(NOT text)
            message(FATAL_ERROR "${SQL}: statement '${name}' is empty")
        endif()
        set_property(GLOBAL PROPERTY statement_${name} "${text}")
    endif()
    set_property(GLOBAL PROPERTY text "")
endfunction()

# "{live l c.now}" becomes the text behind "-- fragment: live = ", with l for ROW and c.now for NOW;
# "{name}" has neither.
function(expand_fragments out line)
    while(line MATCHES "{([a-z_]+) ?([a-z_]*) ?([^{}]*)}")
        set(use "${CMAKE_MATCH_0}")
        set(row "${CMAKE_MATCH_2}")
        set(now "${CMAKE_MATCH_3}")
        get_property(text GLOBAL PROPERTY fragment_${CMAKE_MATCH_1})
        if(NOT text)
            message(FATAL_ERROR "${SQL}: unknown fragment '${CMAKE_MATCH_1}'")
        endif()
        string(REPLACE "ROW" "${row}" text "${text}")
        string(REPLACE "NOW" "${now}" text "${text}")
        string(REPLACE "${use}" "${text}" line "${line}")
    endwhile()
    set(${out} "${line}" PARENT_SCOPE)
endfunction()

function(read_statement line)
    if(line MATCHES "^-- fragment: ([a-z_]+) = (.+)$")
        set_property(GLOBAL PROPERTY fragment_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
        return()
    elseif(NOT line MATCHES "^--")
        expand_fragments(line "${line}")
    endif()
    if(NOT line MATCHES "^-- name: ([a-z_]+)[ \t]*$")
        add_c_line("${line}")
        return()
    endif()
    set(name "${CMAKE_MATCH_1}")
    end_statement()
    get_property(names GLOBAL PROPERTY names)
    if(NOT name IN_LIST names)
        message(FATAL_ERROR "${SQL}: unknown statement '${name}' (sql/statements.txt names them all)")
    endif()
    get_property(seen GLOBAL PROPERTY statement_${name} SET)
    if(seen)
        message(FATAL_ERROR "${SQL}: statement '${name}' appears twice")
    endif()
    set_property(GLOBAL PROPERTY name "${name}")
endfunction()

function(c_text_of_file out file)
    file(READ "${file}" content)
    set_property(GLOBAL PROPERTY text "")
    each_line("${content}" add_c_line)
    get_property(text GLOBAL PROPERTY text)
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(READ "${NAMES}" content)
each_line("${content}" read_name)
file(READ "${SQL}" content)
each_line("${content}" read_statement)
end_statement()

set(enum "")
set(texts "")
set(labels "")
get_property(names GLOBAL PROPERTY names)
foreach(name IN LISTS names)
    get_property(text GLOBAL PROPERTY statement_${name})
    if(NOT text)
        message(FATAL_ERROR "${SQL}: statement '${name}' is missing")
    endif()
    string(TOUPPER "${name}" upper)
    string(APPEND enum "    SQL_${upper},\n")
    string(APPEND texts "    [SQL_${upper}] =${text},\n")
endforeach()

set(steps "")
set(count 0)
file(REAL_PATH "${MIGRATIONS}" MIGRATIONS)
file(GLOB files RELATIVE "${MIGRATIONS}" "${MIGRATIONS}/*.sql")
list(SORT files)
foreach(file IN LISTS files)
    if(file MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)\\.up\\.sql$")
        math(EXPR count "${count} + 1")
        set(number "${CMAKE_MATCH_1}")
        set(name "${CMAKE_MATCH_2}")
        string(REGEX REPLACE "^0+" "" version "${number}")
        if(NOT version EQUAL count)
            message(FATAL_ERROR "${MIGRATIONS}/${file}: expected number ${count}")
        endif()
        if(NOT EXISTS "${MIGRATIONS}/${number}_${name}.down.sql")
            message(FATAL_ERROR "${MIGRATIONS}/${file}: its .down.sql is missing")
        endif()
        c_text_of_file(up "${MIGRATIONS}/${file}")
        c_text_of_file(down "${MIGRATIONS}/${number}_${name}.down.sql")
        string(APPEND steps
            "    {.version = ${version}, .name = \"${name}\",\n     .up =${up},\n     .down =${down}},\n")
    elseif(NOT file MATCHES "^[0-9][0-9][0-9][0-9]_[a-z0-9_]+\\.down\\.sql$")
        message(FATAL_ERROR "${MIGRATIONS}/${file}: not named NNNN_name.up.sql or .down.sql")
    endif()
endforeach()

file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT
"/* Made by sql/embed.cmake from sql/ and migrations/. Do not edit. */
#include \"rowlock/driver.h\"

enum sql_statement {
@enum@    SQL_COUNT
};

static const char *const sql_text[SQL_COUNT] = {
@texts@};

enum { MIGRATION_COUNT = @count@ };

static const rowlock_migration migrations[MIGRATION_COUNT] = {
@steps@};
")
