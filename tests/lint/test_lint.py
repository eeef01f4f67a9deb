"""Style and static analysis: formatting, ruff, headers that compile alone, cppcheck, symbols, layers, file sizes."""

import ast
import os
import re
import shutil
import subprocess
import sys

import processes
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MLFF_BUILD_DIR", os.path.join(ROOT, "build"))
FOLDERS = ("include", "src", "cuda", "tests", "examples")


def sources(*suffixes, folders=FOLDERS):
    """Paths of the project's C and C++ files, relative to the root, in order."""
    found = []
    for folder in folders:
        for place, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.relpath(os.path.join(place, n), ROOT) for n in names if n.endswith(suffixes)]
    return sorted(found)


def run(*command):
    done = processes.merged(command, cwd=ROOT)
    return done.returncode, done.stdout


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def pinned(name):
    """A program pinned in scripts/requirements.txt and installed with this Python, or one in PATH."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)


def test_format():
    if not pinned("clang-format"):
        pytest.skip("clang-format is not installed")
    paths = sources(".c", ".h", ".cpp", ".cu")
    assert len(paths) > 400
    code, output = run(pinned("clang-format"), "--dry-run", "-Werror", *paths)
    assert code == 0, f"run clang-format -i on these files\n{output[:4000]}"


@pytest.mark.parametrize(
    "what", [("format", "--diff"), ("check", "--output-format", "concise")], ids=lambda what: what[0]
)
def test_python(what):
    """All Python of the repository; the settings are in pyproject.toml."""
    ruff = pinned("ruff")
    if not ruff:
        pytest.skip("ruff is not installed")
    code, output = run(ruff, *what, "--no-cache", ".")
    assert code == 0, f"run ruff {what[0]}\n{output[-4000:]}"


def include_paths(path):
    """Include paths of the library that a file belongs to. Both libraries have an errors.h."""
    return ["-Iinclude", "-Isrc/mlffprof" if path.startswith("src/mlffprof/") else "-Isrc/mlff"]


MOST_LINES = 60  # of a function, with its head


@pytest.mark.parametrize("path", sources(".c", ".h", ".cpp", ".cu"))
def test_function_length(path):
    """clang-format puts the braces of functions into lines of their own."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        lines = f.read().split("\n")
    begins = [k for k, line in enumerate(lines) if line == "{"]
    long = [k for k in begins if "}" in lines[k:] and lines.index("}", k) - k + 2 > MOST_LINES]
    assert not long, f"{path}: functions of more than {MOST_LINES} lines begin at {[k + 1 for k in long]}"


def test_python_function_length():
    paths = sources(".py", folders=("python", "benchmarks", "scripts", "tests"))
    assert len(paths) > 100
    long = []
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            nodes = ast.walk(ast.parse(f.read()))
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.end_lineno - n.lineno >= MOST_LINES]
        long += [f"{path}: {function.name}" for function in functions]
    assert not long, f"functions of more than {MOST_LINES} lines: {long}"


