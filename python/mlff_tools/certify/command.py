"""Certificate of a model: `mlff certify MODEL [RECIPE]` writes an HTML page and a JSON file: PASS, FAIL or UNDECIDED.

Measures errors on held-out labels, properties of liquids and crystals against the teacher, energy conservation,
stability, behavior outside the domain, size transfer, speed and memory, and compares them with the bars of the
kind of material and of the recipe. The same command continues a stopped certificate; finished measurements are
kept in the work folder. `mlff certify --page NAME.json [RECIPE]` only writes the page of an existing certificate.
Exit status: 0 all criteria are met or there are none, 1 one is missed, 2 the certificate could not be made, 3 none is
missed, but some are undecided.
docs/certificate.md explains the numbers.
"""

import argparse
import json
import os
import time

from ..bench import profiles
from ..command_line import above_zero, add_programs, one_line, positive
from ..model import files, lammps, modelfile
from ..train import domain, recipe, recipe_certify, recipe_structures
from ..train.extxyz import tag
from . import job, measurements, page, reality, rows, sides, systems
from .work import CertifyError, Work, digest, plain, write_whole

FORMAT = "mlff-certificate/1"
KEYS = ("model", "teacher", "verdict", "verdict_text", "quick", "bars", "measurements", "settings", "systems")
KEYS += ("domain", "context")
STATUS = {rows.FAIL: 1, rows.UNDECIDED: 3}
EXAMPLES = """examples:
  mlff certify water-xs.yaml recipe.yaml
  mlff certify water-xs.yaml recipe.yaml --labels labels.xyz --measure errors,nve
  mlff certify models/nequix-oam-1-pft.yaml recipe.yaml --quick
"""


def read_bars(path):
    """(Recipe, bars, kind or None), checked: all that a page needs, also where the teacher is not at hand."""
    found = recipe.Recipe(path, recipe.EXAMPLE)
    if not isinstance(found.value, dict):
        raise recipe.RecipeError(f"{path}: must be a mapping with bars, certify, teacher, structures")
    return found, recipe_certify.bars(found), recipe_certify.kind(found)


def read_recipe(path):
    """(Recipe or None, bars, settings, section teacher or None, kind or None), checked."""
    if not path:
        empty = dict(recipe_certify.DEFAULTS, timestep=None, measure=None, systems=None, by=None, quick=False)
        return None, {}, empty, None, None
    found, bars, kind = read_bars(path)
    settings = recipe_certify.certify(found)
    teacher = recipe.teacher(found) if "teacher" in found.value else None
    if "structures" in found.value:
        recipe_structures.structures(found, teacher or {"mlff": "none"})
    return found, bars, settings, teacher, kind


def override(settings, args):
    """Settings with those of the command line."""
    out = dict(settings)
    if args.quick:
        out["scale"], out["quick"] = recipe_certify.QUICK, True
    for key in ("minutes", "scale", "precision"):
        if getattr(args, key) is not None:
            out[key] = getattr(args, key)
    if args.scale is not None:
        out["quick"] = args.scale < 1
    if args.measure:
        out["measure"] = args.measure.replace(",", " ").split()
        unknown = [name for name in out["measure"] if name not in recipe_certify.MEASUREMENTS]
        if unknown:
            raise CertifyError(f"--measure {unknown[0]}: there are {', '.join(recipe_certify.MEASUREMENTS)}")
    return out


def find_labels(args, found, teacher):
    """(path, keys, stress limit) of the labelled frames: as given, else labels.xyz in the folder of the model or of the
    recipe's run."""
    if args.labels:
        return args.labels, None, None
    if teacher and "labels" in teacher:
        return os.path.join(found.folder, teacher["labels"]), teacher.get("keys"), teacher.get("stress_limit")
    places = [os.path.dirname(os.path.abspath(args.model))]
    if found:
        stem = os.path.splitext(os.path.basename(found.path))[0]
        names = [found.value.get("name"), stem]
        places += [os.path.join(found.folder, str(name)) for name in names if name]
    paths = (os.path.join(place, "labels.xyz") for place in places)
    return next(((path, None, None) for path in paths if os.path.isfile(path)), (None, None, None))


def _systems(found, settings, frames, place, python):
    """Those named for the certificate, else those of the recipe's structures, else those of the labels."""
    named, made = settings["systems"], []
    items = (found.value.get("structures") or []) if found else []
    items = [(f"{found.path}, structures[{k + 1}]", v) for k, v in enumerate(items)]
    if items and (not named or any(isinstance(s, str) for s in named)):
        made = systems.of_recipe(items, settings, frames, place, python)
    if named:
        wanted = [(f"{found.path}, certify.systems[{k + 1}]", v) for k, v in enumerate(named)]
        return systems.chosen(wanted, settings, place, python, {s.name: s for s in made})
    return made or systems.of_labels(settings, frames)


