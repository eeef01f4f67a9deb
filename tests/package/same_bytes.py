"""Two builds of one source in two folders give the same wheel, to the byte: `make test-install`, some minutes."""

import os
import subprocess
import zipfile

from wheels import ROOT, make, succeed


def copy_source(place):
    """What git has, or would take, of this source."""
    place.mkdir(parents=True)
    words = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
    names = b"\0".join(name for name in names if name and os.path.exists(os.path.join(ROOT.encode(), name)))
    pack = subprocess.run(
        ["tar", "-C", ROOT, "-c", "--null", "-T", "-"], input=names, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-C", place, "-x"], input=pack.stdout, check=True)
    return place


def contents(path):
    """Name in the wheel: its bytes and how it is stored."""
    with zipfile.ZipFile(path) as f:
        return {member.filename: (f.read(member), member.date_time, member.external_attr) for member in f.infolist()}


def test_two_builds(tmp_path):
    wheels = []
    for name in ("one", "the_other/of_a_longer_name"):
        source = copy_source(tmp_path / name / "source")
        succeed(["touch", "-d", f"2020-01-0{len(wheels) + 1}", source / "README.md"])
        wheels.append(make(tmp_path / name, str(source), SOURCE_DATE_EPOCH="1700000000"))
    first, second = map(contents, wheels)
    assert len(first) > 50 and list(first) == list(second)
    assert not [name for name in first if first[name] != second[name]]
    with open(wheels[0], "rb") as one, open(wheels[1], "rb") as other:
        assert one.read() == other.read()
