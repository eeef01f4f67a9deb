"""Figures of the source tree: lines of code, lengths of pages and sentences, avoided words and names.

make figures, or python tests/lint/figures.py [--pages] [--sentences PAGE]
"""

import argparse
import os
import re

import names
import words

CODE = (".c", ".h", ".cpp", ".cu", ".py")
PARTS = {
    "product": ("src", "cuda", "include", "python"),
    "tests": ("tests",),
    "tools": ("benchmarks", "scripts", "cmake", "docs", "examples", "models"),
}
MOST_CODE = 100_000
RESULTS, MOST_RESULTS = "benchmarks/results/", 3000
PAGES = {"README.md": 120, "CHANGELOG.md": 60, "docs/gpu.md": 120}  # most lines
MOST_WORDS = {"average": 18, "longest": 25}  # of a sentence
GENERATED = re.compile(r"benchmarks/results/.*\.md$")
# Ends of sentences; abbreviations and numbers of versions do not end one.
END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!cf)(?<!vs)(?<!Eq)(?<!Fig)[.!?][)\"*_]*\s+(?=[\"(*_`\[]*[A-Z0-9`])")


def read(path):
    with open(os.path.join(words.ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def n_lines(paths):
    return sum(read(path).count("\n") for path in paths)


def sentences(text):
    """The sentences of a Markdown page: of paragraphs and list items, not of headings, tables and code."""
    text = re.sub(r"\A---\n.*?^---$|^ *```.*?^ *```|<!--.*?-->", "", text, flags=re.M | re.S)
    blocks, block = [], []
    for line in [*text.split("\n"), ""]:
        if re.match(r"\s*(#|\||>|:::|$)|\s*(---+|===+)\s*$|!\[|\$\$", line):
            blocks, block = blocks + [block], []
        elif re.match(r"\s*([-*+]|\d+\.)\s", line):
            blocks, block = blocks + [block], [re.sub(r"^\s*([-*+]|\d+\.)\s+", "", line)]
        elif block or not line.startswith("    "):  # else indented code
            block.append(line)
    found = []
    for block in blocks:
        plain = re.sub(r"`[^`]+`", "code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block)))
        found += [sentence for sentence in END.split(plain) if len(sentence.split()) > 2]
    return found


def lengths(page):
    """(words per sentence, words of the longest, sentences that are too long) of a page."""
    counts = [len(re.findall(r"[^\W_][\w'.,%/+-]*", sentence)) for sentence in sentences(read(page))]
    too_long = sum(count > MOST_WORDS["longest"] for count in counts)
    return sum(counts), len(counts), max(counts, default=0), too_long


def verdict(value, most):
    return f"{value:8,d}  (target {most:,d}: {'met' if value <= most else f'{value - most:,d} more'})"


def print_code(paths):
    total = 0
    for part, folders in PARTS.items():
        code = [path for path in paths if path.endswith(CODE) and path.split("/")[0] in folders]
        total += n_lines(code)
        print(f"lines of code, {part:8s} {n_lines(code):8,d}  in {len(code)} files ({', '.join(folders)})")
    print(f"lines of code, total    {verdict(total, MOST_CODE)}")
    results = [path for path in paths if path.startswith(RESULTS)]
    print(f"lines of {RESULTS}{'':3s}{verdict(n_lines(results), MOST_RESULTS)}")


def print_pages(pages, each):
    """The averages of all pages, and a table of each or of those with a target or with sentences that are too long."""
    found = {page: lengths(page) for page in pages}
    total, count = (sum(values[k] for values in found.values()) for k in (0, 1))
    longest = max(found, key=lambda page: found[page][2])
    print(
        f"words per sentence: {total / count:.1f} on average (target {MOST_WORDS['average']}), longest "
        f"{found[longest][2]} in {longest} (target {MOST_WORDS['longest']}), in {len(pages)} pages"
    )
    print(f"sentences of more than {MOST_WORDS['longest']} words: {sum(v[3] for v in found.values())} of {count}")
    print(f"\n{'page':50s} lines  target  words per sentence  longest  too long")
    for page, (n_words, n, most, too_long) in sorted(found.items(), key=lambda item: -item[1][3]):
        average = n_words / n if n else 0
        if each or page in PAGES or too_long > 9 or average > MOST_WORDS["average"]:
            print(f"{page:50s} {n_lines([page]):5d} {PAGES.get(page, ''):7} {average:19.1f} {most:8d} {too_long:9d}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pages", action="store_true", help="a line for each page")
    parser.add_argument("--sentences", metavar="PAGE", help="the sentences of a page, the longest first")
    args = parser.parse_args()
    if args.sentences:
        for sentence in sorted(sentences(read(args.sentences)), key=lambda text: -len(text.split())):
            print(f"{len(sentence.split()):4d} {sentence}")
        return
    paths = words.tracked()
    print_code(paths)
    hits, excepted = words.all_hits()
    print(
        f"avoided words           {len(hits):8,d}  in {len({h.path for h in hits})} files; {len(excepted)} exceptions"
    )
    found = names.all_hits()
    print(f"members without a noun  {len(found):8,d}  in {len({path for path, *_ in found})} files")
    print_pages([path for path in paths if path.endswith(".md") and not GENERATED.match(path)], args.pages)


if __name__ == "__main__":
    main()