def _check_systems(found, settings):
    """Checks the items of certify.systems as those of the section structures are; words are checked later."""
    given = {k: s for k, s in enumerate(settings["systems"] or ()) if isinstance(s, dict)}
    if not given:
        return
    bare = [{k: v for k, v in s.items() if k not in recipe_certify.SYSTEM} for s in given.values()]
    places = {("certify", "systems", k): ("structures", n) for n, k in enumerate(given)}
    lines = {(*places[key[:3]], *key[3:]): line for key, line in found.lines.items() if key[:3] in places}
    stand_in = recipe.Recipe.__new__(recipe.Recipe)
    stand_in.path, stand_in.folder, stand_in.lines = found.path, found.folder, lines
    stand_in.value = {"structures": bare}
    for system, item in zip(given.values(), recipe_structures.structures(stand_in, {})):
        system.update(item)  # as that section leaves it


def _domain(head, test):
    """Domains of the model file and of the held-out frames, and their common part, which is certified."""
    model, found = domain.of_model(head), domain.of_frames(test, head["elements"], head["cutoff"])
    parts = {"model": model, "held_out": found, "covered": domain.common(model, found)}
    keys = ("elements", *domain.RANGES, "distances")
    parts = {name: {key: part.get(key) for key in keys} for name, part in parts.items()}
    return parts | {"not_spanned": domain.not_spanned(model, found)}


def prepare(args, write):
    """(Job, bars); the caller closes what the job holds."""
    found, bars, settings, wanted, kind = read_recipe(args.recipe)
    settings = override(settings, args)
    if found:
        _check_systems(found, settings)
    place = found.folder if found else os.getcwd()
    path, *how = find_labels(args, found, wanted)
    test, frames, notes = sides.held_out(path, *how) if path else ([], [], [])
    for note in notes:
        write(f"note: {path}: {note}")
    head = modelfile.read_head(args.model)
    spanned = _domain(head, test)
    python = (wanted or {}).get("ase", {}).get("python") if wanted else None
    found_systems = _systems(found, settings, frames, place, python or args.python)
    check_kind(kind, [{"name": s.name, "kind": s.kind} for s in found_systems])
    known = set(sides.elements_of(args.model))
    for s in found_systems:
        unknown = sorted(set(s.frame["elements"]) - known)
        if unknown:
            raise CertifyError(f"{s.name}: the model does not know {unknown[0]}, but {' '.join(sorted(known))}")
    model = sides.of_model("model", args.model, settings["precision"], args.program, args.plugin)
    teacher, why = None, "the recipe has no teacher" if found else "there is no recipe"
    try:
        if wanted:
            all_frames = [*frames, *(s.frame for s in found_systems)]
            teacher = sides.of_recipe(wanted, place, all_frames, args, settings["by"])
            if path and not ("labels" in wanted and os.path.samefile(path, os.path.join(place, wanted["labels"]))):
                sides.check_labels(teacher, frames, test)
        programs = {"mlff": model.static.program, "plugin": lammps.find_plugin(args.plugin)}
        lmp, place = lammps.find_lmp(args.lmp), os.path.dirname(_out(args)) or "."
        if not os.path.isdir(place):
            raise CertifyError(f"-o {args.out}: there is no folder {place}")
        folder = args.work or os.path.join(place, f"{head['name']}-certificate.work")
        work = Work(folder, write)
    except BaseException:
        model.close()
        if teacher:
            teacher.close()
        raise
    made = job.Job(model, teacher, why, found_systems, frames, test, settings, work, lmp, programs, args.jobs)
    made.path, made.labels_path, made.head, made.domain = args.model, path, head, spanned
    made.notes, made.kind = notes, kind
    return made, bars


def _out(args):
    """Path of the certificate without its ending."""
    if args.out:
        return os.path.splitext(args.out)[0] if args.out.endswith((".html", ".json")) else args.out
    return os.path.splitext(args.model)[0] + "-certificate"


def _teacher(made):
    if made.teacher is None:
        return {"text": f"no teacher: {made.no_teacher}"}
    who = made.teacher.static.identity
    hashed = "network digest" if who["kind"] == "mlff" else "sha256"
    text = f"teacher: {who['kind']} {who['name']} ({who['versions']}), {hashed} {who['sha256'][:12]}"
    return {**who, **_hashes(made.teacher.static), "text": text}


