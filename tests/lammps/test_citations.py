"""What LAMMPS prints at the end of a log about publications of the models that ran."""

import subprocess

from harness import LMP, PLUGIN

DECK = f"""plugin load {PLUGIN}
units metal
lattice diamond 5.43
region box block 0 2 0 2 0 2
create_box 1 box
create_atoms 1 box
mass 1 28.0855
pair_style mlff
pair_coeff * * silicon-m Si
run 0
"""


def test_log_contains_bibtex(tmp_path):
    """BibTeX of mlff, MACE, and both papers of the teacher, between the marks of LAMMPS; nothing with -nocite."""
    (tmp_path / "in.cite").write_text(DECK)
    subprocess.run([LMP, "-in", "in.cite", "-screen", "none"], cwd=tmp_path, check=True)
    cited = (tmp_path / "log.lammps").read_text().split("CITE-CITE")
    (text,) = [part for part in cited if "pair_style mlff, model silicon-m, licence MIT" in part]
    for key in ("@software{mlff,", "@inproceedings{Batatia2022,", "@misc{Koker2025,", "@misc{Koker2026,"):
        assert text.count(key) == 1, text
    assert text.count("{") == text.count("}")
    subprocess.run([LMP, "-in", "in.cite", "-screen", "none", "-nocite"], cwd=tmp_path, check=True)
    assert "Batatia2022" not in (tmp_path / "log.lammps").read_text()
