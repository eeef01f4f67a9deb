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

void MLFFNeighborGraph::NewList::take()
{
  if (list->occasional && !is_left) neighbor->build_one(list);
  find_owners();
  find_boundary();
  std::string problem = assign_nodes();
  if (problem.empty()) problem = check_special_bonds();
  if (problem.empty()) problem = check_exclusions();
  if (problem.empty() && of.tags_needed && !atom->tag_enable)
    problem = "This model needs atom IDs to order neighbors; take `atom_modify id no` away";
  mlff_stop_together(lmp, problem);
  order_atoms(of.halo.connect(remote_rank, remote_index));
  if (of.tags_needed) copy_tags();
  static const std::vector<int> same;
  if (of.arrays)
    of.arrays->set_order(of.reorders ? home.owned : same, of.reorders ? home.row_of : same, home.node,
                         home.ghost_of_node);
  of.keep_list();
  of.update_species();
  graph.reach = is_left ? reach : 0.0;
  if (of.arrays)
    graph.n_pairs = of.arrays->copy_list(list, of.atoms_now(), reach);
  else if (!is_left)
    copy_rows();
  else
    of.nbr = std::vector<int32_t>();    // on_host() had it
}

/* Every ghost learns its owner's rank (owner_rank) and local index there (node, for now). */
void MLFFNeighborGraph::NewList::find_owners()
{
  const int n_local = atom->nlocal, n_all = atom->nlocal + atom->nghost;
  graph.n_local = n_local;
  graph.n_all = n_all;
  home.n_local = n_local;
  home.owner_rank.resize(static_cast<size_t>(n_all));
  home.node.resize(static_cast<size_t>(n_all));
  std::fill(home.owner_rank.begin(), home.owner_rank.end(), -1);
  for (int i = 0; i < n_local; i++) {
    home.owner_rank[i] = comm->me;
    home.node[i] = i;
  }
  of.halo.find_owners(home);
}

/* Calls use(j) for each candidate j of atom i that the model has an element for. */
template <class Use> void MLFFNeighborGraph::NewList::for_neighbors(int i, Use use) const
{
  const double reach2 = reach * reach;
  const double *const *x = atom->x;
  const int *entry = list->firstneigh[i], *type = atom->type, *species = of.species_of_type.data();
  for (int k = 0; k < list->numneigh[i]; k++) {
    const int j = entry[k] & NEIGHMASK;
    if (species[type[j]] < 0) continue;    // NULL in pair_coeff
    const double dx = x[j][0] - x[i][0], dy = x[j][1] - x[i][1], dz = x[j][2] - x[i][2];
    // written so that a NaN stays in and is reported by the engine
    if (dx * dx + dy * dy + dz * dz > reach2) continue;
    use(j);
  }
}

/* Owned atoms that have neighbors of other ranks, and ghosts that are such neighbors: only their features travel. */
void MLFFNeighborGraph::NewList::find_boundary()
{
  at_boundary.assign(static_cast<size_t>(graph.n_local), 0);
  wanted_ghost.assign(static_cast<size_t>(graph.n_all), 0);
  if (!of.reorders) return;
  if (of.arrays) {
    of.arrays->find_boundary(list, of.atoms_now(), reach, home.owner_rank, comm->me, at_boundary, wanted_ghost);
    return;
  }
  if (is_left) {
    find_boundary_by_cells();
    return;
  }
  for (int ii = 0; ii < list->inum; ii++) {
    const int i = list->ilist[ii];
    if (!is_ours(i)) continue;
    for_neighbors(i, [this, i](int j) {
      if (j < graph.n_local || home.owner_rank[j] == comm->me) return;
      at_boundary[i] = 1;
      wanted_ghost[j] = 1;
    });
  }
}

/* The same without a list. A GPU rounds distances in another way than the host. */
void MLFFNeighborGraph::NewList::find_boundary_by_cells()
{
  if (graph.n_all == 0) return;
  const double near2 = reach * reach * (1.0 + 1e-9);
  const std::vector<double> points(atom->x[0], atom->x[0] + 3 * static_cast<size_t>(graph.n_all));
  const MLFFCells cells(points, reach * (1.0 + 1e-9));
  for (int g = graph.n_local; g < graph.n_all; g++) {
    if (home.owner_rank[g] == comm->me || !is_ours(g)) continue;
    cells.for_near(&points[3 * static_cast<size_t>(g)], [this, g, near2](size_t j, double r2) {
      const int i = static_cast<int>(j);
      if (i >= graph.n_local || r2 > near2 || !is_ours(i)) return;
      at_boundary[i] = 1;
      wanted_ghost[g] = 1;
    });
  }
}

/* Nodes of other ranks stand in the order of their owners; those that nobody here has as a neighbor come last and get
 * no features. They are there because LAMMPS passes what goes home on from ghost to ghost. */
