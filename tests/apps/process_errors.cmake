# Bad input, as a user meets it: one sentence on stderr that names the thing and the value, nothing on stdout, no run.
set(inputs ${CMAKE_CURRENT_BINARY_DIR}/bad_inputs)
file(WRITE ${inputs}/malformed.jsonl "{\"timestamp\":0,\"input_length\":32,\"output_length\":4,\"hash_ids\":[1,2],\"session_id\":0}\n"
                                     "{\"timestamp\":0,\"input_length\":32,\"output_length\":-4,\"hash_ids\":[1,2],\"session_id\":0}\n")
file(WRITE ${inputs}/not_json.jsonl "a line of prose\n")
file(WRITE ${inputs}/empty.jsonl "")
file(WRITE ${inputs}/unknown_key.toml "agents = 2\npolcy = \"basic\"\n")
file(WRITE ${inputs}/mamba/config.json "{\"architectures\": [\"MambaForCausalLM\"], \"model_type\": \"mamba\", \"hidden_size\": 64}\n")
file(MAKE_DIRECTORY ${inputs}/empty_model)

# dualpath_refused(spec exit_code pattern argument...): run from the source folder.
function(dualpath_refused name exit_code pattern)
  add_test(NAME "test_apps: ${name}"
           COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:dualpath> -DEXIT_CODE=${exit_code} "-DPATTERN=${pattern}"
                   "-DARGUMENTS=${ARGN}" -P ${CMAKE_CURRENT_SOURCE_DIR}/run_refused.cmake)
  set_tests_properties("test_apps: ${name}" PROPERTIES TIMEOUT 60 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

set(run run --trace traces/swe_agent.jsonl --agents 1 --max-rounds 1 --scale-tokens 0.1 --no-progress)
dualpath_refused("a model folder that does not exist is refused by name" 2 "'no_such_model' is not a model"
                 ${run} --model no_such_model)
dualpath_refused("a model folder without a model is refused by the file that is missing" 2 "empty_model/config.json"
                 ${run} --model ${inputs}/empty_model)
dualpath_refused("a model of another architecture is refused by its name" 1 "MambaForCausalLM"
                 ${run} --model ${inputs}/mamba)
dualpath_refused("a block store that cannot be written is refused by its path" 1 "/proc/dualpath"
                 ${run} --store /proc/dualpath)
dualpath_refused("a malformed trace is refused with file, line and reason" 2 "malformed.jsonl:2: .*output_length"
                 run --trace ${inputs}/malformed.jsonl)
dualpath_refused("a trace that is no JSON is refused with file and line" 2 "not_json.jsonl:1: "
                 run --trace ${inputs}/not_json.jsonl)
dualpath_refused("a trace without a request is refused" 2 "empty.jsonl" run --trace ${inputs}/empty.jsonl)
dualpath_refused("a run of a missing trace is refused by name" 2 "no_such_trace.jsonl" run --trace no_such_trace.jsonl)
dualpath_refused("a run without a trace is refused with what to add" 2 "--trace" run)
dualpath_refused("a cluster without a prefill node is refused" 2 "'0P1D'" ${run} --cluster 0P1D)
dualpath_refused("a negative bandwidth is refused" 2 "--snic-bandwidth: .*-1GB/s" ${run} --snic-bandwidth=-1GB/s)
dualpath_refused("an unknown key of a configuration file is refused with its line" 2
                 "unknown_key.toml:2: .*'polcy'.*'policy'" run --config ${inputs}/unknown_key.toml)
dualpath_refused("an unknown policy is refused with the choices" 2 "'best' is not a policy.*dualpath" ${run} --policy best)
dualpath_refused("a pool too small for the longest request is refused with its need" 2 "--hbm" ${run} --hbm 4KiB)
dualpath_refused("contexts beyond the model are refused with the limit" 2 "tokens" ${run} --scale-tokens 100)
dualpath_refused("a transport that does not exist is refused" 1 "no_such_transport" ${run} --transports no_such_transport)

dualpath_refused("a machine with two roles is refused" 2 "'gpu07' is given two roles"
                 ${run} --nodes gpu07=decode --nodes gpu07=prefill)
dualpath_refused("more machines of a role than the cluster has nodes are refused" 2
                 "the role decode to gpu07, gpu08, but --cluster 1P1D has 1 decode node"
                 ${run} --nodes gpu07=decode --nodes gpu08=decode)
dualpath_refused("an empty cluster that no node can join is refused" 2 "add --listen" ${run} --cluster 0P0D)
dualpath_refused("a fault that names a node is refused where all nodes are in one process" 2 "'error:put:1@0' names a node"
                 ${run} --inject error:put:1@0)

# A checkpoint that was cut off, as by a full disk.
add_test(NAME "test_apps: a truncated safetensors file is refused by name"
         COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:dualpath> -DFOLDER=${inputs}/truncated "-DARGUMENTS=${run}"
                 -P ${CMAKE_CURRENT_SOURCE_DIR}/run_truncated_model.cmake)
set_tests_properties("test_apps: a truncated safetensors file is refused by name"
                     PROPERTIES TIMEOUT 60 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
