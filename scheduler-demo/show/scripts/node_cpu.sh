#!/bin/sh
# What part of this node's processor time is free, where that is not measured but told in a file.
read -r free < "$ESTIMAND_PARAM_PACE/$ESTIMAND_NODE/free" || exit 1
printf '{"freeFraction":%s}\n' "$free"
