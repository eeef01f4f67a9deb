/* neighbor_graph.cpp: see neighbor_graph.h. */
#include "neighbor_graph.h"

#include "errors.h"
#include "halo.h"
#include "new_list.h"
#include "pair_count.h"

#include "atom.h"
#include "comm.h"
#include "domain.h"
#include "error.h"
#include "fix.h"
#include "group.h"
#include "modify.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "update.h"
#include "utils.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace LAMMPS_NS;

static void name_atom(void *graph, int32_t i, char text[64])
{
  snprintf(text, 64, "%s", static_cast<const MLFFNeighborGraph *>(graph)->name_of(i).c_str());
}

MLFFNeighborGraph::MLFFNeighborGraph(LAMMPS *lammps, MLFFHalo &between_ranks) :
    Pointers(lammps), halo(between_ranks), arrays(nullptr), graph{}, cutoff(0.0), on_gpu(false), tags_needed(false),
    reorders(false), unchecked(true), run_ended(false), no_setup(false), new_types(false), outrun(false),
    skin(lammps->neighbor->skin), listed_comm(nullptr), last_list(nullptr), last_build(-1), last_step(-1),
    run_first(-1), run_last(-1)
{
  graph.name = name_atom;
  graph.name_context = this;
}

void MLFFNeighborGraph::set_model(const mlff_info *info, const std::vector<int> &mapping)
{
  species_of_type = mapping;
  cutoff = info->cutoff;
  on_gpu = info->device_number >= 0;
  tags_needed = info->reverse_width > 0;
  reorders = comm->nprocs > 1 && info->exchange_width > 0 && info->n_members == 1;
  forget_list();
}

void MLFFNeighborGraph::set_arrays(MLFFArrays *others)
{
  if (others != arrays) forget_list();
  arrays = others;
}

/* ----------------------------------------------------------------------
   every step
------------------------------------------------------------------------- */

/* Candidate cutoff: atoms may move by skin/2 (rRESPA: skin) between rebuilds. */
double MLFFNeighborGraph::reach(int n_skins) const
{
  return cutoff + n_skins * skin;
}

bool MLFFNeighborGraph::is_built_on_gpu(const NeighList *list) const
{
  return list->occasional && can_build_list_on_gpu();
}

/* Copies n values, with room for a larger list. */
template <class Value> static void copy(std::vector<Value> &to, const Value *from, size_t n)
{
  if (to.capacity() < n) {
    to = std::vector<Value>();
    to.reserve(n + n / 4);
  }
  to.assign(from, from + n);
}

/* Stores the atoms of this list for comparisons in later steps. */
void MLFFNeighborGraph::keep_list()
{
  const auto n_all = static_cast<size_t>(graph.n_all);
  listed_comm = comm;
  listed_tags.clear();
  listed_x.clear();
  listed_types.clear();
  last_types.clear();
  outrun = false;
  if (!arrays && atom->tag_enable) copy(listed_tags, atom->tag, n_all);
  if (n_all == 0 || (arrays && !delays_lists()))
    return;    // LAMMPS compares displacements itself: leave atoms on the GPU
  if (arrays) arrays->sync_atom();
  copy(listed_x, &atom->x[0][0], 3 * n_all);
  copy(listed_types, atom->type, n_all);
}

/* Whether LAMMPS may keep a list after displacements of more than half the skin. */
bool MLFFNeighborGraph::delays_lists() const
{
  return neighbor->every > 1 || neighbor->delay > 0 || !neighbor->dist_check;
}

int MLFFNeighborGraph::excluded_bits() const
{
  int bits = 0;
  for (int k = 0; k < neighbor->nex_group; k++) {
    const int one = neighbor->ex1_group[k], other = neighbor->ex2_group[k];
    if (other == 0) bits |= group->bitmask[one];
    if (one == 0) bits |= group->bitmask[other];
  }
  return bits;
}

