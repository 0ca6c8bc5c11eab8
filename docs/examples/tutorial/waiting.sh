#!/bin/sh
# How many jobs wait on this node: the files in its folder of the spool.
ls "$ESTIMAND_PARAM_SPOOL/$ESTIMAND_NODE" | wc -l
