"""A small configuration of `mlff sample`, with a pair style of LAMMPS in the place of a model."""

CONFIG = {
    "name": "trial",
    "elements": ["H", "C", "O"],
    "timestep": 0.5,
    "damp": 100.0,
    "potential": ["pair_style buck 4.0", "pair_coeff * * 200.0 0.3 0.0"],
    "groups": [
        {
            "name": "w",
            "molecule": "water",
            "molecules": 8,
            "temperature": [300, 350],
            "density": [1.0],
            "seed": 10,
            "split": "train",
            "frames": 3,
            "every": 10,
            "equilibrate": 20,
            "hot": 400,
        },
        {
            "name": "b",
            "molecule": "benzene",
            "temperature": [300],
            "seed": 20,
            "split": "test",
            "frames": 4,
            "every": 10,
            "equilibrate": 20,
        },
    ],
}