@pytest.mark.parametrize("path", sources(".c", ".h", ".cpp", ".cu"))
def test_line_length(path):
    """At most 120 columns. clang-format does not break comments."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        long = [k for k, line in enumerate(f, 1) if len(line.rstrip("\n")) > 120]
    assert not long, f"{path}: more than 120 columns in lines {long}"


# Headers that others may include in any order. Those of pair_mlff need LAMMPS, those of cpu/ a kernel path, op_list
# the macros that say what is made of it.
@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sources(".h", folders=("include", "src"))
        if not re.search(
            r"pair_mlff/|fix_mlffprof/|base/cxx/|backend/cpu/|ops_math|nequip_radial|tensornet_math|op_list", p
        )
    ],
)
def test_header_alone(path):
    for compiler, standard, language in (("cc", "c11", "c"), ("c++", "c++17", "c++")):
        if language == "c++" and not path.startswith("include/"):
            continue
        code, output = run(
            compiler,
            f"-std={standard}",
            "-x",
            language,
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-Wno-pragma-once-outside-header",
            "-fsyntax-only",
            *include_paths(path),
            path,
        )
        assert code == 0, f"{path} does not compile alone as {standard}\n{output}"


@pytest.mark.parametrize("path", sources(".c", folders=("src", "examples")))
def test_cppcheck(path):
    if not shutil.which("cppcheck"):
        pytest.skip("cppcheck is not installed")
    # uninitvar: takes arrays filled by loops for uninitialised; compilers, valgrind and the sanitizers look for these.
    kernels = ["-DMLFF_REAL_IS_DOUBLE=0", "-DMLFF_KERNELS_AVX2=1"] if "backend/cpu/" in path else ["--max-configs=3"]
    code, output = run(
        "cppcheck",
        "--quiet",
        "--std=c11",
        "--error-exitcode=1",
        "--enable=warning,performance,portability",
        "--inline-suppr",
        "--suppress=missingInclude",
        "--suppress=unknownMacro",
        "--suppress=uninitvar",
        "--suppress=toomanyconfigs",
        *include_paths(path),
        *kernels,
        path,
    )
    assert code == 0, output


MOST_FILE_LINES = 700
# One idea each, and longer: a public header or table that is read as a whole.
LONG_FILES = {"tests/cudasim/runtime.cpp": "the runtime API of CUDA for the simulated device"}


def test_file_length():
    """A file has one idea; one that is longer than MOST_FILE_LINES probably has two."""
    paths = sources(".c", ".cpp", ".cu", ".h") + sources(".py", folders=("python", "benchmarks", "scripts", "tests"))
    n_lines = {path: read(path).count("\n") for path in paths}
    long = {path: n for path, n in n_lines.items() if n > MOST_FILE_LINES and path not in LONG_FILES}
    assert not long, f"more than {MOST_FILE_LINES} lines: split these by idea, or name them in LONG_FILES: {long}"
    stale = [path for path in LONG_FILES if n_lines.get(path, 0) <= MOST_FILE_LINES]
    assert not stale, f"remove from LONG_FILES: {stale}"


@pytest.mark.parametrize("path", sources(".c", ".cpp", ".cu", ".h"))
def test_layout(path):
    """What clang-format does to text that it takes for something else, and white space that it leaves."""
    text = read(path)
    assert "\t" not in text and "\r" not in text, f"{path} has tabs or carriage returns"
    banners = re.findall(r"^ *(/\* -{2,} .*)\n \* -{10,}", text, re.M)
    assert not banners, f"{path}: make these banners fit into 120 columns, on one line: {banners}"
    split = re.findall(r"^ +(?!else|do)(?:const )?\w+(?: \()?\n +\*?\w+[;)].*", text, re.M)
    assert not split, f"{path}: put the comments of these members above them: {split}"
    templates = re.findall(r"^.*[{, (]\w+ < [A-Z]\w+(?: \? [^>\n]*|(?:, [^;>\n]*)?)> *[,(}].*$", text, re.M)
    assert not templates, f"{path}: templates taken for comparisons (use clang-format off): {templates}"


# A library must not exit, print to stdout or read the environment: these are decisions of the program.
FORBIDDEN = re.compile(r"\b(exit|abort|getenv|setenv|printf|puts|putchar|system)\s*\(")


@pytest.mark.parametrize("path", sources(".c", ".h", folders=("src/base", "src/mlff", "src/mlffprof")))
def test_library_manners(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        code = re.sub(r'/\*.*?\*/|"(\\.|[^"\\])*"', "", f.read(), flags=re.S)
    found = FORBIDDEN.search(code)
    assert not found, f"{path} calls {found.group(1)}(), which libraries of this project do not do"
    assert "lammps" not in " ".join(re.findall(r"#include.*", code)).lower(), f"{path} includes LAMMPS"


def test_exported_symbols():
    """LAMMPS opens plugins with global symbols, so anything else exported could clash."""
    plugin = os.environ.get("MLFF_PLUGIN", os.path.join(BUILD, "mlffplugin.so"))
    assert os.path.exists(plugin), f"{plugin} is not built"
    code, output = run("nm", "-D", "--defined-only", plugin)
    assert code == 0, output
    names = [line.split()[-1] for line in output.splitlines() if line.strip()]
    assert names == ["lammpsplugin_init"], f"{plugin} exports {names}"


@pytest.mark.parametrize("path", sources(".cu", folders=("cuda",)))
def test_kernel_arguments_have_no_padding(path):
    """Padding has no defined value, and the bytes of kernel arguments are compared: by the simulator, which searches
    them for host addresses, and by cuda/replay.cpp, which identifies captured steps by them."""
    for is_double in "01":
        code, output = run(
            "g++",
            "-x",
            "c++",
            "-std=c++17",
            "-fsyntax-only",
            "-Wpadded",
            "-DMLFF_CUDASIM=1",
            f"-DMLFF_REAL_IS_DOUBLE={is_double}",
            "-Iinclude",
            "-Itests/cudasim",
            path,
        )
        assert code == 0, output[:2000]
        found = [
            line
            for line in output.splitlines()
            if "-Wpadded" in line
            and re.match(r"cuda/\w+\.(cu|h):", line)
            and not line.startswith("cuda/backend_cuda.h")
        ]
        assert not found, "\n".join(found)


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def architectures():
    names = re.findall(r"^mlff_add_arch\((\w+)\)", text_of("src/mlff/CMakeLists.txt"), re.M)
    assert names
    return names


# Where each of them has its part, as CONTRIBUTING.md asks: file, and what is found in it.
PARTS = (
    ("tests/support/testmodel.c", r'\.name = "NAME"'),
    ("tests/lammps/models.py", r'^    "\w+": \(NAME, '),
    ("python/mlff_tools/model/modelfile.py", r'^SHAPES = \{[^}]*"NAME":'),
    ("python/mlff_tools/model/reference.py", r'^(CONSERVATIVE|DIRECT) = \{[^}]*"NAME":'),
    ("docs/model_file.md", r"^NAME:"),
    ("docs/model_file.md", r"^architecture: .*[ |]NAME\b"),
    ("docs/model_file.md", r"Tensors of `NAME`"),
    ("docs/pair_mlff.md", r"`NAME`"),
    ("docs/architecture.md", r"^  arch/ .*\bNAME\b"),
    ("README.md", r"(?i)^\| architectures \|.*\bNAME\b"),
)


@pytest.mark.parametrize("name", architectures())
def test_architecture_is_complete(name):
    """An architecture has all parts that CONTRIBUTING.md lists, and a C test."""
    parts = [(path, part.replace("NAME", name)) for path, part in PARTS]
    missing = [f"{path}: nothing like {part}" for path, part in parts if not re.search(part, text_of(path), re.M)]
    assert not missing, "CONTRIBUTING.md says what goes there:\n" + "\n".join(missing)
    assert os.path.exists(os.path.join(ROOT, f"tests/model/test_{name}.c")), f"no tests/model/test_{name}.c"


def test_operations_are_tested():
    """Every operation with bodies on CPU and GPU is called by a test of its own; those of the host are used by all."""
    rows = re.findall(r"^OP(?:_SIMPLE)?\((\w+),(.*?)\)$", text_of("src/mlff/backend/op_list.h"), re.M | re.S)
    names = [name for name, rest in rows if not rest.endswith(("GPU_ONLY", "FUSED"))]
    assert len(names) > 20
    tests = "".join(text_of(path) for path in sources(".c", folders=("tests/op",)))
    missing = [name for name in names if not re.search(rf"ops->{name}\b", tests)]
    assert not missing, f"no program in tests/op calls {', '.join(missing)}"


ROW = re.compile(r'\{\{"(\w+)",\s+"([^"]+)",\s+("[^"]+"|nullptr),\s+"[^"]+"\}')
DOCUMENTED = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", re.M)


def test_keywords_are_documented():
    """Each keyword of pair_style mlff is one row of a table in the source and one in the documentation, with the same
    values and default."""
    sources_ = ("src/mlff/model/options.c", "src/pair_mlff/settings.cpp")
    rows = {
        name: (values.split(), standard.strip('"').replace("nullptr", "none"))
        for path in sources_
        for name, values, standard in ROW.findall(read(path))
    }
    tables = [DOCUMENTED.findall(read(path)) for path in ("docs/pair_mlff.md", "docs/pair_mlff_tuning.md")]
    documented = {
        name: (values.replace("`", "").split(), standard.strip("` "))
        for table in tables
        for name, values, standard in table
    }
    assert len(documented) == sum(map(len, tables)), "a keyword is on both pages"
    assert rows == documented
    assert sum(read(path).count('{{"') for path in sources_) == len(rows), "a row is written in another way"
    for path, other in (("pair_mlff", "pair_mlff_tuning"), ("pair_mlff_tuning", "pair_mlff")):
        assert f"]({other}.md)" in read(f"docs/{path}.md")
    for name, (_, standard) in rows.items():
        default = (
            read("docs/pair_mlff.md").split("## Default")[1] + read("docs/pair_mlff_tuning.md").split("## Default")[1]
        )
        assert standard == "none" or f"{name} {standard}" in default, name


def test_shell_scripts():
    shellcheck = shutil.which("shellcheck")
    if not shellcheck:
        pytest.skip("shellcheck is not installed")
    scripts = run("git", "ls-files", "*.sh", "*.sbatch", ".ci/run")[1].split()
    assert len(scripts) > 10, scripts
    code, output = run(shellcheck, *scripts)
    assert code == 0, output


def test_no_machine_paths():
    """No file contains a directory of one machine or compiles for one processor."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    places = run(
        "git",
        "grep",
        "-nE",
        "/(home/[a-z]|work/|tmp/)",
        "--",
        "*.c",
        "*.h",
        "*.cpp",
        "*.cmake",
        "*CMakeLists.txt",
        "*.md",
        "*.yaml",
        "*.sh",
        "*.toml",
        "*.py",
        ":!tests/lint",
    )
    native = run(
        "git", "grep", "-n", "-e", "-march=native", "--", "*.cmake", "*CMakeLists.txt", "*.toml", "*.sh", "Makefile"
    )
    if 128 in (places[0], native[0]):
        pytest.skip("not a git checkout")
    lines = places[1].splitlines() + native[1].splitlines()
    assert not lines, "\n".join(lines[:20])


