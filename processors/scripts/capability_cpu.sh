#!/bin/sh
# The paper's Figure 7 as a shell script: reads how loaded the processors of all nodes are, judges each node by
# Equation (1), and prints the judgements as `format: nodes` reads them:
#
#     {"node-1":{"value":0.5,"spread":0,"samples":1}}
#
# Register it as a processor with the load as its first input. Parameters, as of the built-in `capability_cpu`:
#   cpu_req  what part of a whole machine's processors the program needs, more than 0 and at most 1; 1 if absent
#   reads    free_fraction: the load is an object with freeFraction, or a number of 0 to 1; if absent
#            usage_percent: it is a number of 0 to 100
# A node whose load makes no sense is left out and named on standard error; if there are only such, the run fails.
set -u
export LC_ALL=C

fail() { echo "$*" >&2; exit 1; }

input=${ESTIMAND_INPUTS:-cpu}
input=${input%%,*}
server=${ESTIMAND_SERVER:?the address of the data service is missing}
body=$(curl -fsS --get --data-urlencode "dataName=$input" "${server%/}/api/data") || fail "cannot read $input"

# One token of JSON a line, so that awk needs to know nothing of strings and their escapes.
printf '%s\n' "$body" | grep -oE '"([^"\\]|\\.)*"|[][{}:,]|[^][{}:," ]+' | awk \
    -v req="${ESTIMAND_PARAM_CPU_REQ:-1}" -v reads="${ESTIMAND_PARAM_READS:-free_fraction}" -v input="$input" '
function is_number(text) { return text ~ /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/ }

function complain(text) { print text > "/dev/stderr" }

# Takes the load of one node, as it is written; empty if it was not there.
function judge(node, load,    free, perf) {
    if (load == "null") return
    seen++
    if (!is_number(load)) { complain(node ": the load is " (load == "" ? "not there" : load)); return }
    free = reads == "usage_percent" ? 1 - load / 100 : load + 0
    if (free < -0.01 || free > 1.01) { complain(node ": the load is " load ", which is out of range"); return }
    if (free < 0) free = 0
    perf = free >= req ? 1 : free / req
    out = out sprintf("%s%s:{\"value\":%.17g,\"spread\":0,\"samples\":1}", judged++ ? "," : "", node, perf)
}

BEGIN {
    if (!is_number(req) || req + 0 <= 0 || req + 0 > 1) {
        complain("cpu_req is " req "; expected more than 0 and at most 1"); exit wrong = 1
    }
    if (reads != "free_fraction" && reads != "usage_percent") {
        complain("reads is " reads "; expected free_fraction or usage_percent"); exit wrong = 1
    }
    req += 0
}

# Depth 1 is the array, 2 a value as the service shows it, 3 the load if that is an object.
/^[[{]$/ { if (depth == 2 && key == "\"dataValue\"") load = $0 == "{" ? "" : "a list"; depth++; key = ""; next }
/^[]}]$/ { depth--; key = ""; if (depth == 1) { judge(node, load); node = load = "" } next }
/^,$/    { key = ""; next }
/^:$/    { key = last; next }
         { last = $0 }
key == "" { next }
depth == 2 && key == "\"nodeName\"" { node = $0 }
depth == 2 && key == "\"dataValue\"" { load = $0; if (reads == "usage_percent") next }
depth == 3 && key == "\"freeFraction\"" && reads == "free_fraction" && load == "" { load = $0 }

END {
    if (wrong) exit 1
    if (seen && !judged) { complain("no load of `" input "` makes sense"); exit 1 }
    print "{" out "}"
}'
