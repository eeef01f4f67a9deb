/* new_list.cpp: see new_list.h. */
#include "new_list.h"

#include "../base/cxx/cells.h"
#include "errors.h"
#include "halo.h"

#include "comm.h"
#include "neigh_list.h"
#include "neighbor.h"

#include <algorithm>

using namespace LAMMPS_NS;

void MLFFNeighborGraph::NewList::build()
{
  if (list->occasional && !on_gpu) neighbor->build_one(list);
  find_owners();
  find_boundary();
  std::string problem = assign_nodes();
  if (problem.empty()) problem = check_special_bonds();
  if (problem.empty()) problem = check_exclusions();
  if (problem.empty() && owner.tags_needed && !atom->tag_enable)
    problem = "pair_style mlff: this model needs atom IDs; remove `atom_modify id no`";
  mlff_stop_together(lmp, problem);
  order_atoms(owner.halo.connect(remote_rank, remote_index));
  if (owner.tags_needed) copy_tags();
  static const std::vector<int> same;
  if (owner.arrays)
    owner.arrays->set_order(owner.reorders ? node_map.owned : same, owner.reorders ? node_map.row_of : same,
                            node_map.node, node_map.ghost_of_node);
  owner.keep_list();
  owner.update_species();
  graph.reach = on_gpu ? reach : 0.0;
  if (owner.arrays)
    graph.n_pairs = owner.arrays->copy_list(list, owner.atoms_now(), reach);
  else if (!on_gpu)
    copy_rows();
  else
    owner.nbr = std::vector<int32_t>();    // filled by on_host()
}

/* Sends rank (owner_rank) and local index (node, until assign_nodes) of each owned atom to its ghosts. */
void MLFFNeighborGraph::NewList::find_owners()
{
  const int n_local = atom->nlocal, n_all = atom->nlocal + atom->nghost;
  graph.n_local = n_local;
  graph.n_all = n_all;
  node_map.n_local = n_local;
  node_map.owner_rank.resize(static_cast<size_t>(n_all));
  node_map.node.resize(static_cast<size_t>(n_all));
  std::fill(node_map.owner_rank.begin(), node_map.owner_rank.end(), -1);
  for (int i = 0; i < n_local; i++) {
    node_map.owner_rank[i] = comm->me;
    node_map.node[i] = i;
  }
  owner.halo.find_owners(node_map);
}

/* Calls use(j) for each candidate j of atom i that belongs to this model. */
template <class Use> void MLFFNeighborGraph::NewList::for_neighbors(int i, Use use) const
{
  const double reach2 = reach * reach;
  const double *const *x = atom->x;
  const int *entry = list->firstneigh[i], *type = atom->type, *species = owner.species_of_type.data();
  for (int k = 0; k < list->numneigh[i]; k++) {
    const int j = entry[k] & NEIGHMASK;
    if (species[type[j]] < 0) continue;    // NULL in pair_coeff
    const double dx = x[j][0] - x[i][0], dy = x[j][1] - x[i][1], dz = x[j][2] - x[i][2];
    // keeps NaN, which the engine reports
    if (dx * dx + dy * dy + dz * dz > reach2) continue;
    use(j);
  }
}

/* Marks owned atoms with neighbors of other ranks, and these neighbors: only their features are exchanged. */
void MLFFNeighborGraph::NewList::find_boundary()
{
  at_boundary.assign(static_cast<size_t>(graph.n_local), 0);
  wanted_ghost.assign(static_cast<size_t>(graph.n_all), 0);
  if (!owner.reorders) return;
  if (owner.arrays) {
    owner.arrays->find_boundary(list, owner.atoms_now(), reach, node_map.owner_rank, comm->me, at_boundary,
                                wanted_ghost);
    return;
  }
  if (on_gpu) {
    find_boundary_by_cells();
    return;
  }
  for (int ii = 0; ii < list->inum; ii++) {
    const int i = list->ilist[ii];
    if (!is_ours(i)) continue;
    for_neighbors(i, [this, i](int j) {
      if (j < graph.n_local || node_map.owner_rank[j] == comm->me) return;
      at_boundary[i] = 1;
      wanted_ghost[j] = 1;
    });
  }
}

