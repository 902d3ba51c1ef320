#!/usr/bin/env bash
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Installs what the one-node cluster of test/node needs from the distribution:
# containerd, runc, the bridge plugin of CNI, ip, nft and a static busybox. With the
# argument browser, it installs Chromium instead, for test/e2e/browser. Existing
# programs are not changed, and no installed service is started. It needs
# root and, if a program is missing, apt-get.
set -euo pipefail

which=${1:-node}

missing=()
need() { # need PACKAGE FILE...: one of the files, or the package
	local package=$1 file
	shift
	for file in "$@"; do
		if [ -x "$file" ]; then
			return
		fi
	done
	missing+=("$package")
}

case $which in
node)
	need containerd /usr/bin/containerd /usr/local/bin/containerd
	need runc /usr/sbin/runc /usr/bin/runc /usr/local/bin/runc /usr/local/sbin/runc
	need containernetworking-plugins /usr/lib/cni/bridge /opt/cni/bin/bridge
	need iproute2 /usr/sbin/ip /usr/bin/ip /sbin/ip
	need nftables /usr/sbin/nft
	# The package busybox has the same program, but for a system with libraries.
	if ! /bin/busybox 2>&1 </dev/null | grep -q BusyBox || ldd /bin/busybox >/dev/null 2>&1; then
		missing+=(busybox-static)
	fi
	;;
browser) need chromium /usr/bin/chromium ;;
*)
	echo "usage: $0 [node|browser]" >&2
	exit 2
	;;
esac

if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "$0: only root can install ${missing[*]}" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	echo "$0: there is no apt-get; install ${missing[*]} yourself" >&2
	exit 1
fi

# Packages ask this program whether they may start their services.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
echo "installing ${missing[*]}"
apt() { # apt COMMAND...: quiet unless it fails, and not for ever
	local log
	log=$(mktemp)
	if ! timeout 600 apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@" >"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		rm -f "$log"
		echo "$0: apt-get $* failed; see above" >&2
		return 1
	fi
	rm -f "$log"
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
