"""The YAML of a model file: parsing, and the hash of what results depend on (`header_sha256`).

src/mlff/model/header_hash.c computes the same hash; docs/model_file.md describes it.
"""

import hashlib
import math
import re

import yaml

from .files import ModelError

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
KEY = "header_sha256"
# Keys that no result depends on, by the block that has them
LEFT_OUT = {
    "": {KEY, "name", "description", "provenance", "accuracy", "self_test"},
    "weights": {"file"},
    "domain": {"description"},
}
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _scalar(node):
    text = node.value
    is_number = not node.style and len(text) < 127 and NUMBER.fullmatch(text)
    return f"{float(text):.17g}" if is_number and math.isfinite(float(text)) else _quoted(text)


def _canonical(node, left_out=frozenset(), is_root=False):
    """JSON without blanks, keys sorted by their bytes."""
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return "[" + ",".join(map(_canonical, node.value)) + "]"
    found = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"line {key.start_mark.line + 1}: keys must be plain text")
        if key.value in found:
            raise ValueError(f"line {key.start_mark.line + 1}: key '{key.value}' is there twice")
        if key.value not in left_out:
            found[key.value] = _canonical(value, LEFT_OUT.get(key.value, frozenset()) if is_root else frozenset())
    return "{" + ",".join(_quoted(k) + ":" + found[k] for k in sorted(found, key=lambda k: k.encode())) + "}"


def _hash_of_node(node):
    text = _canonical(node, LEFT_OUT[""], is_root=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parse(text, path):
    """(value, hash of the header) of YAML text; the hash of what is not a mapping is None."""
    loader = None
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        value = None if node is None else loader.construct_document(node)
        return value, _hash_of_node(node) if isinstance(node, yaml.MappingNode) else None
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        raise ModelError(f"{path}: not valid YAML: {e}") from e
    finally:
        if loader is not None:
            loader.dispose()


def check(head, found, path):
    """ModelError when the hash that a file states is not that of its header; without one nothing is compared."""
    stated = head.get(KEY)
    if stated is not None and stated != found:
        raise ModelError(
            f"{path}: {KEY} is {stated}, but the header has hash {found}: a value was changed after the file was "
            f"written. Copy the file again, or after a deliberate edit run `python -m mlff_tools selftest {path} "
            "--header` [mlff-27]"
        )


def renewed(text, path):
    """(text with the right hash of its header, that hash); comments and layout stay."""
    _, right = parse(text, path)
    root = yaml.compose(text, Loader=Loader)
    keys = {key.value: (key, value) for key, value in root.value}
    if KEY in keys:
        value = keys[KEY][1]
        begin, end = value.start_mark.index, value.end_mark.index
        return text[:begin] + right + text[end:], right
    if "weights" not in keys:
        raise ModelError(f"{path}: is an incomplete model file: it has no weights")
    names = [*keys, "weights"]  # it follows the weights, unless these are last
    begin = keys[names[names.index("weights") + 1]][0].start_mark.index
    return f"{text[:begin]}{KEY}: {right}{', ' if root.flow_style else chr(10)}{text[begin:]}", right
