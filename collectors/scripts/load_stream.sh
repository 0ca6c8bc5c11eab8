#!/bin/sh
# A collector of the stream mode: prints the load averages as a line of JSON, at once and whenever it is asked with an
# empty line, until nobody can ask any more.

answer() {
    read -r one five fifteen _ </proc/loadavg || return 1
    printf '{"one":%s,"five":%s,"fifteen":%s}\n' "$one" "$five" "$fifteen"
}

answer || exit 1
while read -r _; do
    answer || exit 1
done
