"""Members of structures, and constants, that are prepositions or adverbs instead of nouns, in C, C++ and CUDA.

python tests/lint/names.py [FOLDER or FILE ...]     each of them: file, line, name
"""

import os
import re
import sys

import words

MEMBERS = set(
    "of at from to by with for own on off up down along aside beside behind before after within around between "
    "here there then now once ahead again apart alone together soon seldom".split()
)
CONSTANTS = re.compile(
    r"\b(?:\w+_)?(?:AT_ONCE|AT_A_TIME|IN_TURN|TOGETHER|AHEAD|ALONE|BESIDE|BEHIND)\b(?=\s*(?:=|,|\}))"
)
SUFFIXES = (".c", ".h", ".cpp", ".cu")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
HEAD = re.compile(r"\b(?:struct|class|union)\b[^;{}()=]*\{")
DECLARED = re.compile(r"\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=[^,;]*|:\s*\d+\s*)?$", re.S)


def blank(found):
    return re.sub(r"[^\n]", " ", found.group())


def closing(code, begin):
    """Position of the brace that closes the one before `begin`."""
    depth = 1
    for k in range(begin, len(code)):
        depth += {"{": 1, "}": -1}.get(code[k], 0)
        if not depth:
            return k
    return len(code)


def declarators(statement):
    """Names that a member declaration declares; none of functions."""
    if re.search(r"\)\s*(?:const|noexcept|override|\s)*$", statement) and not re.search(r"\(\s*\*", statement):
        return []
    pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\])?\)", statement)
    if pointer:
        return [pointer.group(1)]
    flat = re.sub(r"<[^<>;]*>|\{[^{}]*\}", " ", statement)
    return [found.group(1) for part in flat.split(",") if (found := DECLARED.search(part.strip()))]


def members(code):
    """(position, name) of all members of structures."""
    for head in HEAD.finditer(code):
        k, end = head.end(), closing(code, head.end())
        begin = k
        while k < end:
            if code[k] == "{":  # the body of a function ends a statement, that of a nested structure does not
                is_function = code[begin:k].rstrip().endswith((")", "const", "override", "noexcept"))
                k = closing(code, k + 1)
                if is_function:
                    begin = k + 1
            elif code[k] == ";":
                statement = re.sub(r"\{.*\}", " ", code[begin:k], flags=re.S)
                for name in declarators(statement.strip()):
                    yield begin + code[begin:k].rfind(name), name
                begin = k + 1
            k += 1


def search(text):
    """(line, name) of a file."""
    code = COMMENT.sub(blank, text)
    found = {(position, name) for position, name in members(code) if name in MEMBERS}
    found |= {(match.start(), match.group()) for match in CONSTANTS.finditer(code)}
    return [(code.count("\n", 0, position) + 1, name) for position, name in sorted(found)]


def all_hits(folders=()):
    """(file, line, name) of the tree."""
    found = []
    for path in words.tracked(folders):
        if path.endswith(SUFFIXES):
            with open(os.path.join(words.ROOT, path), encoding="utf-8") as f:
                found += [(path, line, name) for line, name in search(f.read())]
    return found


def main():
    hits = all_hits(sys.argv[1:])
    for path, line, name in hits:
        print(f"{path}:{line}: {name}")
    print(f"{len(hits)} members and constants that are prepositions or adverbs")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
