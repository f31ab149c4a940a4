#!/usr/bin/env bash
# Run a command, by default "make demo" and "make test", in a fresh clone on Debian 13 with its own Python 3.13: as a plain
# user, in a path with a space. It needs root, debootstrap and Debian's keys (the package debian-archive-keyring).
#
# The system is bootstrapped once, into $DEBIAN13; each run works on a layer above it, which is removed afterwards.
# A chroot would not do: Linux makes no user namespaces in one, which the sandbox needs. So a run has a mount namespace of
# its own, and pivot_root changes its root.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
base=${DEBIAN13:-/var/tmp/attention-book-debian13}
packages=python3,python3-venv,git,make,ca-certificates,bubblewrap,chromium,dbus-x11 # debootstrap finds no virtual packages: dconf needs it

bootstrap() {
  # the mirror that this machine itself uses, where it is a Debian; sed reads to the end, else apt-get would fail
  local mirror
  mirror=$({ apt-get indextargets --format '$(REPO_URI)' 2> /dev/null || true; } | sed -n '\|/debian/\?$|h; ${g; p}')
  mirror=${mirror:-http://deb.debian.org/debian}
  rm -rf --one-file-system "$base.new" # what an interrupted run left
  debootstrap --variant=minbase --include="$packages" trixie "$base.new" "$mirror"
  rm -rf "$base.new/var/cache/apt/archives"
  mv "$base.new" "$base"
}

# In a mount namespace of its own: prepare the layer, enter it, and run the command as a plain user.
enter() {
  local layer=$1
  shift
  mount -t overlay overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
  cd "$layer/root"
  # how this machine reaches the network and its package index
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    [ ! -e "$file" ] || cp -L "$file" ".$file"
  done
  mkdir -p "home/reader/with a space"
  git clone -q "file://$repository" "home/reader/with a space/attention-book"
  mount -t proc proc proc
  mount --rbind /dev dev
  mkdir host
  pivot_root . host
  cd /
  umount -l /host
  useradd --shell /bin/bash --home-dir /home/reader reader
  chown -R reader:reader /home/reader
  cd "/home/reader/with a space/attention-book"
  local index=()
  for name in PIP_INDEX_URL PIP_CERT UV_DEFAULT_INDEX SSL_CERT_FILE http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || index+=("$name=${!name}")
  done
  runuser -u reader -- env -i HOME=/home/reader PATH=/usr/bin:/bin LANG=C.UTF-8 "${index[@]}" "$@"
}

if [ "${1:-}" = --enter ]; then
  enter "${@:2}"
  exit
fi
[ "$(id -u)" = 0 ] || { echo "$0 mounts file systems: run it as root" >&2; exit 1; }
[ $# -gt 0 ] || set -- bash -c "make demo && make test"
[ -d "$base" ] || bootstrap
layer=$(mktemp -d /var/tmp/attention-book-run.XXXXXX)
trap 'rm -rf --one-file-system "$layer"' EXIT
mkdir "$layer/upper" "$layer/work" "$layer/root"
unshare --mount --pid --fork --kill-child "$0" --enter "$layer" "$@"
