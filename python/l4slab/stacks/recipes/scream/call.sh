#!/bin/sh
# call.sh server COUNT | client ADDRESS NUMBER RATE_MIN RATE_START RATE_MAX FPS ECT: a receiver per call, or a sender.
set -eu
here=$(dirname "$0")
receive() {
    LD_PRELOAD=$here/frames.so SCREAM_CALL=$1 exec "$here/scream_bw_test_rx" $((30110 + $1))
}
if [ "$1" = server ]; then
    number=$2
    while [ "$number" -gt 1 ]; do
        receive "$number" &
        number=$((number - 1))
    done
    receive 1
fi
LD_PRELOAD=$here/frames.so SCREAM_CALL=$3 SCREAM_SENDS=1 exec "$here/scream_bw_test_tx" -nosummary -ect "$8" \
    -minrate $(($4 / 1000)) -initrate $(($5 / 1000)) -maxrate $(($6 / 1000)) -fps "$7" "$2" $((30110 + $3))
