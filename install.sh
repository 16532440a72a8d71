#!/bin/sh
# Installs the command line of a release, after checking its checksum:
#
#   sh install.sh            the newest release, into ~/.local/bin
#   sh install.sh v0.1.0     that release
#
# DRAY_BIN is another folder, DRAY_RELEASES another place to download from.
set -eu

repository=https://github.com/dray-project/dray
releases=${DRAY_RELEASES:-$repository/releases/download}
folder=${DRAY_BIN:-$HOME/.local/bin}

fail() {
	echo "install.sh: $1" >&2
	exit 1
}

fetch() { # URL FILE
	if command -v curl >/dev/null; then
		curl -fsSL --proto-redir '=https,http' -o "$2" "$1" || fail "cannot download $1"
	elif command -v wget >/dev/null; then
		wget -q -O "$2" "$1" || fail "cannot download $1"
	else
		fail "neither curl nor wget is there"
	fi
}

version=${1:-}
if [ -z "$version" ]; then
	command -v curl >/dev/null || fail "name a version, as in: sh install.sh v0.1.0"
	version=$(curl -fsSLI -o /dev/null -w '%{url_effective}' "$repository/releases/latest") || fail "cannot find the newest release: name a version"
	version=${version##*/}
fi
case $version in
v[0-9]*) ;;
*) fail "version \"$version\": want one as v0.1.0" ;;
esac

case $(uname -s) in
Linux) system=linux ;;
Darwin) system=darwin ;;
*) fail "there is no archive for $(uname -s): see $repository/releases" ;;
esac
case $(uname -m) in
x86_64 | amd64) architecture=amd64 ;;
aarch64 | arm64) architecture=arm64 ;;
*) fail "there is no archive for $(uname -m): see $repository/releases" ;;
esac

archive=dray_${version}_${system}_$architecture.tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
fetch "$releases/$version/checksums.txt" "$work/checksums.txt"
fetch "$releases/$version/$archive" "$work/$archive"

wanted=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/checksums.txt")
[ -n "$wanted" ] || fail "checksums.txt does not list $archive"
if command -v sha256sum >/dev/null; then
	sum=$(sha256sum "$work/$archive")
elif command -v shasum >/dev/null; then
	sum=$(shasum -a 256 "$work/$archive")
else
	fail "neither sha256sum nor shasum is there"
fi
[ "${sum%% *}" = "$wanted" ] || fail "$archive has another checksum than checksums.txt says: nothing is installed"

tar -xzf "$work/$archive" -C "$work" dray
mkdir -p "$folder"
# A running dray keeps the file that it has.
mv "$work/dray" "$folder/.dray.new"
mv "$folder/.dray.new" "$folder/dray"
ln -sf dray "$folder/kubectl-dray"
ln -sf dray "$folder/kubectl_complete-dray"
echo "dray $version is in $folder, also as a plugin of kubectl"
case :$PATH: in
*:"$folder":*) ;;
*) echo "$folder is not in the PATH; add it: export PATH=\"$folder:\$PATH\"" ;;
esac
