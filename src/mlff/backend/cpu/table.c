/* table.c: the op table of one CPU backend; compiled once for each element type and instruction set. */
#include "cpu.h"

void MLFF_CPU(ops_cpu)(mlff_ops *ops)
{
  ops->linear_pack = MLFF_CPU(linear_pack_cpu);
  ops->linear = MLFF_CPU(linear_cpu);
  ops->edges = MLFF_CPU(edges_cpu);
  ops->forces = MLFF_CPU(forces_cpu);
  MLFF_CPU(painn_ops_cpu)(&ops->painn);
  MLFF_CPU(ani_ops_cpu)(&ops->ani);
  MLFF_CPU(orb_ops_cpu)(&ops->orb);
}
