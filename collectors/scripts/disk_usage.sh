#!/bin/sh
# Prints how full a file system is, in percent: the one that ESTIMAND_PARAM_PATH lies on, by default the root.
#
# As `df` has it: of what is there for everybody, so that what is kept for the administrator counts as neither.

# Without the option for kibibytes the unit would depend on who runs it.
LC_ALL=C df -P -k -- "${ESTIMAND_PARAM_PATH:-/}" | awk '
    # The columns are counted from the mount point backwards as far as the percentage, since names may have spaces.
    NR == 2 && match($0, / [0-9]+ +[0-9]+ +-?[0-9]+ +[0-9]+% /) {
        split(substr($0, RSTART + 1), columns, / +/)
        used = columns[2]
        usable = columns[2] + columns[3]
        found = usable > 0
    }
    END {
        if (!found) exit 1
        printf "%.2f\n", 100 * used / usable
    }'
