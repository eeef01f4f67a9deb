"""Labels of an inner model, which moves the atoms in the inner steps of run_style respa (docs/respa.md).

It has the forces of the student's labels, and for a SHARE of them Hessian-vector products (hessian.py) by the student
itself: stiff motions are what the outer level must not have to follow, and in forces alone the slow ones, which
a network of this size cannot know, count for more. So no teacher is asked, and a file of labels is enough.
"""

import os

from ..model.files import write_bytes
from . import extxyz, hessian, labelling
from .teachers import ModelTeacher

SHARE = 0.5  # of the training frames


def write_labels(path, frames, student, program):
    """Writes labelled frames, with products by the model file `student`, as a whole or not at all."""
    chosen = [hessian.is_chosen(frame, SHARE) for frame in frames]
    mine = [frame for frame, has_one in zip(frames, chosen) if has_one]
    teacher = ModelTeacher(student, program=program)
    try:
        products = iter(hessian.joined(mine, labelling.ask(teacher, hessian.probes(mine))) if mine else ())
    finally:
        teacher.close()
    made = [next(products) if has_one else hessian.strip_products(frame) for frame, has_one in zip(frames, chosen)]
    made = [extxyz.without(frame, "frame_sha256") for frame in made]  # no longer what the teacher has labelled
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_bytes(path, "".join(extxyz.text(frame) for frame in made).encode())
