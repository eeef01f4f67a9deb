# What a model costs and how far it can be trusted: liquid water, 64 molecules (192 atoms), NVE from an equilibrated box,
# profiled by fix mlffprof and compared with a second model on the way. 400 steps take about 10 s on one core.
#   lmp -in in.profile
# The table comes at the end; student_profile.json has all of it, water.trace.json opens in ui.perfetto.dev.
# Everything below can be set on that line: -var model other.yaml -var compare no

variable folder      index .           # where this deck lies, seen from where it is run
variable model       index water-benzene-student
variable reference   index water-benzene-teacher
variable compare     index yes         # with the reference
variable ghosts      index 6.0         # A, how far ghost atoms must reach for the reference: its cutoff + 1
variable plugin      index ${folder}/../../build/mlffplugin.so   # loaded if it is there; not needed after `pip install .`
variable data        index ${folder}/data.water64
variable steps       index 400
variable timestep    index 0.0005      # ps
variable temperature index 300         # K
variable seed        index 4711
variable sample      index 10          # steps between samples of memory and energy
variable every       index 50          # steps between comparisons
variable report      index student_profile.json
variable trace       index water.trace.json

variable        built equal is_file(${plugin})
if "${built} == 1" then "plugin load ${plugin}"

units           metal
atom_style      atomic
boundary        p p p
variable        found equal is_file(${data})
if "${found} == 0" then &
  "print 'ERROR: there is no ${data}: run LAMMPS in the folder of this deck, or add -var folder PATH'" "quit 1"
read_data       ${data}

pair_style      mlff
pair_coeff      * * ${model} H O

neighbor        1.0 bin
neigh_modify    every 1 delay 0 check yes
if "${compare} == yes" then "comm_modify cutoff ${ghosts}"
timestep        ${timestep}
velocity        all create ${temperature} ${seed}

fix             move all nve
if "${compare} == yes" then &
  "fix prof all mlffprof ${sample} file ${report} trace ${trace} compare ${reference} every ${every}" &
else &
  "fix prof all mlffprof ${sample} file ${report} trace ${trace}"

thermo_style    custom step time temp etotal f_prof[2] f_prof[5] f_prof[17]
thermo          100

run             ${steps}
