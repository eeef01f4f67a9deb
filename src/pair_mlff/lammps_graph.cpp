/* lammps_graph.cpp: what MLFFIO (lammps_io.h) makes of LAMMPS' atoms and neighbour lists. */
#include "lammps_io.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "neigh_list.h"
#include "neighbor.h"

#include <algorithm>

using namespace LAMMPS_NS;

void MLFFIO::set_arrays(MLFFArrays *others)
{
  if (others != arrays) forget_list();
  arrays = others;
}

/* Candidates are pairs up to here. Those beyond are there when another style has a longer cutoff, and cannot matter before
 * the next rebuild. */
double MLFFIO::reach() const
{
  return cutoff + neighbor->skin;
}

/* A new list: whose features every ghost carries, the order of atoms, and the candidates. */
void MLFFIO::take_list(NeighList *list)
{
  last_build = neighbor->ncalls;
  last_list = list;
  find_owners();
  find_boundary(list);
  std::string problem = assign_nodes();
  if (problem.empty()) problem = check_special_bonds();
  if (problem.empty() && tags_needed && !atom->tag_enable)
    problem = "This model needs atom IDs to order neighbours; take `atom_modify id no` away";
  stop_together(problem);
  if (comm_needed && exchange_width > 0) features.build(remote_rank, remote_index);
  order_atoms();
  exchange.sent = features.sent().data();
  exchange.n_sent = static_cast<int32_t>(features.sent().size());
  if (tags_needed) copy_tags();
  static const std::vector<int> same;
  if (arrays) arrays->set_order(reorders ? owned : same, reorders ? row_of : same, node, ghost_of_node);
  update_species();
  if (arrays)
    view.n_pairs = arrays->copy_list(list, atoms_now(), reach());
  else
    copy_list(list);
}

const mlff_graph *MLFFIO::graph(NeighList *list)
{
  // neighbor->ncalls also tells of lists that were rebuilt between two steps, e.g. by fix gcmc
  const bool rebuilt = neighbor->ago == 0 || neighbor->ncalls != last_build || list != last_list;
  if (rebuilt) take_list(list);
  // some fixes swap types without reneighbouring
  if (update_species() || rebuilt) view.list_id++;

  set_boundary();
  view.tag = tags_needed ? tags.data() : nullptr;
  view.on_device = 0;
  if (arrays) {
    arrays->fill(view);
    return &view;
  }
  view.species = species.data();
  view.node = node.data();
  view.row = row.data();
  view.nbr = nbr.data();
  view.pos = this_step();
  return &view;
}

void MLFFIO::set_boundary()
{
  const int n_periodic = (domain->xperiodic != 0) + (domain->yperiodic != 0) + (domain->zperiodic != 0);
  view.boundary = n_periodic == 3 ? MLFF_BOUNDARY_PERIODIC : n_periodic == 0 ? MLFF_BOUNDARY_OPEN : MLFF_BOUNDARY_MIXED;
  view.volume = domain->xprd * domain->yprd * domain->zprd;
}

/* Positions, those of owned atoms in the order of the engine. */
const double (*MLFFIO::this_step())[3]
{
  if (view.n_all == 0) return nullptr;
  const double *x = atom->x[0];
  if (!reorders) return reinterpret_cast<const double(*)[3]>(x);
  const size_t n_local = 3 * static_cast<size_t>(view.n_local), n_all = 3 * static_cast<size_t>(view.n_all);
  positions.resize(n_all);
  for (size_t k = 0; k < n_local; k += 3) std::copy_n(x + 3 * static_cast<size_t>(owned[k / 3]), 3, &positions[k]);
  std::copy(x + n_local, x + n_all, positions.data() + n_local);
  return reinterpret_cast<const double(*)[3]>(positions.data());
}

void MLFFIO::copy_tags()
{
  if (arrays) arrays->sync_atom();
  // never empty, so that data() is not null when a rank has no atoms
  tags.assign(static_cast<size_t>(view.n_all) + 1, 0);
  for (int a = 0; a < view.n_all; a++) tags[a] = atom->tag[atom_of(a)];
}

