# Runs sql/embed.cmake on small folders: each mistake stops it with a line that names it, and odd
# characters reach the C string unharmed.
#
#   cmake -DEMBED=... -DCC=... -DINCLUDE=... -DWORK=... -P embed_test.cmake
cmake_minimum_required(VERSION 3.21)

set(good "-- name: take\nSELECT 1;\n-- name: give\nSELECT 2;\n")

# A fresh folder: names, statements, and migrations as pairs of file name and text.
function(make_case sql)
    file(REMOVE_RECURSE "${WORK}")
    file(WRITE "${WORK}/names.txt" "# comment\ntake\ngive\nonly_there other\n\nonly_here here too\n")
    file(WRITE "${WORK}/in.sql" "${sql}")
    foreach(name IN LISTS ARGN)
        file(WRITE "${WORK}/steps/${name}.sql" "SELECT '${name}';\n")
    endforeach()
endfunction()

function(embed dialect)
    execute_process(
        COMMAND ${CMAKE_COMMAND} -DDIALECT=${dialect} -DSQL=${WORK}/in.sql -DNAMES=${WORK}/names.txt
                -DMIGRATIONS=${WORK}/steps -DOUT=${WORK}/out.h -P ${EMBED}
        RESULT_VARIABLE rc ERROR_VARIABLE said OUTPUT_VARIABLE said)
    string(REGEX REPLACE "[ \n]+" " " said "${said}")
    set(rc "${rc}" PARENT_SCOPE)
    set(said "${said}" PARENT_SCOPE)
endfunction()

# expect_stop(<what it must say> <sql> <migration>...)
function(expect_stop words sql)
    make_case("${sql}" ${ARGN})
    embed(plain)
    if(rc EQUAL 0)
        message(SEND_ERROR "was accepted, wanted: ${words}")
    elseif(NOT said MATCHES "${words}")
        message(SEND_ERROR "wanted: ${words}\nsaid: ${said}")
    elseif(EXISTS "${WORK}/out.h")
        message(SEND_ERROR "left a header behind: ${words}")
    endif()
endfunction()

set(pair 0001_locks.up 0001_locks.down)

expect_stop("in.sql: statement 'give' is missing" "-- name: take\nSELECT 1;\n" ${pair})
expect_stop("in.sql: statement 'take' appears twice" "${good}-- name: take\nSELECT 3;\n" ${pair})
expect_stop("in.sql: statement 'give' appears twice" "${good}-- name: give\nSELECT 3;\n" ${pair})
expect_stop("in.sql: unknown statement 'gove'" "${good}-- name: gove\nSELECT 3;\n" ${pair})
expect_stop("in.sql: unknown statement 'only_there'" "${good}-- name: only_there\nSELECT 3;\n" ${pair})
expect_stop("in.sql: statement 'take' is empty" "-- name: take\n-- hm\n\n-- name: give\nSELECT 2;\n"
            ${pair})
expect_stop("in.sql: statement 'give' is empty" "-- name: take\nSELECT 1;\n-- name: give\n" ${pair})
expect_stop("in.sql: unknown fragment 'dead'" "-- fragment: live = ROW.a > NOW\n${good}AND {dead l now()}\n"
            ${pair})
expect_stop("0003_more.up.sql: expected number 2" "${good}" ${pair} 0003_more.up 0003_more.down)
expect_stop("0001_again.up.sql: expected number|0001_locks.up.sql: expected number" "${good}" ${pair}
            0001_again.up 0001_again.down)
expect_stop("0002_more.up.sql: expected number 1" "${good}" 0002_more.up 0002_more.down)
expect_stop("0002_more.up.sql: its .down.sql is missing" "${good}" ${pair} 0002_more.up)
expect_stop("0002_more.sql: not named" "${good}" ${pair} 0002_more)

# Statements of another dialect are not asked for; those of this one are.
make_case("${good}" ${pair})
embed(plain)
if(NOT rc EQUAL 0)
    message(SEND_ERROR "refused a good folder: ${said}")
endif()
embed(here)
if(NOT said MATCHES "statement 'only_here' is missing")
    message(SEND_ERROR "did not ask for the dialect's own statement: ${said}")
endif()

# Odd characters: compile what comes out and compare it with what went in.
make_case([==[
-- fragment: live = (ROW.a > NOW)
-- fragment: one = 1 + 0
-- name: take
SELECT "a;b", [x], '\', "\n" ;; -- ${WORK} @CC@ $ENV{HOME}
  -- left out
  FROM t WHERE [a = ']' AND c = '%s' AND "é" # 1;

-- name: give
SELECT [;
WHERE {live l now()} OR NOT {live k c.now} OR {one};
]==] 0001_a.up 0001_a.down 0002_b.up 0002_b.down)
embed(plain)
file(WRITE "${WORK}/main.c" [==[
#include <string.h>
#include "out.h"
int main(void)
{
    return !(SQL_COUNT == 2 && MIGRATION_COUNT == 2 && migrations[1].version == 2 &&
             strcmp(migrations[1].name, "b") == 0 &&
             strcmp(migrations[0].up, "SELECT '0001_a.up';\n") == 0 &&
             strcmp(migrations[1].down, "SELECT '0002_b.down';\n") == 0 &&
             strcmp(sql_text[SQL_GIVE],
                    "SELECT [;\nWHERE (l.a > now()) OR NOT (k.a > c.now) OR 1 + 0;\n") == 0 &&
             strcmp(sql_text[SQL_TAKE],
                    "SELECT \"a;b\", [x], '\\', \"\\n\" ;; -- ${WORK} @CC@ $ENV{HOME}\n"
                    "  FROM t WHERE [a = ']' AND c = '%s' AND \"\xc3\xa9\" # 1;\n") == 0);
}
]==])
execute_process(COMMAND ${CC} -I${INCLUDE}/rowlock -I${INCLUDE} -o ${WORK}/main ${WORK}/main.c
                RESULT_VARIABLE rc)
if(rc EQUAL 0)
    execute_process(COMMAND ${WORK}/main RESULT_VARIABLE rc)
endif()
if(NOT rc EQUAL 0)
    file(READ "${WORK}/out.h" header)
    message(SEND_ERROR "odd characters did not survive: ${said}\n${header}")
endif()
