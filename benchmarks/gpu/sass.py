"""Instructions of the loops of every kernel, from its machine code; fails when a kernel misses its bar.

  sass.py [LIBRARY] [--gpu sm_90a] [--real float|double]     default: build/cuda/cuda/libmlff_cuda.a

A loop is code that ends with a jump back to its begin, without the loops within. All of it is counted, also what jumps
forward may skip. Of a kernel the MOST_LOOPS with most sums are listed that have at least half of the most. Columns:

  instructions   of the loop
  sums           multiply-adds of a lane: FFMA or DFMA; of tensor cores those that are wanted (three products are taken
                 for one: tensor.h), divided by 32
  per sum        instructions / sums
  global, shared, copies   loads and stores with their bits for a lane; copies from global to shared memory
  generic        loads and stores of which the compiler does not know where they go: slower than either

cuobjdump and nvdisasm are those of the CUDA Toolkit or of `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`.
"""

import argparse
import collections
import glob
import math
import os
import re
import shutil
import subprocess
import sys
import typing

import registers

# Most instructions for a multiply-add in the tightest loop with FEWEST of them or more, in float, by kernel. Those of
# message_backward_kernel copy adjoints ahead, with which it waits less, and have the making of lines, once in 32 edges.
FEWEST = 16
BARS = {
    r"linear_kernel<\d,8,": 1.25,
    r"linear_mixed_kernel<\d,128,128,": 0.22,
    r"linear_mixed_kernel<": 0.45,
    r"linear_groups_kernel<\d,128,128,": 0.12,
    r"linear_groups_kernel<": 0.22,
    r"atoms_kernel": 1.5,
    r"message_kernel<0,": 2.3,
    r"message_backward_kernel<0,2,": 3.6,
    r"message_backward_kernel<0,4,": 2.7,
}
NOT_EVERYWHERE = "linear_groups_kernel"  # empty but for sm_90a
MOST_LOOPS = 2
SKIPPED = 77
FUNCTION = re.compile(r"^\s*Function : (\w+)")
LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)((?:\.\w+)*)\s*(.*?);")
# Multiply-adds of a warp: HMMA.1688 is 16 x 8 x 8; HGMMA.64x64x16 is that of four warps.
SHAPES = {"1688": 16 * 8 * 8, "16816": 16 * 8 * 16, "1684": 16 * 8 * 4, "884": 8 * 8 * 4}
SHAPES |= {f"64x{n}x16": 64 * n * 16 / 4 for n in (64, 128)}
TENSOR_PRODUCTS = 3
BITS = re.compile(r"\.(8|16|32|64|128)\b|\.[US](8|16)\b")


class Instruction(typing.NamedTuple):
    """`FFMA.FTZ R1, R2, R3, R4` at an address: kind FFMA, modifiers .FTZ."""

    address: int
    kind: str
    modifiers: str
    operands: str


