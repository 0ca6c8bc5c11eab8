#!/bin/sh
# Prints how busy this machine's processors were within the last second, in percent.
#
# The kernel counts ticks since the start of the machine; how busy it is shows only between two looks.

# Sets `idle` and `total` from the first line of the kernel's table.
look() {
    read -r _ user nice system idle iowait irq softirq steal _ < /proc/stat
    idle=$((idle + iowait))
    total=$((user + nice + system + idle + irq + softirq + steal))
}

look
idle_before=$idle total_before=$total
sleep "${ESTIMAND_PARAM_SECONDS:-1}"
look

awk -v idle=$((idle - idle_before)) -v total=$((total - total_before)) \
    'BEGIN { if (total <= 0) exit 1; printf "%.2f\n", 100 * (1 - idle / total) }'