/* The same without a list, with a margin because a GPU rounds distances differently. */
void MLFFNeighborGraph::NewList::find_boundary_by_cells()
{
  if (graph.n_all == 0) return;
  const double near2 = reach * reach * (1.0 + 1e-9);
  const std::vector<double> points(atom->x[0], atom->x[0] + 3 * static_cast<size_t>(graph.n_all));
  const MLFFCells cells(points, reach * (1.0 + 1e-9));
  for (int g = graph.n_local; g < graph.n_all; g++) {
    if (node_map.owner_rank[g] == comm->me || !is_ours(g)) continue;
    cells.for_near(&points[3 * static_cast<size_t>(g)], [this, g, near2](size_t j, double r2) {
      const int i = static_cast<int>(j);
      if (i >= graph.n_local || r2 > near2 || !is_ours(i)) return;
      at_boundary[i] = 1;
      wanted_ghost[g] = 1;
    });
  }
}

/* Nodes of other ranks are sorted by owner. Nodes without neighbors here come last and receive no features; they exist
 * because the reverse communication of LAMMPS passes values from ghost to ghost. */
std::string MLFFNeighborGraph::NewList::assign_nodes()
{
  std::vector<int> ghosts;
  for (int g = graph.n_local; g < graph.n_all; g++) {
    if (node_map.owner_rank[g] < 0)
      return "pair_style mlff: internal error: ghost atom without owner; please report this input script";
    if (node_map.owner_rank[g] != comm->me) ghosts.push_back(g);
  }
  const auto same = [this](int a, int b) {
    return node_map.owner_rank[a] == node_map.owner_rank[b] && node_map.node[a] == node_map.node[b];
  };
  std::sort(ghosts.begin(), ghosts.end(), [this](int a, int b) {
    if (node_map.owner_rank[a] != node_map.owner_rank[b]) return node_map.owner_rank[a] < node_map.owner_rank[b];
    return node_map.node[a] != node_map.node[b] ? node_map.node[a] < node_map.node[b] : a < b;
  });
  std::vector<size_t> first;    // first image of each atom
  for (size_t k = 0; k < ghosts.size(); k++)
    if (k == 0 || !same(ghosts[k - 1], ghosts[k])) first.push_back(k);
  const size_t n_atoms = first.size();
  first.push_back(ghosts.size());

  node_map.ghost_of_node.clear();
  const auto is_wanted = [this](int g) { return !owner.reorders || wanted_ghost[g]; };
  for (const bool wanted : {true, false}) {
    for (size_t k = 0; k < n_atoms; k++) {
      const auto begin = ghosts.begin() + static_cast<std::ptrdiff_t>(first[k]);
      const auto end = ghosts.begin() + static_cast<std::ptrdiff_t>(first[k + 1]);
      if (std::any_of(begin, end, is_wanted) != wanted) continue;
      if (wanted) {
        remote_rank.push_back(node_map.owner_rank[*begin]);
        remote_index.push_back(node_map.node[*begin]);
      }
      const int v = graph.n_local + static_cast<int>(node_map.ghost_of_node.size());
      node_map.ghost_of_node.push_back(*begin);
      for (auto g = begin; g != end; ++g) node_map.node[*g] = v;
    }
  }
  graph.n_nodes = graph.n_local + static_cast<int>(node_map.ghost_of_node.size());
  return "";
}

/* Interior atoms first (mlff_graph), otherwise the order of LAMMPS, which keeps neighbors together. */
void MLFFNeighborGraph::NewList::order_atoms(const std::vector<int> &sent)
{
  const auto n_local = static_cast<size_t>(graph.n_local);
  node_map.row_of.resize(n_local);
  node_map.owned.resize(n_local);
  if (owner.reorders)
    for (const int i : sent) at_boundary[i] = 1;
  int n = 0;
  for (const char boundary : {0, 1}) {
    if (boundary) graph.n_interior = n;
    for (int i = 0; i < graph.n_local; i++) {
      if (at_boundary[i] != boundary) continue;
      node_map.owned[n] = i;
      node_map.row_of[i] = n++;
    }
  }
  if (!owner.reorders) {
    if (owner.halo.is_needed()) graph.n_interior = 0;    // unknown
    return;
  }
  owner.halo.set_order(node_map.row_of);
  for (int g = graph.n_local; g < graph.n_all; g++)
    if (node_map.node[g] < graph.n_local) node_map.node[g] = node_map.row_of[node_map.node[g]];
}

