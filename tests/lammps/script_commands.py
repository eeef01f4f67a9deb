"""Fixes, and commands between runs, for script_grammar.py: tables of commands and how often they come."""


class Commands:
    """A script's maker has rng, chance, pick, number, seed, weighted, add, fix, and what it knows of the system."""

    def other_fix(self):
        if self.respa and self.chance(0.7):
            return
        n = self.seed()
        grow = f"{self.size[0] * self.rng.uniform(0.8, 1.4):.4g}"
        rate = self.number(0.5, 20) if self.units == "metal" else self.number(0.0005, 0.02)
        flip = self.pick("", " flip no")
        texts = {
            f"deform 1 {self.pick('x', 'y', 'z')} erate {rate} remap {self.pick('x', 'v', 'none')}": 3,
            f"deform {self.pick(1, 3)} xy erate {rate} remap x{flip}": 4 if self.tilted else 0.2,
            f"deform 1 x vel {self.number(-50, 50) if self.units == 'metal' else self.number(-0.05, 0.05)}": 1,
            f"deform 1 x trate 5 y trate -3 remap {self.pick('x', 'v', 'none')}": 1,
            f"deform 1 xy wiggle {self.number(0.5, 4)} 0.01 remap x": 1 if self.tilted else 0.1,
            f"deform 2 xz erate {rate} yz erate -{rate} remap v": 1 if self.tilted else 0.1,
            f"deform 1 x final -1 {grow} y volume z volume units box": 1,
            f"deposit 3 {self.pick(1, 2)} {self.pick(1, 2)} {n} region box near 0.9": 3,
            f"evaporate {self.pick(1, 2, 3)} {self.pick(1, 2)} box {n}": 2,
            f"mlffprof {self.pick(1, 5)} table no warmup 0": 2,
            f"mlffprof {self.pick(1, 2)} table no warmup {self.pick(0, 1)} compare {self.model()} every {n % 2 + 1}": 3,
            f"tfmc 0.1 300 {n}": 0.5, f"addforce {self.number(-5, 5)} 0 0": 1, "aveforce 0 NULL NULL": 0.5,
            "temp/rescale 1 100 3000 10 1.0": 0.5, "spring couple some one 5 1 1 1 0": 0.3, "move wiggle 2 0 0 0.01": 1,
            f"set {self.pick(1, 2)} 0 atom 1*3 {self.pick('type', 'x')} {self.pick(1, 2)}": 1,
            f"balance {self.pick(1, 5)} {self.pick(1.0, 1.05)} {'rcb' if self.tiled else 'shift xyz 5 1.0'}": 3,
            "momentum 1 linear 1 1 1": 1, "recenter INIT INIT INIT": 1, "setforce 0 NULL NULL": 1,
            f"wall/reflect {self.wall()}": 1,
            "numdiff 2 1e-4": 1, "halt 2 tlimit > 1000": 1, "box/relax iso 0.0": 0.3,
            f"shake 0.0001 20 0 {self.pick('b 1', 't 2', 'm 1.008')}": 2 if self.bonded else 0.1,
            "adapt 1 pair mlff scale * * v_none": 0.1,
            "spring/self 0.5": 1, "nve/noforce": 0.5, "store/state 1 x y z": 1, "viscous 0.01": 1,
            f"langevin 300 300 {0.1 if self.units == 'metal' else 100} {n}": 1,
        }  # fmt: skip
        text = self.weighted(texts)
        self.fix(text, "all" if "mlffprof" in text else self.pick("all", "all", "all", "all", "one"))

    def monte_carlo(self):
        """Trials of atoms and of molecules, of which there are none at first."""
        n, t, hot = self.seed(), self.pick(1, 2), self.pick(300, 3000, 30000)
        if self.style in ("molecular", "full") and self.chance(0.4):
            self.add("molecule water water.mol", "group wet empty")
            more = self.pick("", " overlap_cutoff 0.8", " tfac_insert 1.67")
            kind = self.pick(
                f"gcmc 1 3 {self.pick(0, 2)} 0 {n} {hot} -1.0 0.5 mol water full_energy{more}",
                f"gcmc 1 4 0 0 {n} {hot} 5.0 0.5 mol water full_energy",
                f"widom 1 2 0 {n} {hot} mol water",
            )
            self.fix(kind, "wet")
            return
        self.fix(self.weighted({
            f"gcmc {self.pick(1, 2)} 3 {self.pick(0, 3)} {t} {n} {hot} -2.0 0.5": 3,
            f"gcmc 1 2 2 {t} {n} {hot} -2.0 0.5 full_energy overlap_cutoff 0.8": 3,
            f"gcmc 1 0 5 {t} {n} {hot} -1.0 0.5 full_energy": 1, f"widom {self.pick(1, 2)} 3 {t} {n} {hot}": 3,
            f"atom/swap {self.pick(1, 2)} 4 {n} {hot} types 1 2 ke {self.pick('yes', 'no')}": 3,
            f"atom/swap 1 3 {n} {hot} types 1 2 semi-grand yes mu 0 0": 2, f"sgcmc 2 0.3 3000 0.1 randseed {n}": 0.3,
        }), self.pick("all", "all", "all", "one"))  # fmt: skip

    def by_variable(self):
        """Types and positions that a fix sets during runs."""
        what = self.pick("type v_set", "type v_set", "x v_move")
        self.add("variable set atom 1+((step+id)%2)", "variable move atom x+0.3")
        self.fix(f"set {self.pick(1, 2, 3)} {self.pick(0, 0, 1)} {self.pick('atom 1*4', 'group all')} {what}")

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
        across = f"{self.low[1]:.4g} {self.low[1] + self.size[1]:.4g} units box"
        self.add(self.weighted({
            f"delete_atoms group some compress {self.pick('yes', 'no')}": 2 * fewer,
            "delete_atoms overlap 1.2 all all": fewer, f"delete_atoms random fraction 0.3 yes all NULL {n}": 2 * fewer,
            f"delete_atoms random count 2 no all NULL {n}": fewer,
            "delete_atoms group all": 1, f"create_atoms {self.pick(1, 2)} single {where}": 2,
            f"create_atoms {self.pick(1, 2)} random 2 {n} NULL overlap 0.9 maxtry 50": 2,
            f"displace_atoms all move {self.number(-9, 9)} {self.number(-3, 3)} 0": 2,
            f"displace_atoms all random 0.05 0.05 0.05 {n}": 2, f"displace_atoms one move 0 0 {self.number(-1, 1)}": 1,
            f"displace_atoms all rotate 1 1 1 0 0 1 {self.number(0, 90)}": 1,
            f"displace_atoms all ramp x 0 {self.number(-8, 8)} y {across}": 1,
            f"set atom {k} type {self.pick(1, 2)}": 3, f"set type 1 type/fraction 2 0.5 {n}": 2,
            f"set group one type {self.pick(2, 'v_one')}": 2, f"set group all type/ratio 1 0.5 {n}": 1,
            f"set atom {k} {self.pick('x', 'y', 'z')} {self.number(-5, 12)}": 2, "set group all image 0 0 0": 1,
            f"set atom {k} image 1 NULL NULL": 1,
            f"velocity all create {self.pick(300, 3000, 30000)} {n} loop geom": 5, "velocity all set 10 0 0": 1,
            f"velocity all ramp vx -20 20 y {across}": 1,
            f"replicate {self.pick('1 1 2', '2 1 1', '1 2 1', '2 1 1 bbox')}": 0.3 if self.fixes else 3,
            f"reset_atoms id{self.pick('', ' sort yes')}": 1, "reset_atoms image all": 1, "reset_atoms mol all": 1,
            f"reset_timestep {self.pick(0, 0, 5, 1000)}": 2, "group grow dynamic all every 1": 1,
            f"group some {self.pick('clear', 'id 2:6:2')}": 0.5,
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
            f"change_box all xy delta {self.number(-1.5, 1.5)} remap units box": 2 if self.tilted else 0.2,
            f"change_box all xz delta {self.number(-2, 2)} yz delta {self.number(-2, 2)} remap units box":
                2 if self.tilted else 0.2,
            f"change_box all triclinic xy final {self.number(-1, 1)} remap units box": 1,
            f"change_box all x scale {self.number(0.8, 1.4)} z scale {self.number(0.8, 1.4)}{remap}": 2,
            "change_box all ortho": 0.3,
            f"change_box all boundary {self.pick('p p p', 'f f f', 'p p f', 's s s', 'p s f')}": 3,
            "change_box all set remap": 1, f"change_box all y scale {self.number(0.9, 1.2)} x volume remap": 1,
        }))  # fmt: skip

    def neighbors(self):
        few = 0 if self.has_lj() else 0.5
        skin, cut = self.pick(0.0, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0), self.pick(0.0, 2.0, 3.0, 9.0)
        rebuild = self.pick("every 1 delay 0 check yes", "every 1 delay 0 check no", "every 2 delay 4",
                            "every 50 delay 0", "delay 1000 every 1 check no", "delay 100 every 1")  # fmt: skip
        shift = "rcb" if self.tiled else "shift xyz 10 1.0"
        command = self.weighted({
            f"neigh_modify {rebuild}": 5, f"neighbor {skin} {self.pick('bin', 'bin', 'nsq', 'multi', 'multi/old')}": 7,
            f"neigh_modify {self.pick('one 20', 'one 4000 page 100000', 'binsize 1.0', 'cluster yes', 'once yes')}": 2,
            f"neigh_modify exclude {self.pick('type 1 2', 'type 1 1', 'group all all', 'group some one')}": few,
            f"neigh_modify exclude molecule/{self.pick('intra', 'inter')} {self.pick('all', 'some')}": few,
            "neigh_modify exclude group some all": 0.5, "neigh_modify exclude type 1 1 exclude type 1 2": 0.3,
            "neigh_modify exclude none": 1, f"neigh_modify include {self.pick('one', 'all')}": 0.5,
            f"neigh_modify collection/{self.pick('type 2 1 2', 'interval 2 1.0 5.0', 'interval 2 3.0 9.0')}": 2,
            f"comm_modify {self.pick('mode multi', 'mode multi/old', 'mode single', 'vel yes', 'vel no')}": 3,
            f"comm_modify mode multi {self.pick('reduce/multi', f'cutoff/multi 1 {cut} cutoff/multi 2 9.0')}": 2,
            f"comm_modify mode multi cutoff/multi * {cut}": 2,
            f"comm_modify cutoff {self.pick(3.0, 8.0, 12.0, 0.0)}": 3,
            f"comm_style {self.pick('tiled', 'tiled', 'brick')}": 1.5,
            f"balance 1.0 {self.pick(shift, 'x uniform', 'x uniform y uniform', 'shift x 5 1.0')}": 3,
            f"balance 1.0 {shift} weight group 2 one 2.0 some 0.5": 1,
            f"comm_modify group {self.pick('one', 'all')}": 0.3, f"atom_modify first {self.pick('one', 'all')}": 1,
            f"atom_modify sort {self.pick('0 0', '1 1.5', '2 0.0')}": 1, f"newton {self.pick('on', 'off')}": 0.1,
            f"pair_modify {self.pick('shift yes', 'tail yes')}": 2 * few, "pair_modify mix geometric": 0.5,
            f"pair_modify {self.pick('nofdotr', 'neigh/trim no', 'neigh/trim yes', 'table 0')}": 1,
            f"pair_modify compute {self.pick('no', 'yes', 'yes')}": 1, f"processors {self.pick('* * 1', '1 * *')}": 0.3,
            f"special_bonds {self.pick('lj/coul 1 1 1', 'charmm')}": few, "fix_modify watch energy no": 0.5,
            f"timestep {self.pick(1, 2, 10)}e-4": 1,
        })  # fmt: skip
        if ("mode multi" in command or "collection" in command) and self.chance(0.9):
            self.add(f"neighbor {skin} multi")
        self.add(command)

    def has_lj(self):
        """The reference has all pairs of lj/cut, also those that exclusions or special bonds take away."""
        return "lj/cut" in (self.hybrid_names or ())

    def late_exclusion(self):
        """Excludes a group that gains atoms during runs, or between them."""
        middle = " ".join(f"{a + 0.4 * s:.4g} {a + s:.4g}" for a, s in zip(self.low, self.size))
        groups = ("group late all",) if self.has_lj() else ("group late all", "group late late", "group late one")
        if self.style in ("molecular", "full") and not self.has_lj() and self.chance(0.6):
            self.add(f"region far block {middle}", f"group late dynamic all region far every {self.pick(1, 2)}")
            self.add(f"neigh_modify exclude molecule/{self.pick('intra', 'inter')} late")
            return
        self.add("group late empty", f"neigh_modify exclude {self.pick(*groups)}")
        if self.chance(0.5):
            self.fix(f"deposit 3 {self.pick(1, 2)} {self.pick(1, 2)} {self.seed()} region box near 0.9", "late")
        else:
            self.run()
            self.add(f"group late id {self.rng.randrange(1, self.n + 1)}")

    def bonds(self):
        """Made and broken, with and without special bonds."""
        if not self.bonded or self.has_lj():
            return
        self.add(self.weighted({
            f"fix b{next(self.names)} all bond/create 1 {self.pick(1, 2)} {self.pick(1, 2)} 1.8 1": 3,
            f"fix b{next(self.names)} all bond/break 1 1 {self.pick(0.5, 1.5)}": 2, "delete_bonds all multi": 1,
            f"delete_bonds all bond 1{self.pick('', ' remove special')}": 2,
            f"create_bonds many all all 1 0.5 {self.pick(1.5, 2.5)}": 2,
            f"special_bonds lj/coul {self.pick('0 0 0.5', '1 1 1', '1e-50 1 1')}": 3, "special_bonds lj 0 0 0": 1,
        }))  # fmt: skip

    def files_between(self):
        """Atoms written, and read again instead of those that exist or in addition to them."""
        columns = "id type x y z"
        self.add(*self.weighted({
            (f"write_dump all custom out.wd {columns} ix iy iz modify format float %.17g",
             "read_dump out.wd $(step) x y z ix iy iz box yes replace yes"): 2,
            (f"write_dump all custom out.wd {columns}", "read_dump out.wd $(step) x y z purge no add yes trim yes"): 1,
            (f"write_dump all custom out.wd {columns}",
             "read_dump out.wd $(step) x y z purge yes replace no add keep"): 1,
            ("write_data out.more nocoeff",
             f"read_data out.more add append shift {self.number(0.5, 3)} {self.number(0.5, 3)} 0"): 1,
        }))  # fmt: skip

    def continued(self):
        """A run, changes, and a run that takes what the first has left."""
        n = self.pick(2, 5)
        self.add(f"run {n}")
        if self.chance(0.5):
            self.add(f"reset_timestep {self.pick(0, 0, 5)}")
        for _ in range(self.rng.randint(0, 2)):
            getattr(self, self.pick("neighbors", "change_atoms", "change_atoms", "change_box", "bonds"))()
        self.add(f"run {self.pick(n, n, 20)}{'' if self.respa else ' pre no'}")
        self.runs = True

    def others_between(self):
        self.add(self.weighted({
            f"run_style {self.pick('verlet', 'verlet', 'respa 2 2 inner 1 0 0 outer 2', 'respa 2 2 pair 1')}": 1,
            f"suffix {self.pick('off', 'omp', 'kk')}": 1, "timer full": 1, "pair_style none": 0.3,
            f"compute c all {self.pick('stress/atom NULL virial', 'group/group one', 'heat/flux e e e')}": 2,
            f"compute c all {self.pick('centroid/stress/atom NULL virial', 'force/tally all', 'rdf 10')}": 1,
            "min_modify dmax 0.3 line quadratic": 0.5, "compute pp all pair mlff": 0.5,
            "fix_modify watch virial yes": 0.2,
            "info all": 1, "write_dump all atom out.atom": 1, "pair_write 1 2 10 r 1 5 out.table x": 0.3,
            "dynamical_matrix all regular 1e-4 file out.dyn": 1, "group2ndx out.ndx": 1, "group one clear": 1,
        }))  # fmt: skip
