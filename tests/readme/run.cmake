# Runs EXAMPLE in an empty folder: it gets the lock.
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
execute_process(COMMAND "${EXAMPLE}" WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output MATCHES "mine, with fence [0-9]+")
    message(FATAL_ERROR "exit ${status}: ${output}")
endif()
file(REMOVE_RECURSE "${WORK}")
