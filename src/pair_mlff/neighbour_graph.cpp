/* neighbour_graph.cpp: see neighbour_graph.h. */
#include "neighbour_graph.h"

#include "cells.h"
#include "errors.h"
#include "halo.h"
#include "pair_count.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cstdio>

using namespace LAMMPS_NS;

static void name_atom(void *of, int32_t i, char text[64])
{
  snprintf(text, 64, "%s", static_cast<const MLFFNeighbourGraph *>(of)->name_of(i).c_str());
}

MLFFNeighbourGraph::MLFFNeighbourGraph(LAMMPS *lammps, MLFFHalo &between_ranks) :
    Pointers(lammps), halo(between_ranks), arrays(nullptr), graph{}, cutoff(0.0), on_gpu(false), tags_needed(false),
    reorders(false), unchecked(false), counted(false), last_list(nullptr), last_build(-1), last_step(-1), run_first(-1),
    run_last(-1), last_box{}
{
  graph.name = name_atom;
  graph.name_context = this;
}

void MLFFNeighbourGraph::set_model(const mlff_info *info, const std::vector<int> &mapping)
{
  species_of_type = mapping;
  cutoff = info->cutoff;
  on_gpu = info->device_number >= 0;
  tags_needed = info->reverse_width > 0;
  reorders = comm->nprocs > 1 && info->exchange_width > 0 && info->n_members == 1;
  forget_list();
}

void MLFFNeighbourGraph::set_arrays(MLFFArrays *others)
{
  if (others != arrays) forget_list();
  arrays = others;
}

/* ----------------------------------------------------------------------
   a new list: whose features every ghost carries, the order of atoms, and the candidates
------------------------------------------------------------------------- */

class MLFFNeighbourGraph::NewList : protected Pointers {
 public:
  NewList(MLFFNeighbourGraph &made_of_it, NeighList *full) :
      Pointers(made_of_it.lmp), of(made_of_it), graph(of.graph), home(of.home), list(full), is_left(of.leaves(full)),
      reach(of.reach(is_respa() ? 2 : 1))
  {
  }
  void take();
  void copy_rows();

 private:
  MLFFNeighbourGraph &of;
  mlff_graph &graph;
  MLFFNodes &home;
  NeighList *list;
  const bool is_left;    // to the GPU
  const double
      reach;    // of candidates. Those beyond are there when another style has a longer cutoff, and cannot matter
                // before the next rebuild. With run_style respa atoms have moved since the list was made, by up to half
                // a skin each
  std::vector<char> at_boundary, wanted_ghost;
  std::vector<int> remote_rank, remote_index;    // of the nodes of other ranks that get features

  bool is_respa() const { return update->whichflag == 1 && utils::strmatch(update->integrate_style, "^respa"); }
  bool is_ours(int i) const { return of.species_of_type[atom->type[i]] >= 0; }
  template <class Use> void for_neighbours(int i, Use use) const;
  void find_owners();
  void find_boundary();
  void find_boundary_by_cells();
  std::string assign_nodes();
  std::string check_special_bonds() const;
  void order_atoms(const std::vector<int> &sent);
  void copy_tags();
};

void MLFFNeighbourGraph::NewList::take()
{
  if (list->occasional && !is_left) neighbor->build_one(list);
  find_owners();
  find_boundary();
  std::string problem = assign_nodes();
  if (problem.empty()) problem = check_special_bonds();
  if (problem.empty() && of.tags_needed && !atom->tag_enable)
    problem = "This model needs atom IDs to order neighbours; take `atom_modify id no` away";
  mlff_stop_together(lmp, problem);
  order_atoms(of.halo.connect(remote_rank, remote_index));
  if (of.tags_needed) copy_tags();
  static const std::vector<int> same;
  if (of.arrays)
    of.arrays->set_order(of.reorders ? home.owned : same, of.reorders ? home.row_of : same, home.node,
                         home.ghost_of_node);
  of.update_species();
  of.listed_tags.clear();
  if (!of.arrays && atom->tag_enable) of.listed_tags.assign(atom->tag, atom->tag + graph.n_all);
  graph.reach = is_left ? reach : 0.0;
  if (of.arrays)
    graph.n_pairs = of.arrays->copy_list(list, of.atoms_now(), reach);
  else if (!is_left)
    copy_rows();
  else
    of.nbr = std::vector<int32_t>();    // on_host() had it
}

