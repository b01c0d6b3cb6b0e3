# SPDX-License-Identifier: Apache-2.0
# Included by ctest: one test per suite of a GoogleTest program, in parts where a suite is long. One
# process per case would start the programs, and build the tiny models, a thousand times.
function(unmask_discover_suites name program limit)
  if(NOT EXISTS ${program})
    add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
    return()
  endif()
  execute_process(COMMAND ${program} --gtest_list_tests OUTPUT_VARIABLE listed
                  RESULT_VARIABLE failed)
  if(failed)
    add_test(${name}_DOES_NOT_LIST_ITS_TESTS ${program} --gtest_list_tests)
    return()
  endif()
  string(REGEX REPLACE "[][;\\\\]" "," listed "${listed}")  # signs that CMake's lists would read
  string(REPLACE "\n" ";" listed "${listed}")
  set(suite "")
  set(cases 0)
  foreach(line IN LISTS listed ITEMS "end.")
    if(line MATCHES "^  ")
      math(EXPR cases "${cases} + 1")
    elseif(line MATCHES "^([^ ]+)\\.")
      set(next ${CMAKE_MATCH_1})
      if(cases GREATER 0)
        math(EXPR parts "(${cases} + 19) / 20")
        math(EXPR last "${parts} - 1")
        foreach(part RANGE ${last})
          set(test ${name}.${suite})
          if(parts GREATER 1)
            string(APPEND test .${part})
          endif()
          add_test(${test} ${program} "--gtest_filter=${suite}.*" --gtest_brief=1)
          # A test counts as skipped only where every case of it was: one that failed passes none either.
          set_tests_properties(${test} PROPERTIES TIMEOUT ${limit}
            SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests[^F]*SKIPPED"
            ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part}")
          # CUDA's kernels on the emulator: the half of the time that `ctest -LE device` leaves out.
          if("${name}.${suite}" MATCHES "device")
            set_tests_properties(${test} PROPERTIES LABELS device)
          endif()
        endforeach()
      endif()
      set(suite ${next})
      set(cases 0)
    endif()
  endforeach()
endfunction()
