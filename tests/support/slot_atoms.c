/* slot_atoms.c: see slot_atoms.h. */
#include "slot_atoms.h"

static const int32_t slots[3] = {1, -1, 0}; /* the species in between does not occur for this network */
static const int32_t species[N_ATOMS] = {0, 2, -1, 1, 0, 2, 2};

int slot_of(int64_t i)
{
  return species[i] < 0 ? -1 : slots[species[i]];
}

atoms_case make_atoms(mlff_backend *b, int64_t n)
{
  atoms_case c = {.slot = bytes_to_backend(b, slots, sizeof slots),
                  .species = bytes_to_backend(b, species, sizeof species)};
  c.args = (mlff_mace_atoms){.n = n, .slot = c.slot.data, .species = c.species.data};
  return c;
}

void free_atoms(mlff_backend *b, atoms_case *c)
{
  mlff_buf_release(b, &c->slot);
  mlff_buf_release(b, &c->species);
}

void free_arrays(mlff_backend *b, array **all, size_t n)
{
  for (size_t k = 0; k < n; k++) array_free(b, all[k]);
}
