# Runs PROGRAM with ARGUMENTS; fails unless it exits with EXIT_CODE and its output matches PATTERN.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT code EQUAL EXIT_CODE)
  message(FATAL_ERROR "exit code ${code} instead of ${EXIT_CODE}:\n${output}")
endif()
if(NOT output MATCHES "${PATTERN}")
  message(FATAL_ERROR "no '${PATTERN}' in:\n${output}")
endif()
