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
# A user's programs see the file system of the user's machine, read only, but for what belongs to a kernel.
users_root() {
    busybox mkdir -p "$1" && busybox mount -t hostfs -r -o / none "$1" && busybox mount -t proc proc "$1/proc" &&
        busybox mount -t sysfs sys "$1/sys" && busybox mount -t tmpfs dev "$1/dev" || return 1
    for d in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
        set -- "$1" $d
        busybox mknod -m 666 "$1/dev/$2" c "$3" "$4"
    done
    busybox mkdir -p "$1/dev/shm" "$1/dev/net" "$1/dev/out" && busybox mknod -m 666 "$1/dev/net/tun" c 10 200 && busybox ln -s /proc/self/fd "$1/dev/fd" &&
        busybox mount -t hostfs -o "$OUT/programs" none "$1/dev/out"
}
if [ -d /out/programs ]; then
    users_root /run/host || { echo "FAILED: the file system of this machine cannot be mounted for the programs"; end; }
    busybox hostname l4slab
fi
cd /tmp
echo "kernel $(busybox uname -r)"
echo "controls $(busybox cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
echo 2000000 2000000 2000000 >/proc/sys/net/ipv4/tcp_mem
echo 1000000 >/proc/sys/fs/nr_open
if sh /out/setup.sh >/dev/null 2>/tmp/errors; then
    "${0%/*}/lab" /out/plan /out && sh /out/teardown.sh >/out/teardown.txt 2>&1 && echo "DONE"
else
    echo "FAILED: the laboratory cannot be set up: $(busybox head -c 300 /tmp/errors | busybox tr '\n' ' ')"
fi
end
