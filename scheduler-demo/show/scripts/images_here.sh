#!/bin/sh
# The images in this node's own folder, as a JSON array of their names.
cd "$ESTIMAND_PARAM_NODES/$ESTIMAND_NODE" || exit 1
separator=''
printf '['
for image in *.jpg; do
    [ -e "$image" ] || continue
    printf '%s"%s"' "$separator" "$image"
    separator=','
done
printf ']\n'
