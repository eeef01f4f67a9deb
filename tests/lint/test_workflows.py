"""Workflows and templates for GitHub: what they run exists."""

import glob
import os
import re

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def test_jobs_run_what_is_there():
    """Targets of the Makefile, programs of the repository, and archs of the wheels."""
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    assert set(jobs) == {"test", "site", "wheels"} and all(job["timeout-minutes"] <= 60 for job in jobs.values())
    steps = [step for job in jobs.values() for step in job["steps"]]
    text = "\n".join(step.get("run", "") for step in steps)
    targets = re.search(r"^\.PHONY: (.*)$", read("Makefile"), re.M)[1].split()
    assert set(re.findall(r"^make (\w+)", text, re.M)) <= set(targets)
    assert ".ci/run" in text and os.access(os.path.join(ROOT, ".ci", "run"), os.X_OK)
    archs = {m["arch"] for m in jobs["wheels"]["strategy"]["matrix"]["include"]}
    assert archs == set(re.findall(r'"(\w+)"', re.search(r"^archs = (.*)$", read("pyproject.toml"), re.M)[1]))
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)


@pytest.mark.parametrize("path", sorted(glob.glob(os.path.join(ROOT, ".github", "ISSUE_TEMPLATE", "[mp]*.yml"))))
def test_forms_are_those_of_github(path):
    form = yaml.safe_load(read(path))
    assert form["name"] and form["description"] and form["body"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids)) and all(f["type"] == "textarea" and f["attributes"]["label"] for f in form["body"])