/* Whether atoms that join a group or a molecule may lack neighbors, while they are in the list. */
bool MLFFNeighborGraph::excludes_pairs() const
{
  for (int k = 0; k < neighbor->nex_group; k++)
    if (neighbor->ex1_group[k] != 0 && neighbor->ex2_group[k] != 0) return true;
  return neighbor->nex_mol > 0;
}

/* Species of row or ghost a. An image of an owned atom has the type of its owner, because fixes may change only that
 * one. */
int32_t MLFFNeighborGraph::species_at(int a, int excluded) const
{
  const int here = atom_of(a);
  if (atom->mask[here] & excluded) return -1;
  const bool is_image = a >= graph.n_local && node_map.node[a] < graph.n_local;
  return species_of_type[atom->type[is_image ? node_map.owned[node_map.node[a]] : here]];
}

/* Returns true if any atom's species changed. */
bool MLFFNeighborGraph::update_species()
{
  if (arrays) return arrays->update_species(atoms_now());
  const auto n_all = static_cast<size_t>(graph.n_all);
  const bool is_new_list = last_types.empty();
  if (!is_new_list && std::equal(last_types.begin(), last_types.end(), atom->type)) return false;
  copy(last_types, atom->type, n_all);
  species.resize(n_all, -1);
  bool changed = false;
  const int excluded = excluded_bits();
  for (int a = 0; a < graph.n_all; a++) {
    if (!is_new_list) check_type(a);
    const int32_t s = species_at(a, excluded);
    changed = changed || species[a] != s;
    species[a] = s;
  }
  return changed;
}

/* Lists of pair_style hybrid have rows only for the types of the sub-style when the list was built. */
void MLFFNeighborGraph::check_type(int a)
{
  const int here = atom_of(a), now = atom->type[here], then = listed_types[here];
  if (!update_problem.empty() || (species_of_type[now] < 0) == (species_of_type[then] < 0)) return;
  update_problem = atom_name(here) + " changed from type " + std::to_string(then) + " to type " + std::to_string(now) +
                   ", but only one of these types belongs to this model, and the neighbor list is older: remove `pre "
                   "no`, or change types only where LAMMPS builds a new list [mlff-35]";
}

bool MLFFNeighborGraph::settle_types()
{
  if (!arrays && !halo.is_needed()) return false;
  int problem = 0, changed = 0, anywhere = 0;
  if (arrays) arrays->sync_atom();
  halo.find_owner_types(owner_types);
  for (int g = graph.n_local; g < graph.n_all; g++) {
    if (!arrays && node_map.owner_rank[g] == comm->me) continue;
    const int32_t now = species_of_type[owner_types[g]];
    if (owner_types[g] != atom->type[g])
      problem = problem || arrays || (now < 0) != (species_of_type[listed_types[g]] < 0);
    // also a type that is back: this rank's own types may not have changed, so species[g] may be that of a step before
    if (arrays || problem || species[g] < 0 || species[g] == now) continue;
    species[g] = now;
    changed = 1;
  }
  mlff_stop_together(lmp,
                     problem
                         ? "pair_style mlff: types of atoms changed between two neighbor lists, and the current list "
                           "has no rows for the new types: change types only where LAMMPS builds a new list [mlff-35]"
                         : "");
  MPI_Allreduce(&changed, &anywhere, 1, MPI_INT, MPI_MAX, world);
  if (anywhere) graph.list_id++;
  return anywhere != 0;
}

/* Whether one of n coordinates differs by more than limit; NaN counts. Without a branch, so that it is vectorized. */
static bool may_have_moved(const double *now, const double *then, size_t n, double limit)
{
  int64_t n_far = 0;
  for (size_t k = 0; k < n; k++) n_far += !(std::fabs(now[k] - then[k]) <= limit);
  return n_far != 0;
}