def tools():
    """The environment in which cuobjdump finds nvdisasm, None without them."""
    here = glob.glob(os.path.join(sys.prefix, "lib", "python3*", "site-packages", "nvidia", "*", "bin"))
    path = os.pathsep.join([*here, os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
    return {**os.environ, "PATH": path} if all(shutil.which(p, path=path) for p in ("cuobjdump", "nvdisasm")) else None


def functions(text):
    """{mangled name: [Instruction]} of what cuobjdump -sass prints."""
    found, name = collections.defaultdict(list), None
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            name = match.group(1)
        elif name and (match := LINE.match(line)):
            found[name].append(Instruction(int(match.group(1), 16), *match.groups()[1:]))
    return found


def loops(code):
    """The loops of a function: lists of its instructions, without those of loops within."""
    where = {line.address: k for k, line in enumerate(code)}
    spans = []
    for k, line in enumerate(code):
        target = re.search(r"0x([0-9a-f]+)\s*$", line.operands)
        if line.kind == "BRA" and target and int(target.group(1), 16) < line.address:
            spans.append((where[int(target.group(1), 16)], k))
    own = []
    for a, b in spans:
        within = [(c, d) for c, d in spans if (c, d) != (a, b) and a <= c and d <= b]
        own.append([line for k, line in enumerate(code[a : b + 1], a) if not any(c <= k <= d for c, d in within)])
    return own


def count(code, *kinds):
    return sum(line.kind in kinds for line in code)


def sums(loop):
    """Multiply-adds of a lane."""
    n = count(loop, "FFMA", "DFMA")
    for line in loop:
        if line.kind in ("HMMA", "HGMMA", "DMMA"):
            n += next(SHAPES[word] for word in line.modifiers.split(".") if word in SHAPES) / 32 / TENSOR_PRODUCTS
    return n


def widths(loop, *kinds):
    """`4 x 128, 2 x 32`: loads, stores or copies of these kinds by bits."""
    found = collections.Counter()
    for line in loop:
        if line.kind in kinds:
            bits = BITS.search(line.modifiers)
            found[int(bits.group(1) or bits.group(2)) if bits else 32] += 1
    return ", ".join(f"{n} x {bits}" for bits, n in sorted(found.items(), reverse=True)) or "-"


def row(name, loop):
    n = sums(loop)
    return {
        "kernel": name,
        "instructions": len(loop),
        "sums": f"{n:.4g}",
        "per sum": f"{len(loop) / n:.2f}" if n else "-",
        "global": widths(loop, "LDG", "STG"),
        "shared": widths(loop, "LDS", "LDSM", "STS"),
        "copies": widths(loop, "LDGSTS"),
        "generic": count(loop, "LD", "ST"),
    }


def read(library, gpu, real, env):
    """{kernel: its loops, those with most sums first} of one GPU and element type; of the objects of that type where
    the library lies beside them, since reading takes long."""
    folder = "mlff_cuda_f64.dir" if real == "double" else "mlff_cuda_f32.dir"
    objects = glob.glob(os.path.join(os.path.dirname(library), "CMakeFiles", folder, "*.o"))
    found = {}
    for path in sorted(objects) or [library]:
        words = ["cuobjdump", "-sass", "-arch", gpu, path]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr.strip() or f"{path}: cuobjdump failed")
        for name, code in functions(done.stdout).items():
            single, double = (count(code, *(letter + kind for kind in ("FMA", "ADD", "MUL"))) for letter in "FD")
            if (double > single) == (real == "double"):
                found[registers.short_name(name)] = sorted(loops(code), key=lambda loop: (-sums(loop), -len(loop)))
    return found


def table(found):
    """Lines of the loops that matter."""
    rows = []
    for name, inner in sorted(found.items()):
        wanted = [loop for loop in inner if 2 * sums(loop) >= sums(inner[0])]
        rows += [row(name, loop) for loop in wanted[:MOST_LOOPS]]
    columns = list(rows[0]) if rows else []
    cells = [columns, *([str(r[c]) for c in columns] for r in rows)]
    wide = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, wide)).rstrip() for line in cells]


def missed(found):
    """What is said of kernels that miss their bar, or are not there."""
    bad = []
    for name, bar in BARS.items():
        of = {kernel: inner for kernel, inner in found.items() if re.match(name, kernel) and inner}
        if not of and not name.startswith(NOT_EVERYWHERE):
            bad.append(f"{name}: no loop was found")
        for kernel, inner in of.items():
            ratio = min((len(loop) / sums(loop) for loop in inner if sums(loop) >= FEWEST), default=math.inf)
            if ratio > bar:
                bad.append(f"{kernel}: {ratio:.2f} instructions per multiply-add, and {bar} are allowed")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.path.join(registers.ROOT, "build", "cuda", "cuda", "libmlff_cuda.a")
    parser.add_argument("library", nargs="?", default=default)
    parser.add_argument("--gpu", default="sm_90a")
    parser.add_argument("--real", choices=("float", "double"), default="float")
    args = parser.parse_args()
    env = tools()
    if env is None:
        print("cuobjdump and nvdisasm are wanted: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
        sys.exit(SKIPPED)
    found = read(args.library, args.gpu, args.real, env)
    print("\n".join(table(found)))
    bad = missed(found) if args.real == "float" else []
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