std::string MLFFNeighborGraph::NewList::assign_nodes()
{
  std::vector<int> ghosts;
  for (int g = graph.n_local; g < graph.n_all; g++) {
    if (home.owner_rank[g] < 0) return "Ghost atom without an owner: communication of this LAMMPS is not understood";
    if (home.owner_rank[g] != comm->me) ghosts.push_back(g);
  }
  const auto same = [this](int a, int b) {
    return home.owner_rank[a] == home.owner_rank[b] && home.node[a] == home.node[b];
  };
  std::sort(ghosts.begin(), ghosts.end(), [this](int a, int b) {
    if (home.owner_rank[a] != home.owner_rank[b]) return home.owner_rank[a] < home.owner_rank[b];
    return home.node[a] != home.node[b] ? home.node[a] < home.node[b] : a < b;
  });
  std::vector<size_t> first;    // of the images of an atom
  for (size_t k = 0; k < ghosts.size(); k++)
    if (k == 0 || !same(ghosts[k - 1], ghosts[k])) first.push_back(k);
  const size_t n_atoms = first.size();
  first.push_back(ghosts.size());

  home.ghost_of_node.clear();
  const auto is_wanted = [this](int g) { return !of.reorders || wanted_ghost[g]; };
  for (const bool wanted : {true, false}) {
    for (size_t k = 0; k < n_atoms; k++) {
      const auto begin = ghosts.begin() + static_cast<std::ptrdiff_t>(first[k]);
      const auto end = ghosts.begin() + static_cast<std::ptrdiff_t>(first[k + 1]);
      if (std::any_of(begin, end, is_wanted) != wanted) continue;
      if (wanted) {
        remote_rank.push_back(home.owner_rank[*begin]);
        remote_index.push_back(home.node[*begin]);
      }
      const int v = graph.n_local + static_cast<int>(home.ghost_of_node.size());
      home.ghost_of_node.push_back(*begin);
      for (auto g = begin; g != end; ++g) home.node[*g] = v;
    }
  }
  graph.n_nodes = graph.n_local + static_cast<int>(home.ghost_of_node.size());
  return "";
}

/* Interior atoms first (mlff_graph), each kind in the order of LAMMPS, which keeps neighbors near each other. */
void MLFFNeighborGraph::NewList::order_atoms(const std::vector<int> &sent)
{
  const auto n_local = static_cast<size_t>(graph.n_local);
  home.row_of.resize(n_local);
  home.owned.resize(n_local);
  if (of.reorders)
    for (const int i : sent) at_boundary[i] = 1;
  int n = 0;
  for (const char boundary : {0, 1}) {
    if (boundary) graph.n_interior = n;
    for (int i = 0; i < graph.n_local; i++) {
      if (at_boundary[i] != boundary) continue;
      home.owned[n] = i;
      home.row_of[i] = n++;
    }
  }
  if (!of.reorders) {
    if (of.halo.is_needed()) graph.n_interior = 0;    // unknown
    return;
  }
  of.halo.set_order(home.row_of);
  for (int g = graph.n_local; g < graph.n_all; g++)
    if (home.node[g] < graph.n_local) home.node[g] = home.row_of[home.node[g]];
}

/* LAMMPS leaves bonded neighbors with a special_bonds factor of zero out of the neighbor list. */
std::string MLFFNeighborGraph::NewList::check_special_bonds() const
{
  const int *flag = neighbor->special_flag;
  if (atom->molecular == Atom::ATOMIC || (flag[1] && flag[2] && flag[3])) return "";
  if (of.arrays) of.arrays->sync_atom();
  static const char *const advice =
      "; a machine-learned force field needs all neighbors. Use `special_bonds lj/coul 1 1 1`, or tiny factors "
      "such as 1e-50 where another pair style must ignore bonded neighbors [mlff-32]";
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
               " of " + of.atom_name(i) + " from the neighbor list" + advice;
      }
    }
  }
  return "";
}

/* Atoms of a trial of fix gcmc, which no list contains. */
std::string MLFFNeighborGraph::NewList::check_exclusions() const
{
  const int excluded = of.arrays ? of.excluded_bits() : 0;
  for (int i = 0; excluded && i < graph.n_local; i++)
    if (atom->mask[i] & excluded)
      return "pair_style mlff/kk does not support atoms that neigh_modify exclude takes out of all lists, as fix gcmc "
             "does: use the plain style, without the suffix kk";
  return "";
}

void MLFFNeighborGraph::NewList::copy_tags()
{
  if (of.arrays) of.arrays->sync_atom();
  // never empty, so that data() is not null when a rank has no atoms
  of.tags.assign(static_cast<size_t>(graph.n_all) + 1, 0);
  for (int a = 0; a < graph.n_all; a++) of.tags[a] = atom->tag[of.atom_of(a)];
}

/* Rows in the order of the engine; atoms that are not in the list (hybrid) have empty rows. */
void MLFFNeighborGraph::NewList::copy_rows()
{
  const int n_local = graph.n_local;
  of.listed.assign(static_cast<size_t>(n_local), 0);
  size_t n_candidates = 0;
  for (int ii = 0; ii < list->inum; ii++) {
    const int i = list->ilist[ii];
    if (!is_ours(i)) continue;
    of.listed[i] = 1;
    n_candidates += static_cast<size_t>(list->numneigh[i]);
  }
  of.row.resize(static_cast<size_t>(n_local) + 1);
  if (of.nbr.size() < n_candidates) of.nbr.resize(n_candidates);

  int64_t n = 0;
  for (int r = 0; r < n_local; r++) {
    of.row[r] = n;
    if (!of.listed[home.owned[r]]) continue;
    for_neighbors(home.owned[r], [this, &n](int j) { of.nbr[n++] = j < graph.n_local ? home.row_of[j] : j; });
  }
  of.row[n_local] = n;
  graph.n_pairs = n;
}
