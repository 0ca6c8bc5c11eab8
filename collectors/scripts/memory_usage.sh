#!/bin/sh
# Prints how much of this machine's memory is in use, in percent.
#
# What is used is what is not available: a cache that would be given up for a program counts as free.

awk '
    $1 == "MemTotal:" { total = $2 }
    $1 == "MemAvailable:" { available = $2; known = 1 }
    # Kernels before 3.14 do not say what is available.
    $1 == "MemFree:" || $1 == "Buffers:" || $1 == "Cached:" { estimate += $2 }
    END {
        if (total <= 0) exit 1
        if (!known) available = estimate
        printf "%.2f\n", 100 * (1 - available / total)
    }' /proc/meminfo