/* LAMMPS removes bonded neighbors with a special_bonds factor of zero from the neighbor list. */
std::string MLFFNeighborGraph::NewList::check_special_bonds() const
{
  const int *flag = neighbor->special_flag;
  if (atom->molecular == Atom::ATOMIC || (flag[1] && flag[2] && flag[3])) return "";
  if (owner.arrays) owner.arrays->sync_atom();
  static const char *const advice =
      ". A machine-learned force field needs all neighbors: use `special_bonds lj/coul 1 1 1`, or tiny factors such as "
      "1e-50 where another pair style must ignore bonded neighbors [mlff-32]";
  if (atom->molecular == Atom::TEMPLATE)
    return std::string("special_bonds removes bonded neighbors of molecule templates from the neighbor list") + advice;
  for (int i = 0; i < graph.n_local; i++) {
    if (!is_ours(i)) continue;
    int k = 0;
    for (int level = 1; level <= 3; level++) {
      for (; k < atom->nspecial[i][level - 1]; k++) {
        if (flag[level]) continue;
        const tagint partner = atom->special[i][k];
        const int j = atom->map_style == Atom::MAP_NONE ? -1 : atom->map(partner);
        if (j >= 0 && !is_ours(j)) continue;
        return "special_bonds removes the 1-" + std::to_string(level + 1) + " neighbor " + std::to_string(partner) +
               " of " + owner.atom_name(i) + " from the neighbor list" + advice;
      }
    }
  }
  return "";
}

/* Atoms of a trial of fix gcmc are in no list. */
std::string MLFFNeighborGraph::NewList::check_exclusions() const
{
  const int excluded = owner.arrays ? owner.excluded_bits() : 0;
  for (int i = 0; excluded && i < graph.n_local; i++)
    if (atom->mask[i] & excluded)
      return "pair_style mlff/kk does not support atoms that neigh_modify exclude removes from all neighbor lists, as "
             "fix gcmc does: use pair_style mlff, without suffix kk";
  return "";
}

void MLFFNeighborGraph::NewList::copy_tags()
{
  if (owner.arrays) owner.arrays->sync_atom();
  // never empty, so that data() is not null when a rank has no atoms
  owner.tags.assign(static_cast<size_t>(graph.n_all) + 1, 0);
  for (int a = 0; a < graph.n_all; a++) owner.tags[a] = atom->tag[owner.atom_of(a)];
}

/* Rows in the order of the engine; atoms without a row in the list (hybrid) have empty rows. */
void MLFFNeighborGraph::NewList::copy_rows()
{
  const int n_local = graph.n_local;
  owner.listed.assign(static_cast<size_t>(n_local), 0);
  size_t n_candidates = 0;
  for (int ii = 0; ii < list->inum; ii++) {
    const int i = list->ilist[ii];
    if (!is_ours(i)) continue;
    owner.listed[i] = 1;
    n_candidates += static_cast<size_t>(list->numneigh[i]);
  }
  owner.row.resize(static_cast<size_t>(n_local) + 1);
  if (owner.nbr.size() < n_candidates) owner.nbr.resize(n_candidates);

  int64_t n = 0;
  for (int r = 0; r < n_local; r++) {
    owner.row[r] = n;
    if (!owner.listed[node_map.owned[r]]) continue;
    for_neighbors(node_map.owned[r],
                  [this, &n](int j) { owner.nbr[n++] = j < graph.n_local ? node_map.row_of[j] : j; });
  }
  owner.row[n_local] = n;
  graph.n_pairs = n;
}