/* Returns true if any atom's species changed. */
bool MLFFIO::update_species()
{
  if (arrays) return arrays->update_species(atoms_now());
  const int *type = atom->type;
  bool changed = false;
  species.resize(static_cast<size_t>(view.n_all), -1);
  for (int a = 0; a < view.n_all; a++) {
    const int s = species_of_type[type[atom_of(a)]];
    if (species[a] == s) continue;
    species[a] = s;
    changed = true;
  }
  return changed;
}

/* ----------------------------------------------------------------------
   owners, nodes, order
------------------------------------------------------------------------- */

/* Every ghost learns its owner's rank (owner_rank) and local index there (node, for now). */
void MLFFIO::find_owners()
{
  const int n_local = atom->nlocal, n_all = atom->nlocal + atom->nghost;
  view.n_local = n_local;
  view.n_all = n_all;
  owner_rank.resize(static_cast<size_t>(n_all));
  node.resize(static_cast<size_t>(n_all));
  std::fill(owner_rank.begin(), owner_rank.end(), -1);
  for (int i = 0; i < n_local; i++) {
    owner_rank[i] = comm->me;
    node[i] = i;
  }
  forward_owners();
}

/* Calls use(j) for each candidate j of atom i that the model has an element for. */
template <class Use> void MLFFIO::for_neighbours(const NeighList *list, int i, Use use) const
{
  const double reach2 = reach() * reach();
  const double *const *x = atom->x;
  const int *entry = list->firstneigh[i], *type = atom->type;
  for (int k = 0; k < list->numneigh[i]; k++) {
    const int j = entry[k] & NEIGHMASK;
    if (species_of_type[type[j]] < 0) continue;
    const double dx = x[j][0] - x[i][0], dy = x[j][1] - x[i][1], dz = x[j][2] - x[i][2];
    // written so that a NaN stays in and is reported by the engine
    if (dx * dx + dy * dy + dz * dz > reach2) continue;
    use(j);
  }
}

/* Which owned atoms have neighbours of other ranks, and which ghosts are such neighbours: only their features travel. */
void MLFFIO::find_boundary(NeighList *list)
{
  at_boundary.assign(static_cast<size_t>(view.n_local), 0);
  wanted_ghost.assign(static_cast<size_t>(view.n_all), 0);
  if (!reorders) return;
  if (arrays) {
    arrays->find_boundary(list, atoms_now(), reach(), owner_rank, comm->me, at_boundary, wanted_ghost);
    return;
  }
  for (int ii = 0; ii < list->inum; ii++) {
    const int i = list->ilist[ii];
    if (species_of_type[atom->type[i]] < 0) continue;
    for_neighbours(list, i, [this, i](int j) {
      if (j < view.n_local || owner_rank[j] == comm->me) return;
      at_boundary[i] = 1;
      wanted_ghost[j] = 1;
    });
  }
}

/* Nodes of other ranks stand in the order of their owners; those that nobody here has as a neighbour come last and get no
 * features. They are there because LAMMPS passes what goes home on from ghost to ghost. */
std::string MLFFIO::assign_nodes()
{
  std::vector<int> ghosts;
  for (int g = view.n_local; g < view.n_all; g++) {
    if (owner_rank[g] < 0) return "Ghost atom without an owner: communication of this LAMMPS is not understood";
    if (owner_rank[g] != comm->me) ghosts.push_back(g);
  }
  const auto same = [this](int a, int b) { return owner_rank[a] == owner_rank[b] && node[a] == node[b]; };
  std::sort(ghosts.begin(), ghosts.end(), [this](int a, int b) {
    if (owner_rank[a] != owner_rank[b]) return owner_rank[a] < owner_rank[b];
    return node[a] != node[b] ? node[a] < node[b] : a < b;
  });
  std::vector<size_t> first;    // of the images of an atom
  for (size_t k = 0; k < ghosts.size(); k++)
    if (k == 0 || !same(ghosts[k - 1], ghosts[k])) first.push_back(k);
  const size_t n_atoms = first.size();
  first.push_back(ghosts.size());

  remote_rank.clear();
  remote_index.clear();
  ghost_of_node.clear();
  const auto is_wanted = [this](int g) { return !reorders || wanted_ghost[g]; };
  for (const bool wanted : {true, false}) {
    for (size_t k = 0; k < n_atoms; k++) {
      const auto begin = ghosts.begin() + static_cast<std::ptrdiff_t>(first[k]);
      const auto end = ghosts.begin() + static_cast<std::ptrdiff_t>(first[k + 1]);
      if (std::any_of(begin, end, is_wanted) != wanted) continue;
      if (wanted) {
        remote_rank.push_back(owner_rank[*begin]);
        remote_index.push_back(node[*begin]);
      }
      const int v = view.n_local + static_cast<int>(ghost_of_node.size());
      ghost_of_node.push_back(*begin);
      for (auto g = begin; g != end; ++g) node[*g] = v;
    }
  }
  view.n_nodes = view.n_local + static_cast<int>(ghost_of_node.size());
  return "";
}

