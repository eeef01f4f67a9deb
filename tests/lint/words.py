"""Words of no field: a short list of expressions that documents, comments, strings and commit subjects avoid.

    python tests/lint/words.py [FOLDER or FILE ...]     hits per file (default: all)
    python tests/lint/words.py --list [...]             each hit: file, line, text, what to write
    python tests/lint/words.py --rules                  the list

Code itself is not searched: of programs only comments and strings, of documents all but quoted code.
"""

import argparse
import bisect
import collections
import io
import os
import re
import subprocess
import sys
import tokenize

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PART = r"(?:weight|tensor|row|column|tile|lane|matrix|node|edge|layer|block|feature)s?"
# What is avoided, as a regular expression in which a space is any white space, and what is written.
RULES = (
    (r"products? of (?:two |small |large )?matrices|sums? of (?:a |the )?products?", "GEMM, accumulator"),
    (r"(?:what|that) comes? behind|the code between", "epilogue"),
    (r"on (?:its|their) way|comes? ahead|cop(?:y|ies) ahead", "prefetched, in flight, asynchronous copy"),
    (r"shar(?:e|es|ed|ing) out", "split across, split-K"),
    (r"looked up together|(?:reads?|cop(?:y|ied)) (?:\w+ ){0,2}at once", "batched loads, vectorised"),
    (r"wait(?:s|ing)? for one another", "dependent loads"),
    (r"tiles? in turn", "persistent kernel, tile scheduler"),
    (r"starts? early|waits? for (?:the )?others", "programmatic dependent launch, grid dependency wait"),
    (r"record(?:ed|s|ing)? (?:a |the )?steps?", "captured step, CUDA graph"),
    (rf"numbers of (?:an? |the |its |each |one |all )?{PART}", "values, elements; counts"),
    (r"as they come", "(name the array)"),
    (r"the way (?:forth|back)", "forward, backward pass"),
    (r"neighbour(?:s|ing|hood|hoods)?(?![\w./(]*\w)", "neighbor (list)"),
    (r"(?:a|each|every|per|last|next|of|two|between) looks?|looks (?:at|into)", "check, reads"),
    (r"stands? (?:there|here|in|at|on|above|below|before|behind|under)", "is in, contains"),
    (
        r"(?:file|page|header|report|row|table|line|comment|log|text|model|program|LAMMPS)s? (?:say|know|want)s?",
        "contains, prints, stores, requires",
    ),
    (r"in place of(?! its)", "instead of"),
    (r"beside", "next to, in addition to"),
    (
        r"some (?:\d[\d,.]*(?= [a-z%])|ten|twelve|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred)",
        "about 90",
    ),
    (r"a (?:third|quarter|fifth|tenth|half) (?:less|more|longer|shorter|faster|slower|higher|lower)", "33 % less"),
    (r"(?<!there\s)(?:is|are) no (?:(?:\w+ )?files?|\w+ of)", "is not a ... file"),
    (r"what there (?:is|are)|what is not there", "unavailable, missing"),
    (r"mend(?:s|ed|ing)?", "fix"),
    (r"foreign", "outside the training domain"),
    (r"sa(?:id|ys?) nothing|nothing (?:is|was) said", "(no output)"),
    (r"tells? (?:the )?host|comes? home|is told", "write, copy"),
    (r"(?-i:Of) \w+", "(begin with the subject)"),
)
PATTERN = re.compile(
    (r"\b(?<![\w/.-])(?:" + "|".join(f"(?P<r{k}>{rule})" for k, (rule, _) in enumerate(RULES)) + r")(?![\w-])").replace(
        " ", r"\s+"
    ),
    re.IGNORECASE,
)

# File, part of the line's text: hits that stay. All of them fit on one screen.
EXCEPTIONS = (("tests/lint/test_commits.py", "in place of another"),)

C_LIKE = (".c", ".h", ".cpp", ".cu", ".cuh")
HASH = (".sh", ".cmake", ".yaml", ".yml", ".toml", ".sbatch", ".in")
DOCUMENTS = (".md", ".cff")
NO_PROSE = re.compile(
    r"^(tests/fuzz/seeds/|benchmarks/results/.*\.(txt|yaml)$|scripts/requirements|models/.*\.yaml$)|LICENSE|\.clang-format$|tests/lint/(words|names|test_words)\.py$"
)
CODE = "\x01"  # stands for a character of code: no expression goes across it