static double square_of_move(const double *now, const double *then)
{
  const double dx = now[0] - then[0], dy = now[1] - then[1], dz = now[2] - then[2];
  return dx * dx + dy * dy + dz * dz;
}

/* A missing pair was beyond cutoff + skin, so the displacements of its atoms add up to at least the skin. Ghosts also
 * move with the box. */
bool MLFFNeighborGraph::has_outrun_list() const
{
  if (is_respa()) return has_outrun_respa_list();
  if (listed_x.empty()) return false;
  if (arrays) arrays->sync_atom();
  const double *x = atom->x[0], *then = listed_x.data();
  if (!may_have_moved(x, then, listed_x.size(), 0.5 * skin / std::sqrt(3.0))) return false;
  double own = 0.0, all = 0.0;
  const size_t n_own = 3 * static_cast<size_t>(graph.n_local);
  for (size_t k = 0; k < n_own; k += 3) own = std::max(own, square_of_move(x + k, then + k));
  for (size_t k = n_own; k < listed_x.size(); k += 3) all = std::max(all, square_of_move(x + k, then + k));
  return !(std::sqrt(own) + std::sqrt(std::max(own, all)) <= skin * (1.0 + 1e-9));
}

/* Positions of owned atoms when LAMMPS built its list; nullptr in releases without get_xhold(). */
template <class N> static auto positions_of_list(N *neighbor, int) -> decltype(neighbor->get_xhold())
{
  return neighbor->get_xhold();
}

template <class N> static double **positions_of_list(N * /*neighbor*/, long)
{
  return nullptr;
}

/* With run_style respa atoms move between the build of the list and the first evaluation. Owned atoms suffice, because
 * the result of any rank counts. Unknown displacements count as too large. */
bool MLFFNeighborGraph::has_outrun_respa_list() const
{
  double *const *then = neighbor->dist_check ? positions_of_list(neighbor, 0) : nullptr;
  if (!then) return true;
  if (arrays) arrays->sync_atom();
  for (int i = 0; i < graph.n_local; i++)
    if (!(square_of_move(atom->x[i], then[i]) <= 0.25 * skin * skin)) return true;
  return false;
}

bool MLFFNeighborGraph::is_respa() const
{
  const Update *run = lmp->update;
  return run->whichflag == 1 && utils::strmatch(run->integrate_style, "^respa");
}

/* Position of owned atom i when the list was built; nullptr if unknown. */
const double *MLFFNeighborGraph::listed_position(int i) const
{
  double *const *then = is_respa() && neighbor->dist_check ? positions_of_list(neighbor, 0) : nullptr;
  if (then) return then[i];
  return is_respa() || listed_x.empty() ? nullptr : &listed_x[3 * static_cast<size_t>(i)];
}

/* `atom 5 has moved 1.4 A`, for the largest displacement on all ranks. Collective. */
std::string MLFFNeighborGraph::farthest_atom() const
{
  struct {
    double square;
    int rank;
  } mine = {-1.0, comm->me}, most = {};
  int farthest = 0;
  for (int i = 0; i < graph.n_local && listed_position(i); i++) {
    const double square = square_of_move(atom->x[i], listed_position(i));
    if (square > mine.square) farthest = i;
    mine.square = std::max(mine.square, square);
  }
  MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, world);
  if (most.square < 0.0) return "atoms have moved";
  char text[256] = "";
  if (comm->me == most.rank)
    snprintf(text, sizeof(text), "%s",
             mlff_format("%s has moved %.4g A", atom_name(farthest).c_str(), std::sqrt(most.square)).c_str());
  MPI_Bcast(text, sizeof(text), MPI_CHAR, most.rank, world);
  return text;
}