/* Every ghost learns its owner's rank (owner_rank) and local index there (node, for now). */
void MLFFNeighbourGraph::NewList::find_owners()
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
template <class Use> void MLFFNeighbourGraph::NewList::for_neighbours(int i, Use use) const
{
  const double reach2 = reach * reach;
  const double *const *x = atom->x;
  const int *entry = list->firstneigh[i], *type = atom->type, *species = of.species_of_type.data();
  for (int k = 0; k < list->numneigh[i]; k++) {
    const int j = entry[k] & NEIGHMASK;
    if (species[type[j]] < 0) continue;
    const double dx = x[j][0] - x[i][0], dy = x[j][1] - x[i][1], dz = x[j][2] - x[i][2];
    // written so that a NaN stays in and is reported by the engine
    if (dx * dx + dy * dy + dz * dz > reach2) continue;
    use(j);
  }
}

/* Owned atoms that have neighbours of other ranks, and ghosts that are such neighbours: only their features travel. */
void MLFFNeighbourGraph::NewList::find_boundary()
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
    for_neighbours(i, [this, i](int j) {
      if (j < graph.n_local || home.owner_rank[j] == comm->me) return;
      at_boundary[i] = 1;
      wanted_ghost[j] = 1;
    });
  }
}

/* The same without a list. A GPU rounds distances in another way than the host. */
void MLFFNeighbourGraph::NewList::find_boundary_by_cells()
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

/* Nodes of other ranks stand in the order of their owners; those that nobody here has as a neighbour come last and get
 * no features. They are there because LAMMPS passes what goes home on from ghost to ghost. */
std::string MLFFNeighbourGraph::NewList::assign_nodes()
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

/* Interior atoms first (mlff_graph), each kind in the order of LAMMPS, which keeps neighbours near each other. */
void MLFFNeighbourGraph::NewList::order_atoms(const std::vector<int> &sent)
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

/* LAMMPS leaves bonded neighbours with a special_bonds factor of zero out of the neighbour list. */
std::string MLFFNeighbourGraph::NewList::check_special_bonds() const
{
  const int *flag = neighbor->special_flag;
  if (atom->molecular == Atom::ATOMIC || (flag[1] && flag[2] && flag[3])) return "";
  if (of.arrays) of.arrays->sync_atom();
  static const char *const advice =
      "; a machine-learned force field needs all neighbours. Use `special_bonds lj/coul 1 1 1`, or tiny factors "
      "such as 1e-50 where another pair style must ignore bonded neighbours [mlff-32]";
  if (atom->molecular == Atom::TEMPLATE)
    return std::string("special_bonds removes bonded neighbours of molecule templates from the neighbour list") +
           advice;
  for (int i = 0; i < graph.n_local; i++) {
    if (!is_ours(i)) continue;
    int k = 0;
    for (int level = 1; level <= 3; level++) {
      for (; k < atom->nspecial[i][level - 1]; k++) {
        if (flag[level]) continue;
        const tagint partner = atom->special[i][k];
        const int j = atom->map_style == Atom::MAP_NONE ? -1 : atom->map(partner);
        if (j >= 0 && !is_ours(j)) continue;
        return "special_bonds removes the 1-" + std::to_string(level + 1) + " neighbour " + std::to_string(partner) +
               " of " + of.atom_name(i) + " from the neighbour list" + advice;
      }
    }
  }
  return "";
}

void MLFFNeighbourGraph::NewList::copy_tags()
{
  if (of.arrays) of.arrays->sync_atom();
  // never empty, so that data() is not null when a rank has no atoms
  of.tags.assign(static_cast<size_t>(graph.n_all) + 1, 0);
  for (int a = 0; a < graph.n_all; a++) of.tags[a] = atom->tag[of.atom_of(a)];
}

