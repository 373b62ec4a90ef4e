DELAY=25
mm-delay $DELAY mm-loss uplink 0.01 mm-link traces/12mbps.trace traces/bw48.mahi --uplink-queue=droptail --uplink-queue-args="packets=426" --downlink-queue=codel --downlink-queue-args="packets=100, target=5, interval=100" -- iperf3 -c 1