def test_one_version():
    """All files that contain the version of this package agree."""
    found = {
        "CMakeLists.txt": r"^project\(mlff VERSION (\S+)",
        "pyproject.toml": r'^version = "(.*)"',
        "CITATION.cff": r"^version: (\S+)",
        "examples/packaging/conda-forge/recipe.yaml": r'^  version: "(.*)"',
        "examples/packaging/spack/package.py": r'^    version\("(.*?)"',
    }
    folder = "examples/packaging/easybuild"
    (easybuild,) = [f"{folder}/{name}" for name in os.listdir(os.path.join(ROOT, folder))]
    found[easybuild] = r"^version = '(.*)'"
    versions = {path: re.search(pattern, read(path), re.MULTILINE).group(1) for path, pattern in found.items()}
    assert len(set(versions.values())) == 1 and f"mlff-{versions[easybuild]}-" in easybuild, versions


@pytest.mark.parametrize("section", ["build", "test", "site", "train", "install"])
def test_pinned_packages_carry_hashes(section):
    """scripts/lock.sh was run after the last change of requirements.in."""
    listed = read("scripts/requirements.in").partition(f"# [{section}]")[2].partition("\n\n")[0]
    wanted = re.findall(r"^([A-Za-z][\w.-]*)(?:\[\w+\])?(?:==([\w.]+))?", listed, re.M)
    pins = subprocess.run(
        [os.path.join(ROOT, "scripts", "pins.sh"), section], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    blocks = re.split(r"\n(?=[a-z])", pins)
    locked = {tuple(block.split()[0].split("==")) for block in blocks}
    assert len(blocks) >= len(wanted) > 3 and all("--hash=sha256:" in block for block in blocks)
    for package, version in wanted:
        versions = {number for known, number in locked if known == package.lower().replace("_", "-")}
        assert version in versions if version else versions, f"run scripts/lock.sh: {package} {version}"