/* Interior atoms first (mlff_graph), each kind in the order of LAMMPS, which keeps neighbours near each other. */
void MLFFIO::order_atoms()
{
  const auto n_local = static_cast<size_t>(view.n_local);
  row_of.resize(n_local);
  owned.resize(n_local);
  if (reorders)
    for (const int i : features.sent()) at_boundary[i] = 1;
  int n = 0;
  for (const char boundary : {0, 1}) {
    if (boundary) view.n_interior = n;
    for (int i = 0; i < view.n_local; i++) {
      if (at_boundary[i] != boundary) continue;
      owned[n] = i;
      row_of[i] = n++;
    }
  }
  if (!reorders) {
    if (comm_needed) view.n_interior = 0;    // unknown
    return;
  }
  features.renumber(row_of);
  for (int g = view.n_local; g < view.n_all; g++)
    if (node[g] < view.n_local) node[g] = row_of[node[g]];
}

/* LAMMPS leaves bonded neighbours with a special_bonds factor of zero out of the neighbour list. */
std::string MLFFIO::check_special_bonds() const
{
  const int *flag = neighbor->special_flag;
  if (atom->molecular == Atom::ATOMIC || (flag[1] && flag[2] && flag[3])) return "";
  if (arrays) arrays->sync_atom();
  static const char *const advice =
      "; a machine-learned force field needs all neighbours. Use `special_bonds lj/coul 1 1 1`, or tiny factors "
      "such as 1e-50 where another pair style must ignore bonded neighbours";
  if (atom->molecular == Atom::TEMPLATE)
    return std::string("special_bonds removes bonded neighbours of molecule templates from the neighbour list") +
           advice;
  for (int i = 0; i < view.n_local; i++) {
    if (species_of_type[atom->type[i]] < 0) continue;
    int k = 0;
    for (int level = 1; level <= 3; level++) {
      for (; k < atom->nspecial[i][level - 1]; k++) {
        if (flag[level]) continue;
        const tagint partner = atom->special[i][k];
        const int j = atom->map_style == Atom::MAP_NONE ? -1 : atom->map(partner);
        if (j >= 0 && species_of_type[atom->type[j]] < 0) continue;
        return "special_bonds removes the 1-" + std::to_string(level + 1) + " neighbour " + std::to_string(partner) +
               " of " + atom_name(i) + " from the neighbour list" + advice;
      }
    }
  }
  return "";
}

/* ----------------------------------------------------------------------
   the list
------------------------------------------------------------------------- */

/* Rows in the order of the engine; atoms that are not in the list (hybrid) have empty rows. */
void MLFFIO::copy_list(const NeighList *list)
{
  const int n_local = view.n_local;
  listed.assign(static_cast<size_t>(n_local), 0);
  size_t n_candidates = 0;
  for (int ii = 0; ii < list->inum; ii++) {
    const int i = list->ilist[ii];
    if (species_of_type[atom->type[i]] < 0) continue;
    listed[i] = 1;
    n_candidates += static_cast<size_t>(list->numneigh[i]);
  }
  row.resize(static_cast<size_t>(n_local) + 1);
  if (nbr.size() < n_candidates) nbr.resize(n_candidates);

  int64_t n = 0;
  for (int r = 0; r < n_local; r++) {
    row[r] = n;
    if (!listed[owned[r]]) continue;
    for_neighbours(list, owned[r], [this, &n](int j) { nbr[n++] = j < view.n_local ? row_of[j] : j; });
  }
  row[n_local] = n;
  view.n_pairs = n;
}
