#!/bin/sh
# The first program in the virtual machine. $OUT: the run's folder on the host, put to /out.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
end() {
    busybox sync
    busybox poweroff -f
}
for m in "proc /proc" "sysfs /sys" "tmpfs /tmp" "tmpfs /run" "tmpfs /dev"; do
    set -- $m
    busybox mount -t "$1" none "$2" || { echo "FAILED: $2 cannot be mounted"; end; }
done
busybox mknod /dev/null c 1 3
busybox mknod /dev/urandom c 1 9
busybox mount -t hostfs -o "$OUT" none /out || { echo "FAILED: the run's folder cannot be mounted"; end; }
cd /tmp
echo "kernel $(busybox uname -r)"
echo "controls $(busybox cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
echo 2000000 2000000 2000000 >/proc/sys/net/ipv4/tcp_mem
echo 1000000 >/proc/sys/fs/nr_open
if sh /out/setup.sh >/dev/null 2>/tmp/errors; then
    /lab/lab /out/plan /out && sh /out/teardown.sh >/out/teardown.txt 2>&1 && echo "DONE"
else
    echo "FAILED: the laboratory cannot be set up: $(busybox head -c 300 /tmp/errors | busybox tr '\n' ' ')"
fi
end
