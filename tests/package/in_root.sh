#!/bin/sh
# tests/package/in_root.sh ROOT COMMAND...: runs a command in a Debian that lies in the folder ROOT, with the network and
# the devices of this machine.
set -eu

cp /etc/resolv.conf "$1/etc/resolv.conf"
# shellcheck disable=SC2016  # expanded by the inner shell
exec unshare --user --map-root-user --mount sh -eu -c '
  root=$1
  shift
  mount --rbind /dev "$root/dev"
  mount --rbind /proc "$root/proc"
  exec chroot "$root" env -i ${QEMU_CPU:+QEMU_CPU="$QEMU_CPU"} PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
' sh "$@" </dev/null
