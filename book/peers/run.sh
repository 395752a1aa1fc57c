#!/usr/bin/env bash
# Runs the defects of this directory with other tools and prints their messages. Needs Debian's oclgrind and
# pocl-opencl-icd, and a Python with numpy, pyopencl, numba and triton, whose name is PYTHON. The book's page
# "Comparison with other tools" quotes recorded.txt, the output of this script.
set -u
cd "$(dirname "$0")" || exit 1
python=${PYTHON:-python3}
export PYTHONWARNINGS=ignore
kernels="missing_barrier missing_warp_barrier blocks_race out_of_bounds neighbor uninitialized divergent_barrier"

echo "== $(oclgrind --version 2>&1 | grep Oclgrind | head -1), oclgrind-kernel --data-races --uninitialized"
for kernel in $kernels; do
    said=$(timeout 60 oclgrind-kernel --data-races --uninitialized "$kernel.sim" 2>&1)
    code=$?
    echo "$kernel: exit $code"
    # Each kind of message once, with its first line.
    echo "$said" | awk '
        /^(Read|Write|Invalid|Uninitialized|Work-group|Index)/ {
            message = $0
            sub(/ at .*| address .*| detected.*/, "", message)
            sub(/Index \([0-9]+\)/, "Index", message)
        }
        /At line/ && message != "" { if (!seen[message]++) print "    " message ", line " $3; message = "" }'
done

echo "== $($python -c 'import pyopencl; print(next(p for p in pyopencl.get_platforms() if "Portable" in p.name).version)')"
for kernel in $kernels; do
    said=$(timeout 60 "$python" pocl_kernels.py "$kernel" 2>/dev/null)
    code=$?
    echo "$kernel: exit $code; ${said:-nothing is printed}"
done

echo "== numba $($python -c 'import numba; print(numba.__version__)'), NUMBA_ENABLE_CUDASIM=1"
for kernel in $kernels; do
    said=$(NUMBA_ENABLE_CUDASIM=1 timeout 60 "$python" numba_kernels.py "$kernel" 2>/dev/null)
    echo "$kernel: exit $?; $said"
done

echo "== Triton $($python -c 'import triton; print(triton.__version__)'), TRITON_INTERPRET=1"
for kernel in out_of_bounds blocks_race; do
    said=$(TRITON_INTERPRET=1 timeout 60 "$python" triton_kernels.py "$kernel" 2>/dev/null)
    echo "$kernel: exit $?; $said"
done
