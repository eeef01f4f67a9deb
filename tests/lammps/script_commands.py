"""Fixes, and commands between runs, for script_grammar.py: tables of commands and how often they come."""


class Commands:
    """A script's maker has rng, chance, pick, number, seed, weighted, add, fix, and what it knows of the system."""

    def other_fix(self):
        if self.respa and self.chance(0.7):
            return
        n = self.seed()
        rate = self.number(0.5, 20) if self.units == "metal" else self.number(0.0005, 0.02)
        flip = self.pick("", " flip no")
        texts = {
            f"deform 1 {self.pick('x', 'y', 'z')} erate {rate} remap {self.pick('x', 'v', 'none')}": 3,
            f"deform {self.pick(1, 3)} xy erate {rate} remap x{flip}": 4 if self.tilted else 0.2,
            f"deform 1 x vel {self.number(-50, 50) if self.units == 'metal' else self.number(-0.05, 0.05)}": 1,
            f"deposit 3 {self.pick(1, 2)} 2 {n} region box near 0.9": 3,
            f"evaporate 3 1 box {n}": 2,
            f"gcmc {self.pick(1, 2)} 3 {self.pick(0, 3)} {self.pick(1, 2)} {n} 300 -2.0 0.5": 3,
            f"gcmc 1 2 2 2 {n} 300 -2.0 0.5 full_energy overlap_cutoff 0.8": 2,
            f"widom 2 2 2 {n} 300": 1,
            f"atom/swap {self.pick(1, 2)} 4 {n} 3000 types 1 2 ke no": 3,
            f"mlffprof {self.pick(1, 5)} table no warmup 0": 2,
            f"mlffprof 1 table no warmup 0 compare {self.pick('painn', 'ani')}.yaml every {self.pick(1, 2)}": 2,
            f"balance {self.pick(1, 5)} {self.pick(1.0, 1.05)} {'rcb' if self.tiled else 'shift xyz 5 1.0'}": 3,
            "momentum 1 linear 1 1 1": 1, "recenter INIT INIT INIT": 1, "setforce 0 NULL NULL": 1,
            f"wall/reflect {self.wall()}": 1,
            "numdiff 2 1e-4": 1, "halt 2 tlimit > 1000": 1, "box/relax iso 0.0": 0.3,
            f"shake 0.0001 20 0 {self.pick('b 1', 't 2', 'm 1.008')}": 2 if self.bonded else 0.1,
            "adapt 1 pair mlff scale * * v_none": 0.1,
            "spring/self 0.5": 1, "nve/noforce": 0.5, "store/state 1 x y z": 1, "viscous 0.01": 1,
            f"langevin 300 300 {0.1 if self.units == 'metal' else 100} {n}": 1,
        }  # fmt: skip
        self.fix(self.weighted(texts), self.pick("all", "all", "all", "all", "one"))

    def wall(self):
        words = self.boundary.split()
        free = [d for d, word in zip("xyz", words) if word in "fsm"] or ["x"]
        d = self.pick(*free)
        return f"{d}lo EDGE {d}hi EDGE"

    def change_atoms(self):
        if any(" rigid" in line for line in self.lines):
            return  # set crashes where a rigid body has had no set-up
        n, k = self.seed(), self.rng.randrange(1, self.n + 1)
        fewer = 0 if self.bonded else 1  # bonds to atoms that are gone crash read_restart of LAMMPS
        where = " ".join(f"{a + self.rng.uniform(0, s):.6g}" for a, s in zip(self.low, self.size))
        self.add(self.weighted({
            f"delete_atoms group some compress {self.pick('yes', 'no')}": 2 * fewer,
            "delete_atoms overlap 1.2 all all": fewer, f"delete_atoms random fraction 0.3 yes all NULL {n}": 2 * fewer,
            "delete_atoms group all": 1, f"create_atoms {self.pick(1, 2)} single {where}": 2,
            f"create_atoms {self.pick(1, 2)} random 2 {n} NULL overlap 0.9 maxtry 50": 2,
            f"displace_atoms all move {self.number(-9, 9)} {self.number(-3, 3)} 0": 2,
            f"displace_atoms all random 0.05 0.05 0.05 {n}": 2, f"displace_atoms one move 0 0 {self.number(-1, 1)}": 1,
            f"displace_atoms all rotate 1 1 1 0 0 1 {self.number(0, 90)}": 1,
            f"set atom {k} type {self.pick(1, 2)}": 2, f"set type 1 type/fraction 2 0.5 {n}": 2,
            f"set atom {k} x {self.number(0, 4)}": 1, "set group all image 0 0 0": 1,
            f"set atom {k} image 1 NULL NULL": 1,
            f"velocity all create {self.pick(300, 3000)} {n} loop geom": 4, "velocity all set 10 0 0": 1,
            f"replicate {self.pick('1 1 2', '2 1 1', '1 2 1', '2 1 1 bbox')}": 0.3 if self.fixes else 3,
            f"reset_atoms id{self.pick('', ' sort yes')}": 1, "reset_atoms image all": 1, "reset_atoms mol all": 1,
            "reset_timestep 0": 1, "group grow dynamic all every 1": 1,
        }))  # fmt: skip

    def change_box(self):
        if self.has_dump and self.chance(0.7):
            return
        size, d = [f"{s * self.rng.uniform(0.85, 1.3):.6g}" for s in self.size], self.pick(0, 1, 2)
        axis = "xyz"[d]
        remap = self.pick(" remap", " remap", "")
        self.add(self.weighted({
            f"change_box all {axis} scale {self.number(0.85, 1.3)}{remap}": 3,
            f"change_box all {axis} final {self.low[d]:.6g} {self.low[d] + float(size[d]):.6g}{remap} units box": 2,
            f"change_box all {axis} delta 0 {self.number(0, 2)}{remap} units box": 1, "change_box all triclinic": 2,
            f"change_box all xy delta {self.number(-1.5, 1.5)} remap units box": 3 if self.tilted else 0.2,
            "change_box all ortho": 0.3,
            f"change_box all boundary {self.pick('p p p', 'f f f', 'p p f', 's s s', 'p s f')}": 3,
            "change_box all set remap": 1, f"change_box all y scale {self.number(0.9, 1.2)} x volume remap": 1,
        }))  # fmt: skip

    def neighbours(self):
        self.add(self.weighted({
            f"neigh_modify {self.pick('every 1 delay 0 check yes', 'every 1 delay 0 check no', 'every 2 delay 4')}": 4,
            f"neighbor {self.pick(0.0, 0.2, 0.5, 1.0, 2.0, 4.0)} {self.pick('bin', 'bin', 'nsq', 'multi')}": 5,
            f"neigh_modify {self.pick('one 20', 'one 4000 page 100000', 'binsize 1.0', 'cluster yes', 'once yes')}": 2,
            f"neigh_modify exclude {self.pick('type 1 2', 'type 1 1', 'group all all', 'molecule/intra all')}":
                0 if "lj/cut" in (self.hybrid_names or ()) else 0.5,
            "neigh_modify exclude none": 1,
            f"comm_modify {self.pick('mode multi', 'mode single', 'vel yes', 'vel no')}": 2,
            f"comm_modify cutoff {self.pick(3.0, 8.0, 12.0, 0.0)}": 3, "comm_style tiled": 0.3,
            f"balance 1.0 {self.pick('rcb' if self.tiled else 'shift xyz 10 1.0', 'x uniform', 'shift x 5 1.0')}": 3,
            "neigh_modify include one": 0.3, "comm_modify group one": 0.3, "atom_modify first one": 1,
            f"newton {self.pick('on', 'off')}": 0.1,
            f"pair_modify {self.pick('shift yes', 'tail yes')}": 0 if "lj/cut" in (self.hybrid_names or ()) else 1,
            "pair_modify mix geometric": 0.5,
            f"pair_modify compute {self.pick('no', 'yes', 'yes')}": 1, f"processors {self.pick('* * 1', '1 * *')}": 0.3,
            f"special_bonds {self.pick('lj/coul 1 1 1', 'charmm')}": 0.5, "fix_modify watch energy no": 0.5,
            f"timestep {self.pick(1, 2)}e-4": 1, f"neighbor 0.3 {self.pick('bin', 'nsq')}": 1,
        }))  # fmt: skip

    def others_between(self):
        self.add(self.weighted({
            f"run_style {self.pick('verlet', 'verlet', 'respa 2 2 inner 1 0 0 outer 2', 'respa 2 2 pair 1')}": 1,
            f"suffix {self.pick('off', 'omp', 'kk')}": 1, "timer full": 1, "pair_style none": 0.3,
            f"compute c all {self.pick('stress/atom NULL virial', 'group/group one', 'heat/flux e e e')}": 2,
            f"compute c all {self.pick('centroid/stress/atom NULL virial', 'force/tally all', 'rdf 10')}": 1,
            "info all": 1, "write_dump all atom out.atom": 1, "pair_write 1 2 10 r 1 5 out.table x": 0.3,
            "dynamical_matrix all regular 1e-4 file out.dyn": 1, "group2ndx out.ndx": 1, "group one clear": 1,
        }))  # fmt: skip