def _hashes(side):
    """{weights_sha256, header_sha256} of a model file, {} of other teachers."""
    if not hasattr(side, "path"):
        return {}
    head = modelfile.read_head(side.path)
    return {"weights_sha256": head["weights"]["sha256"], "header_sha256": head.get("header_sha256", "not hashed")}


SHORTENED = ("nve", "nvt", "npt", "hot", "lifetime", "atoms")  # settings that a kind needs whole
OF_KIND = {"metal": "crystal", "semiconductor": "crystal", "ionic": "crystal"}


def check_kind(kind, systems):
    """CertifyError where no system (or only some, of liquids and molecules) is what a kind of material is."""
    wanted, found = OF_KIND.get(kind, kind), [s["kind"] for s in systems]
    wrong = [s["name"] for s in systems if kind in ("liquid", "molecule") and s["kind"] == "crystal"]
    if kind and systems and (wanted not in found or wrong):
        name = (wrong or [systems[0]["name"]])[0]
        raise CertifyError(f"kind: {kind} has bars of a {wanted}, and {name} is none: name the kind of your material")


def _judged(measured, bars, kind, settings):
    """{kind, verdict, quick, verdict_text, bars} of the measurements."""
    quick = settings["quick"]
    all_rows = [r for m in measured.values() for r in m["rows"]]
    judged = rows.judge(all_rows, bars, {name: m["why"] for name, m in measured.items() if m.get("why")}, kind)
    verdict, text = rows.overall(judged), rows.summary(judged, kind)
    whole = recipe_certify.DEFAULTS
    short = [k for k in SHORTENED if kind and not quick and settings.get(k, whole[k]) < whole[k]]
    if short:
        verdict = rows.UNDECIDED if verdict == rows.PASS else verdict
        text += "; shorter than a kind asks: " + ", ".join(f"{k} {settings[k]:g} of {whole[k]:g}" for k in short)
    text = f"{'QUICK ' if quick else ''}{verdict}: {text}"
    return {"kind": kind, "verdict": verdict, "quick": quick, "verdict_text": text, "bars": judged}


DIGITS = 12  # of the hash of a held-out frame


def _frames(made):
    """Hashes (frame_sha256) of the labelled frames, which rows are computed from; None for labels without them."""
    known = lambda frames: [tag(f, "frame_sha256") for f in frames]
    if not made.frames or None in known(made.frames):
        return None
    return {"sha256": digest(sorted(known(made.frames))), "held_out": [h[:DIGITS] for h in known(made.test)]}


def certificate(made, bars, found):
    """The JSON."""
    reality.add([r for m in found.values() for r in m["rows"]], made.systems)
    head = made.head
    who = made.model.static.identity
    return plain(
        {
            "format": FORMAT,
            "model": {"name": head["name"], "architecture": head["architecture"], "sha256": who["sha256"]}
            | _hashes(made.model.static)
            | {"file": os.path.basename(made.path)},
            "teacher": _teacher(made),
            **_judged(found, bars, made.kind, made.settings),
            "domain": made.domain,
            "systems": [
                {"name": s.name, "kind": s.kind, "atoms": len(s.frame["elements"]), "temperature": s.temperature}
                | {"pressure": s.pressure}
                for s in made.systems
            ],
            "settings": made.settings,
            "measurements": found,
            "frames": _frames(made),
            "context": {
                "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                "cpu": lammps.cpu_name(),
                "versions": who["versions"],
                "labels": f"{os.path.basename(made.labels_path)}: {len(made.frames)} frames, {len(made.test)} held out"
                if made.labels_path
                else "none",
                "labels_notes": "; ".join(made.notes) or "none",
            },
        }
    )


def run(args):
    """Makes the certificate; the exit status."""
    write = (lambda _: None) if args.quiet else (lambda text: print(text, flush=True))
    made, bars = prepare(args, write)
    try:
        names = made.settings["measure"] or recipe_certify.MEASUREMENTS
        found = measurements.run(made, names)
        if not bars and not made.kind and all(m["state"] != "measured" for m in found.values()):
            why = "; ".join(f"{n}: {found[n]['why']}" for n in names)
            advice = "" if made.systems else "; a RECIPE.yaml has systems: those of certify.systems, or its structures"
            raise CertifyError(f"nothing could be measured: {why}{advice}")
        done = certificate(made, bars, found)
    finally:
        made.model.close()
        if made.teacher:
            made.teacher.close()
        made.work.close()
    out = _out(args)
    write_whole(out + ".json", profiles.dumps(done) + "\n")
    write_whole(out + ".html", page.page(done))
    for b in done["bars"]:
        if b["verdict"] != rows.PASS:
            why = f": {b['text']}" if b["text"] else ""
            print(f"  {b['quantity']} ({b['group']}), bar {b['bar']}: {b['verdict']}{why}")
        if b["looser"] is not None:
            print(
                f"  {b['quantity']} ({b['group']}): the recipe's bar {b['bar']} is looser than the kind's {b['looser']}"
            )
    print(f"certificate of {done['model']['name']}: {done['verdict_text']} ({out}.html)")
    return STATUS.get(done["verdict"], 0)


