#!/bin/sh
# The paper's name for cpu_usage.sh, which lies beside it.
here=$(dirname "$(readlink -f "$0")")
exec "$here/cpu_usage.sh" "$@"
