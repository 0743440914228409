#!/bin/sh
# Installs ctxbridge {{VERSION}} into ~/.local/bin, or the folder that CTXBRIDGE_INSTALL_DIR names. Needs no root.
# CTXBRIDGE_BASE_URL names another place to fetch from. The archive is compared with a checksum below, wherever it comes from.

set -eu

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Checksum of the archive for a system; nothing if this release has none.
checksum_for() {
    case "$1" in
        x86_64-unknown-linux-musl) echo '{{SHA256 x86_64-unknown-linux-musl}}' ;;
        aarch64-unknown-linux-musl) echo '{{SHA256 aarch64-unknown-linux-musl}}' ;;
        x86_64-apple-darwin) echo '{{SHA256 x86_64-apple-darwin}}' ;;
        aarch64-apple-darwin) echo '{{SHA256 aarch64-apple-darwin}}' ;;
    esac
}

# Rust's name of this system.
detect() {
    system=$(uname -s)
    machine=$(uname -m)
    case "$system" in
        # The same file for glibc and musl: it is linked with all it needs.
        Linux) suffix=unknown-linux-musl ;;
        Darwin)
            suffix=apple-darwin
            # A shell that Rosetta translates says x86_64 on Apple silicon.
            if [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then
                machine=arm64
            fi
            ;;
        MINGW* | MSYS* | CYGWIN* | Windows*) fail "this is Windows: in PowerShell, run install.ps1 from {{BASE}}" ;;
        *) fail "there is no ctxbridge for $system. This release is for: {{TARGETS}}" ;;
    esac
    case "$machine" in
        x86_64 | amd64) printf '%s' "x86_64-$suffix" ;;
        arm64 | aarch64) printf '%s' "aarch64-$suffix" ;;
        *) fail "there is no ctxbridge for $system on $machine. This release is for: {{TARGETS}}" ;;
    esac
}

# Fetches the address $1 into the file $2.
download() {
    if has curl; then
        curl -fsSL --retry 2 -o "$2" "$1"
    elif has wget; then
        wget -q -O "$2" "$1"
    else
        fail "there is neither curl nor wget; install one of them"
    fi
}

# Prints the SHA-256 of the file $1.
sha256_of() {
    if has sha256sum; then
        sum=$(sha256sum <"$1")
    elif has shasum; then
        sum=$(shasum -a 256 <"$1")
    else
        fail "there is neither sha256sum nor shasum to check the download with; install one of them"
    fi
    printf '%s' "${sum%% *}"
}

# Removes all that is not the installed program. Runs at every end.
clean_up() {
    [ -z "$scratch" ] || rm -rf "$scratch"
    [ -z "$staged" ] || rm -f "$staged"
    # Folders that were made for nothing.
    while [ -n "$existing" ] && [ "$dir" != "$existing" ] && rmdir "$dir" 2>/dev/null; do
        dir=$(dirname "$dir")
    done
}

# Says how to get the folder $1 on the PATH, or that another ctxbridge comes first.
explain_path() {
    case ":$PATH:" in
        *":$1:"*)
            first=$(command -v ctxbridge || true)
            if [ "$first" != "$1/ctxbridge" ]; then
                say "Another one comes first on your PATH, and will run instead: $first"
            fi
            ;;
        *)
            say "That folder is not on your PATH. Add this line to the file that your shell reads when it starts:"
            case "${SHELL:-}" in
                */fish) say "    fish_add_path \"$1\"" ;;
                *) say "    export PATH=\"$1:\$PATH\"" ;;
            esac
            ;;
    esac
}

main() {
    scratch='' staged='' existing=''
    base=${CTXBRIDGE_BASE_URL:-"{{BASE}}"}
    base=${base%/}
    dir=${CTXBRIDGE_INSTALL_DIR:-}
    if [ -z "$dir" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set; name a folder in CTXBRIDGE_INSTALL_DIR"
        dir=$HOME/.local/bin
    fi
    case "$dir" in
        /*) ;;
        *) dir=$PWD/$dir ;;
    esac
    dir=${dir%/}
    target=$(detect)
    expected=$(checksum_for "$target")
    [ -n "$expected" ] || fail "this release has nothing for $target. It is for: {{TARGETS}}"
    has tar || fail "there is no tar to unpack the download with; install it"
    [ ! -d "$dir/ctxbridge" ] || fail "$dir/ctxbridge is a folder; name another one in CTXBRIDGE_INSTALL_DIR"

    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    name="ctxbridge-{{VERSION}}-$target"
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/ctxbridge.XXXXXX") || fail "cannot make a folder in ${TMPDIR:-/tmp}"
    say "Fetching ctxbridge {{VERSION}} for $target"
    download "$base/$name.tar.gz" "$scratch/archive" || fail "cannot fetch $base/$name.tar.gz"
    actual=$(sha256_of "$scratch/archive")
    [ "$actual" = "$expected" ] ||
        fail "what came from $base/$name.tar.gz is not what was released: its SHA-256 is $actual, and should be $expected"
    tar -xzf "$scratch/archive" -C "$scratch" "$name/ctxbridge" || fail "cannot unpack $name.tar.gz"

    folder=$dir
    while [ ! -e "$folder" ]; do
        folder=$(dirname "$folder")
    done
    existing=$folder
    mkdir -p "$dir" || fail "cannot make $dir; name another folder in CTXBRIDGE_INSTALL_DIR"
    # Beside its place, so that the last step is a rename: there is an old program or a new one at any moment.
    staged=$dir/.ctxbridge.$$
    { cp "$scratch/$name/ctxbridge" "$staged" && chmod 755 "$staged"; } ||
        fail "cannot write into $dir; name another folder in CTXBRIDGE_INSTALL_DIR"
    version=$("$staged" --version </dev/null) || fail "the program does not run here; what was there before is as it was"
    mv -f "$staged" "$dir/ctxbridge" || fail "cannot replace $dir/ctxbridge"
    staged='' existing=''

    say "Installed $version as $dir/ctxbridge"
    explain_path "$dir"
    # Where the shell finds it, its name is enough.
    program=ctxbridge
    [ "$(command -v ctxbridge || true)" = "$dir/ctxbridge" ] || program="\"$dir/ctxbridge\""
    say "Next: $program setup"
}

# In the last line, so that a download that was cut off does nothing.
main "$@"
