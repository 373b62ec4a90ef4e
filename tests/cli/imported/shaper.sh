#!/bin/bash
TC=/sbin/tc
IF=${1:-eth0}
UP=20
$TC qdisc del dev $IF root 2>/dev/null
$TC qdisc add dev $IF root handle 1: htb default 30
$TC class add dev $IF parent 1: classid 1:1 htb rate ${UP}mbit \
   burst 15k
for i in 1 2; do echo $i; done
tc class add dev $IF parent 1:1 classid 1:10 htb rate 5mbit ceil ${UP}mbit prio 1
tc class add dev $IF parent 1:1 classid 1:30 htb rate $((UP/2))mbit ceil ${UP}mbit prio 2
tc qdisc add dev $IF parent 1:10 handle 10: sfq perturb 10
tc qdisc add dev $IF parent 1:30 handle 30: hfsc default 1
tc filter add dev $IF protocol ip parent 1:0 prio 1 u32 match ip dst 10.0.0.5/32 flowid 1:10
tc filter add dev $IF protocol ip parent 1:0 prio 1 u32 match ip tos 0xb8 0xfc flowid 1:10
tc filter add dev $IF protocol ip parent 1:0 prio 2 u32 match ip dport 22 0xffff flowid 1:10
tc filter add dev $IF parent 1: protocol ip handle 6 fw classid 1:30
tc qdisc add dev $IF handle ffff: ingress
tc filter add dev $IF parent ffff: protocol ip prio 50 u32 match ip src 0.0.0.0/0 police rate 8mbit burst 10k drop flowid :1
tc qdisc add dev lan0 root handle 1: netem delay 50ms 5ms loss 0.5%
tc qdisc add dev lan0 parent 1:1 handle 10: tbf rate 10mbit burst 32kbit latency 400ms
tc qdisc add dev wlan0 root tbf rate $UNKNOWN burst 10k limit 10k
sudo tc qdisc replace dev dsl0 root handle 1: tbf rate 1mbit burst 5k latency 50ms
sudo tc qdisc add dev dsl0 parent 1:1 fq_codel