/* Positions in the order of the engine. */
const double (*MLFFNeighborGraph::this_step())[3]
{
  if (graph.n_all == 0) return nullptr;
  const double *x = atom->x[0];
  if (!reorders) return reinterpret_cast<const double(*)[3]>(x);
  const size_t n_local = 3 * static_cast<size_t>(graph.n_local), n_all = 3 * static_cast<size_t>(graph.n_all);
  positions.resize(n_all);
  for (size_t k = 0; k < n_local; k += 3)
    std::copy_n(x + 3 * static_cast<size_t>(node_map.owned[k / 3]), 3, &positions[k]);
  std::copy(x + n_local, x + n_all, positions.data() + n_local);
  return reinterpret_cast<const double(*)[3]>(positions.data());
}

/* Index: number of periodic directions. */
static constexpr mlff_boundary BOUNDARIES[] = {MLFF_BOUNDARY_OPEN, MLFF_BOUNDARY_MIXED, MLFF_BOUNDARY_MIXED,
                                               MLFF_BOUNDARY_PERIODIC};

void MLFFNeighborGraph::forget_list()
{
  last_list = nullptr;
  unchecked = unchecked || delays_lists();
}

void MLFFNeighborGraph::begin_run()
{
  unchecked = true;
  skin = neighbor->skin;
}

/* delete_atoms overlap deletes all lists, and pair styles keep the dangling pointers. */
void MLFFNeighborGraph::check_list_exists(const NeighList *list) const
{
  for (int k = 0; k < neighbor->nlist; k++)
    if (neighbor->lists[k] == list) return;
  error->all(FLERR, "pair_style mlff: a command has deleted the neighbor lists since the last run: remove `pre no`, so "
                    "that this run builds new neighbor lists [mlff-35]");
}

/* Trials occur in pre_exchange() of steps for which a fix has requested new lists. */
bool MLFFNeighborGraph::is_trial() const
{
  for (int k = 0; k < modify->nfix; k++) {
    const Fix *fix = modify->fix[k];
    if (fix->force_reneighbor && fix->next_reneighbor == lmp->update->ntimestep &&
        (modify->fmask[k] & FixConst::PRE_EXCHANGE))
      return true;
  }
  return false;
}

const mlff_graph *MLFFNeighborGraph::update(NeighList *list)
{
  // neighbor->ncalls counts lists that were rebuilt between two steps as well, e.g. by fix gcmc; set-ups reset it to 0.
  // Inner steps of run_style respa belong to one step, and only the first one has a new list.
  const Update *run = lmp->update;
  const bool maybe_new = neighbor->ago == 0 && (run->setupflag || run->ntimestep != last_step);
  const bool rebuilt = maybe_new || neighbor->ncalls != last_build || list != last_list;
  // `run N pre no` does not call init(), and may have the step numbers of the previous run
  const bool new_run = run_ended || run->firststep != run_first || run->laststep != run_last;
  if (new_run) {
    check_list_exists(list);
    no_setup = !run->setupflag;
  }
  update_problem.clear();
  new_types = false;
  run_ended = false;
  // LAMMPS prepares bins and ghosts for other settings in a setup only, and for another box after trials of a step
  const bool may_lack_pairs = no_setup || excludes_pairs() || (domain->box_change && is_trial());
  unchecked = unchecked || new_run || (rebuilt && may_lack_pairs);
  const bool seen = last_list != nullptr;
  if (new_run && seen && !run->setupflag && neighbor->ago != 0) check_same_atoms();
  if (rebuilt) NewList(*this, list).build();
  run_first = run->firststep;
  run_last = run->laststep;
  last_build = neighbor->ncalls;
  last_step = run->ntimestep;
  last_list = list;
  // the style does not see all steps
  const bool is_unseen = !seen && neighbor->ago != 0;
  if (rebuilt) {
    new_types = is_unseen;
    outrun = is_respa() && has_outrun_list();
  } else {
    // some fixes change types without a new list; a list of the GPU is then built from atoms that have moved
    new_types = update_species();
    outrun = has_outrun_list();
    if (new_types && is_built_on_gpu(list)) graph.reach = reach(2);
  }
  if (new_types || rebuilt) graph.list_id++;

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
  graph.node = node_map.node.data();
  graph.row = is_built_on_gpu(list) ? nullptr : row.data();
  graph.nbr = is_built_on_gpu(list) ? nullptr : nbr.data();
  graph.pos = this_step();
  return &graph;
}