/* Rows in the order of the engine; atoms that are not in the list (hybrid) have empty rows. */
void MLFFNeighbourGraph::NewList::copy_rows()
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
    for_neighbours(home.owned[r], [this, &n](int j) { of.nbr[n++] = j < graph.n_local ? home.row_of[j] : j; });
  }
  of.row[n_local] = n;
  graph.n_pairs = n;
}

/* ----------------------------------------------------------------------
   every step
------------------------------------------------------------------------- */

/* Of candidates: each of the atoms moves by half a skin, or by a whole one, before the next rebuild. */
double MLFFNeighbourGraph::reach(int n_skins) const
{
  return cutoff + n_skins * neighbor->skin;
}

bool MLFFNeighbourGraph::leaves(const NeighList *list) const
{
  return list->occasional && can_leave_list();
}

/* Returns true if any atom's species changed. */
bool MLFFNeighbourGraph::update_species()
{
  if (arrays) return arrays->update_species(atoms_now());
  const int *type = atom->type;
  bool changed = false;
  species.resize(static_cast<size_t>(graph.n_all), -1);
  for (int a = 0; a < graph.n_all; a++) {
    const int s = species_of_type[type[atom_of(a)]];
    if (species[a] == s) continue;
    species[a] = s;
    changed = true;
  }
  return changed;
}

/* Positions, those of owned atoms in the order of the engine. */
const double (*MLFFNeighbourGraph::this_step())[3]
{
  if (graph.n_all == 0) return nullptr;
  const double *x = atom->x[0];
  if (!reorders) return reinterpret_cast<const double(*)[3]>(x);
  const size_t n_local = 3 * static_cast<size_t>(graph.n_local), n_all = 3 * static_cast<size_t>(graph.n_all);
  positions.resize(n_all);
  for (size_t k = 0; k < n_local; k += 3) std::copy_n(x + 3 * static_cast<size_t>(home.owned[k / 3]), 3, &positions[k]);
  std::copy(x + n_local, x + n_all, positions.data() + n_local);
  return reinterpret_cast<const double(*)[3]>(positions.data());
}

/* By the number of periodic directions. */
static constexpr mlff_boundary BOUNDARIES[] = {MLFF_BOUNDARY_OPEN, MLFF_BOUNDARY_MIXED, MLFF_BOUNDARY_MIXED,
                                               MLFF_BOUNDARY_PERIODIC};

const mlff_graph *MLFFNeighbourGraph::update(NeighList *list)
{
  // neighbor->ncalls also tells of lists that were rebuilt between two steps, e.g. by fix gcmc; set-ups put it to 0.
  // The inner steps of run_style respa are one step, and only its first meets a new list
  const Update *run = lmp->update;
  const bool maybe_new = neighbor->ago == 0 && (run->setupflag || run->ntimestep != last_step);
  const bool rebuilt = maybe_new || neighbor->ncalls != last_build || list != last_list;
  // `run N pre no` comes without init(), and all frames of a rerun after one
  const bool new_run = run->firststep != run_first || run->laststep != run_last;
  const std::array<double, 12> box = box_now();
  if (new_run) counted = false;
  if (new_run && !run->setupflag && neighbor->ago != 0) {
    check_same_atoms();
    unchecked = box != last_box;
  }
  last_box = box;
  if (rebuilt) NewList(*this, list).take();
  if (rebuilt && !counted) unchecked = true;
  run_first = run->firststep;
  run_last = run->laststep;
  last_build = neighbor->ncalls;
  last_step = run->ntimestep;
  last_list = list;
  // some fixes swap types without reneighbouring; a GPU that makes its list then has atoms that LAMMPS has seen move
  const bool swapped = update_species() && !rebuilt;
  if (swapped && leaves(list)) graph.reach = reach(2);
  if (swapped || rebuilt) graph.list_id++;

  const int n_periodic = (domain->xperiodic != 0) + (domain->yperiodic != 0) + (domain->zperiodic != 0);
  graph.boundary = BOUNDARIES[n_periodic];
  graph.volume = domain->xprd * domain->yprd * domain->zprd;
  graph.tag = tags_needed ? tags.data() : nullptr;
  graph.on_device = 0;
  if (arrays) {
    arrays->fill(graph);
    return &graph;
  }
  graph.species = species.data();
  graph.node = home.node.data();
  graph.row = leaves(list) ? nullptr : row.data();
  graph.nbr = leaves(list) ? nullptr : nbr.data();
  graph.pos = this_step();
  return &graph;
}

