#!/bin/sh
# An endpoint by the contract of the QUIC Interop Runner, in the unpacked file system of its image:
#
#     endpoint.sh ROLE IMAGE DIRECTORY ENTRY PARAMETERS BYTES [SERVER SERVER6 NUMBER]
#
# A program of l4slab is root of its virtual machine, whose files are read only. So the endpoint gets a root folder of its
# own in memory: the image's folders, a copy of its /etc, and those of the contract. /logs is kept in {out}.
set -eu
here=$(dirname "$0")
if [ -z "${L4SLAB_ENDPOINT-}" ]; then
    L4SLAB_ENDPOINT=1 exec unshare --mount sh "$0" "$@"
fi
unset L4SLAB_ENDPOINT
role=$1 image=$2 directory=$3 entry=$4 parameters=$5 bytes=$6 server=${7-} server6=${8-} number=${9-1}

root=$(mktemp -d)
mount -t tmpfs root "$root"
for path in "$image"/* "$image"/.[!.]*; do
    name=${path##*/}
    case $name in
    dev | proc | sys | run | tmp | etc | logs | www | certs | downloads | setup.sh | wait-for-it.sh) continue ;;
    esac
    if [ -L "$path" ] || [ -f "$path" ]; then
        cp -a "$path" "$root/"
    elif [ -d "$path" ]; then
        mkdir "$root/$name"
        mount --bind "$path" "$root/$name"
    fi
done
cd "$root"
mkdir -p dev proc sys run tmp etc logs www certs downloads
chmod 1777 tmp
for name in dev proc sys; do
    mount --rbind "/$name" "$name"
done
if [ -d "$image/etc" ]; then
    cp -a "$image/etc/." etc
fi

# The endpoint finds the names of the runner's hosts. Routes and offloads are l4slab's affair, and nobody has to wait.
rm -f etc/hosts
{
    echo "127.0.0.1 localhost sim"
    if [ -n "$server" ]; then
        echo "$server server server4 server46"
        echo "$server6 server6 server46"
    fi
} >etc/hosts
for name in setup.sh wait-for-it.sh; do
    printf '#!/bin/sh\n' >$name
    chmod 755 $name
done
cp "$here/ca.pem" "$here/cert.pem" "$here/priv.key" certs
# The runner's case ipv6 is a transfer from the server's other address.
host=server4
if [ "${TESTCASE-}" = ipv6 ]; then
    host=server6 TESTCASE=transfer
fi
logs=/dev/out/logs-$role-$number
mkdir -p "$logs/qlog"
mount --bind "$logs" logs
if [ "$role" = server ]; then
    truncate -s "$bytes" "www/$bytes"
    export SERVER_PARAMS="$parameters"
else
    export CLIENT_PARAMS="$parameters" REQUESTS="${REQUESTS-https://$host:443/$bytes}" WAITFORSERVER=$host:443
fi
export ROLE=$role TESTCASE="${TESTCASE-transfer}" SSLKEYLOGFILE=/logs/keys.log QLOGDIR=/logs/qlog/
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp
unset LD_LIBRARY_PATH PYTHONPATH VIRTUAL_ENV
status=0
chroot "$root" /bin/sh -c 'cd "$1" && exec "$2"' sh "$directory" "$entry" || status=$?
if [ $status -eq 127 ]; then
    echo "the endpoint does not support the test case $TESTCASE" >&2
fi
if [ "$role" = client ] && [ $status -eq 0 ]; then
    got=$(stat -c %s "downloads/$bytes" 2>/dev/null || echo no)
    if [ "$got" != "$bytes" ]; then
        echo "/downloads/$bytes has $got bytes" >&2
        status=1
    fi
fi
exit $status