def read_certificate(path):
    """The certificate of a JSON file; CertifyError if it is none."""
    with files.naming(path), open(path, "rb") as f:
        data = f.read()
    try:
        found = json.loads(data)
    except ValueError as e:
        raise CertifyError(f"{path}: not valid JSON: {e}") from e
    kind = found.get("format") if isinstance(found, dict) else None
    if kind != FORMAT:
        raise CertifyError(f"{path}: is not a certificate: format is {kind!r}, expected {FORMAT!r}")
    missing = [key for key in KEYS if key not in found]
    if missing:
        raise CertifyError(f"{path}: is no whole certificate: {missing[0]} is missing")
    unknown = {r["quantity"] for m in found["measurements"].values() for r in m["rows"]} - set(
        recipe_certify.QUANTITIES
    )
    unknown |= set(found["measurements"]) - set(measurements.ALL)
    if unknown:
        raise CertifyError(f"{path}: has {min(unknown)}, which this version does not know")
    return found


def write_page(args):
    """Writes the page of the certificate args.model, with a recipe judged by its kind and bars; the exit status."""
    out = args.out or os.path.splitext(args.model)[0] + ".html"
    if out.endswith(".json"):
        raise CertifyError(f"-o {out}: is the name of a certificate: give that of a page, as NAME.html")
    found = read_certificate(args.model)
    if args.recipe:
        _, bars, kind = read_bars(args.recipe)
        check_kind(kind, found["systems"])
        found |= plain(_judged(found["measurements"], bars, kind, {**found["settings"], "quick": found["quick"]}))
        write_whole(os.path.splitext(out)[0] + ".json", profiles.dumps(found) + "\n")
        print(f"certificate of {found['model']['name']}: {found['verdict_text']}")
    write_whole(out, page.page(found))
    print(out)
    return STATUS.get(found["verdict"], 0) if args.recipe else 0


def arguments():
    parser = argparse.ArgumentParser(
        prog="mlff certify", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="model file, or name of a shipped model; with --page a certificate NAME.json")
    add("recipe", nargs="?", metavar="RECIPE.yaml", help="sections bars, certify, teacher and structures of a recipe")
    add(
        "-o",
        "--out",
        metavar="FILE.html",
        help="the page, with the JSON in the same folder (default: MODEL-certificate.html)",
    )
    add(
        "--page",
        action="store_true",
        help="measure nothing: write the page of the certificate NAME.json, with RECIPE judged again by its bars",
    )
    add("--work", metavar="FOLDER", help="work folder (default: NAME-certificate.work in the folder of the page)")
    add(
        "--labels",
        metavar="FILE.xyz",
        help="labelled frames; those with split=test are held out (default: labels.xyz "
        "in the folder of the model or of the recipe's run)",
    )
    add("--quick", action="store_true", help=f"all lengths times {recipe_certify.QUICK}; the verdict is marked QUICK")
    add("--scale", type=above_zero, metavar="F", help="all lengths times F")
    add("--minutes", type=above_zero, metavar="M", help="limit for each measurement and run (default: 60)")
    add("--measure", metavar="NAME,...", help="only these: " + ", ".join(recipe_certify.MEASUREMENTS))
    add("--precision", choices=recipe.PRECISIONS, help="precision of the model in runs (default: fp32)")
    add("--jobs", type=positive, default=lammps.processors(), metavar="N", help="parallel runs (default: all cores)")
    add("--quiet", action="store_true", help="print only the verdict and bars that are not met")
    add_programs(parser)
    add("--python", metavar="PATH", help="the Python that has ASE, for structures of other formats than XYZ")
    return parser


@one_line("mlff certify", "stopped; run the same command to continue", 2)
def main(argv=None):
    args = arguments().parse_args(argv)
    if args.page:
        return write_page(args)
    given, args.model = args.model, modelfile.find_model(args.model)
    if not args.out and args.model != modelfile.model_paths(given)[0]:
        args.out = f"{given}-certificate"  # a model given by name: the current folder, not that of the model
    return run(args)