mlff_graph MLFFNeighbourGraph::on_host()
{
  if (arrays) return arrays->graph_on_host(graph);
  mlff_graph whole = graph;
  if (!leaves(last_list)) return whole;
  neighbor->build_one(last_list);
  NewList(*this, last_list).copy_rows();
  whole.row = row.data();
  whole.nbr = nbr.data();
  whole.n_pairs = graph.n_pairs;
  return whole;
}

/* What positions of images depend on. */
std::array<double, 12> MLFFNeighbourGraph::box_now() const
{
  const Domain &d = *domain;
  return {d.boxlo[0], d.boxlo[1], d.boxlo[2], d.boxhi[0],          d.boxhi[1],          d.boxhi[2],
          d.xy,       d.xz,       d.yz,       double(d.xperiodic), double(d.yperiodic), double(d.zperiodic)};
}

/* `run N pre no` with the list of before: commands may have sorted or moved atoms or taken ghosts away, have made lists
 * of their own, or have given owned atoms, and not their ghosts, other types. Collective. */
void MLFFNeighbourGraph::check_same_atoms()
{
  if (arrays) arrays->sync_atom();
  bool same = neighbor->ncalls == last_build;
  if (same) same = halo.ghosts_have_types();
  same = same && atom->nlocal == graph.n_local && atom->nlocal + atom->nghost == graph.n_all;
  if (same && !listed_tags.empty()) same = std::equal(listed_tags.begin(), listed_tags.end(), atom->tag);
  mlff_stop_together(lmp, same ? ""
                               : "pair_style mlff: atoms have been moved, created, deleted or given other types since "
                                 "the last run: take `pre no` away, so that this run makes new neighbour lists "
                                 "[mlff-35]");
}

void MLFFNeighbourGraph::check_pairs(int64_t n_edges, const char *who)
{
  if (!unchecked) return;
  unchecked = false;
  counted = true;
  if (arrays) arrays->sync_atom();
  const std::string problem = MLFFPairCount(lmp).compare(n_edges, cutoff, species_of_type);
  if (!problem.empty()) error->all(FLERR, std::string(who) + ": " + problem);
}

void MLFFNeighbourGraph::wait() const
{
  if (arrays) arrays->wait();
}

/* ----------------------------------------------------------------------
   failures
------------------------------------------------------------------------- */

std::string MLFFNeighbourGraph::atom_name(int i) const
{
  if (arrays) arrays->sync_atom();
  if (!atom->tag_enable) return "atom " + std::to_string(i) + " of rank " + std::to_string(comm->me);
  return "atom " + std::to_string(atom->tag[i]);
}

/* ---------------------------------------------------------------------- */

double MLFFNeighbourGraph::memory_usage() const
{
  const size_t numbers = species.capacity() + nbr.capacity() + listed.capacity() + home.owner_rank.capacity() +
                         home.node.capacity() + home.row_of.capacity() + home.owned.capacity() +
                         home.ghost_of_node.capacity();
  return static_cast<double>(numbers * sizeof(int) + (row.capacity() + tags.capacity()) * sizeof(int64_t) +
                             listed_tags.capacity() * sizeof(tagint) + positions.capacity() * sizeof(double)) +
         (arrays ? arrays->memory_usage() : 0.0);
}