mlff_graph MLFFNeighborGraph::on_host()
{
  if (arrays) return arrays->graph_on_host(graph);
  mlff_graph whole = graph;
  if (!is_built_on_gpu(last_list)) return whole;
  neighbor->build_one(last_list);
  NewList(*this, last_list).copy_rows();
  whole.row = row.data();
  whole.nbr = nbr.data();
  whole.n_pairs = graph.n_pairs;
  return whole;
}

/* `run N pre no` with the previous list: stops if a command has sorted, moved or removed atoms or ghosts, built lists,
 * replaced the communication style, or changed types of owned atoms. Collective. */
void MLFFNeighborGraph::check_same_atoms()
{
  static const char *const advice =
      "since the last run: remove `pre no`, so that this run builds new neighbor lists [mlff-35]";
  if (comm != listed_comm) error->all(FLERR, std::string("pair_style mlff: comm_style was used ") + advice);
  if (arrays) arrays->sync_atom();
  bool same = neighbor->ncalls == last_build;
  same = same && atom->nlocal == graph.n_local && atom->nlocal + atom->nghost == graph.n_all;
  halo.find_owner_types(owner_types);
  for (int g = atom->nlocal; same && g < atom->nlocal + atom->nghost; g++) same = owner_types[g] == atom->type[g];
  if (same && !listed_tags.empty()) same = std::equal(listed_tags.begin(), listed_tags.end(), atom->tag);
  mlff_stop_together(lmp, same
                              ? ""
                              : std::string("pair_style mlff: atoms were moved, created, deleted or changed in type ") +
                                    advice);
}

void MLFFNeighborGraph::check_pairs(int64_t n_edges, bool any_outrun, const std::string &who)
{
  if (!unchecked && !any_outrun) return;
  unchecked = false;
  if (arrays) arrays->sync_atom();
  std::string problem = MLFFPairCount(lmp, excluded_bits()).compare(n_edges, cutoff, species_of_type);
  if (problem.empty()) return;
  if (any_outrun)
    problem =
        farthest_atom() +
        mlff_format(" since LAMMPS built the neighbor list (half the skin is %g A), so the neighbor list lacks pairs: "
                    "use `neigh_modify delay 0 every 1 check yes`, a larger skin or a smaller time step [mlff-34]",
                    0.5 * skin);
  error->all(FLERR, who + ": " + problem);
}

void MLFFNeighborGraph::wait() const
{
  if (arrays) arrays->wait();
}

/* ----------------------------------------------------------------------
   failures
------------------------------------------------------------------------- */

std::string MLFFNeighborGraph::atom_name(int i) const
{
  if (arrays) arrays->sync_atom();
  if (!atom->tag_enable) return "atom " + std::to_string(i) + " of rank " + std::to_string(comm->me);
  return "atom " + std::to_string(atom->tag[i]);
}

/* ---------------------------------------------------------------------- */

double MLFFNeighborGraph::memory_usage() const
{
  const size_t numbers = species.capacity() + nbr.capacity() + listed.capacity() + node_map.owner_rank.capacity() +
                         node_map.node.capacity() + node_map.row_of.capacity() + node_map.owned.capacity() +
                         node_map.ghost_of_node.capacity() + listed_types.capacity() + last_types.capacity() +
                         owner_types.capacity();
  return static_cast<double>(numbers * sizeof(int) + (row.capacity() + tags.capacity()) * sizeof(int64_t) +
                             listed_tags.capacity() * sizeof(tagint) +
                             (positions.capacity() + listed_x.capacity()) * sizeof(double)) +
         (arrays ? arrays->memory_usage() : 0.0);
}