C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
HASH_TOKEN = re.compile(r'(?:^|(?<=\s))#[^\n]*|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.M)
NAME = re.compile(r"""[rbfu]*(["'])[\w./-]+\1""", re.IGNORECASE)
FORMATTED = re.compile(r"""r?fr?["']""", re.IGNORECASE)  # until Python 3.12 one token, with the code in it
MARKS = re.compile(r"^[ \t]*(?:/\*+|\*+(?!/)|//+!?|#+!?:?)|\*+/|\\n|\\t|\"|(?<=\d)\"", re.M)


def blank(text):
    """Code, with its lines kept."""
    return re.sub(r"[^\s]", CODE, text)


def plain(text):
    """A comment or string without its marks, of the same length. A string of one word is a name, not prose."""
    if NAME.fullmatch(text):
        return blank(text)
    if FORMATTED.match(text):
        text = re.sub(r"\{[^{}]*\}", lambda found: blank(found.group()), text)
    return MARKS.sub(lambda found: " " * len(found.group()), text)


def from_tokens(text, token):
    """The prose of a program whose comments and strings a regular expression finds."""
    parts, end = [], 0
    for found in token.finditer(text):
        parts += [blank(text[end : found.start()]), plain(found.group())]
        end = found.end()
    return "".join([*parts, blank(text[end:])])


def from_python(text):
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    parts, end = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1):
            begin = starts[token.start[0] - 1] + token.start[1]
            stop = starts[token.end[0] - 1] + token.end[1]
            parts += [blank(text[end:begin]), plain(text[begin:stop])]
            end = stop
    return "".join([*parts, blank(text[end:])])


def from_document(text):
    """All but code in backticks and fences."""
    return re.sub(r"^ *```.*?^ *```|`[^`\n]*`", lambda found: blank(found.group()), text, flags=re.M | re.S)


def prose(path, text):
    """The text with everything that is not prose replaced by CODE; None for files without prose."""
    name = os.path.basename(path)
    if NO_PROSE.search(path):
        return None
    if path.endswith(DOCUMENTS):
        return from_document(text)
    if path.endswith(C_LIKE):
        return from_tokens(text, C_TOKEN)
    if path.endswith(".py"):
        return from_python(text)
    if path.endswith(HASH) or name.startswith("in.") or name in ("CMakeLists.txt", "Makefile", "Dockerfile", "run"):
        return from_tokens(text, HASH_TOKEN)
    if path.endswith((".txt", ".rst")):
        return text
    return None


Hit = collections.namedtuple("Hit", "path line found instead text")


def search(path, text):
    """Hits of one file, without the exceptions."""
    searched = prose(path, text)
    if searched is None:
        return []
    starts = [0] + [found.end() for found in re.finditer("\n", text)]
    lines = text.split("\n")
    hits = []
    for found in PATTERN.finditer(searched):
        line = bisect.bisect_right(starts, found.start())
        instead = RULES[int(found.lastgroup[1:])][1]
        hits.append(Hit(path, line, " ".join(found.group().split()), instead, lines[line - 1].strip()))
    return hits


def is_excepted(hit):
    return any(hit.path == path and part in hit.text for path, part in EXCEPTIONS)


def in_subject(subject):
    """The avoided words of a commit subject, each with what to write."""
    return [(found.group(), RULES[int(found.lastgroup[1:])][1]) for found in PATTERN.finditer(subject)]


def tracked(folders=()):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in done.stdout.splitlines() if os.path.isfile(os.path.join(ROOT, path))]


def all_hits(folders=()):
    """(hits, exceptions) of the tree."""
    found = []
    for path in tracked(folders):
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                found += search(path, f.read())
        except UnicodeDecodeError:
            continue
    return [hit for hit in found if not is_excepted(hit)], [hit for hit in found if is_excepted(hit)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", help="folders or files, from the root (default: all)")
    parser.add_argument("--list", action="store_true", help="each hit with its line")
    parser.add_argument("--rules", action="store_true", help="print the list of words")
    args = parser.parse_args()
    if args.rules:
        for rule, instead in RULES:
            print(f"{rule}\n    {instead}")
        return 0
    hits, excepted = all_hits(args.folders)
    if args.list:
        for hit in hits:
            print(f"{hit.path}:{hit.line}: '{hit.found}' -> {hit.instead}: {hit.text}")
    else:
        for path, count in collections.Counter(hit.path for hit in hits).most_common():
            print(f"{count:5d} {path}")
    print(f"{len(hits)} hits, {len(excepted)} exceptions")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
