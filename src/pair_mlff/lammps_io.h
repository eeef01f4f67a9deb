/* lammps_io.h: between the arrays of LAMMPS and those of the engine.
 *
 * Towards the engine: atom types become species, the full neighbour list becomes CSR offsets, and every ghost learns
 * whose features it carries. Towards LAMMPS: node forces, energies and virials become f, eatom, vatom and cvatom, in
 * the units of the input script. This is the only place with a unit conversion and the only one that communicates.
 *
 * Ghosts and nodes. At each reneighbouring one forward communication tells every ghost the rank and the local index of
 * its owner. A ghost owned by this rank is a periodic image: it shares its owner's node, so its forces and virials
 * land on the owner without communication. An atom of another rank gets a node, which all ghosts that are images of it
 * share. Features of these nodes come from their owners (feature_exchange.h); forces and virials go home by LAMMPS'
 * reverse communication, from one of the ghosts. No tags and no atom map are needed.
 *
 * Order. The engine has owned atoms in the order of LAMMPS, except where features travel: then those that have to do with
 * this rank only stand first, so that they can be computed meanwhile. Ghosts have the same index on both sides.
 */
#ifndef LMP_MLFF_LAMMPS_IO_H
#define LMP_MLFF_LAMMPS_IO_H

#include "feature_exchange.h"

#include "mlff/mlff.h"
#include "pointers.h"

#include <string>
#include <vector>

namespace LAMMPS_NS {

class Fix;
class Pair;
class NeighList;

/* What one eV is in a unit style of LAMMPS. Lengths are Angstrom in all that are supported. */
struct MLFFUnits {
  const char *style, *energy;
  double per_ev;
};

/* Atoms and their graph in arrays that are not those of Atom: on the host or on a GPU, as the style has them (kokkos_arrays.h).
 * MLFFIO says when something is new and in which order the engine has atoms; these do what goes over all atoms or pairs. */
class MLFFArrays {
 public:
  virtual ~MLFFArrays() = default;

  /* Who has which atom: a number of each element for each type, -1 = not ours; owned atoms, and those with ghosts. */
  struct Atoms {
    const std::vector<int> &species_of_type;
    int n_local, n_all;
  };

  /* With a new list: marks owned atoms that have candidates of other ranks, and those candidates. reach: cutoff and skin. */
  virtual void find_boundary(NeighList *list, const Atoms &atoms, double reach, const std::vector<int> &owner_rank,
                             int me, std::vector<char> &at_boundary, std::vector<char> &wanted_ghost) = 0;
  /* With a new list: row r of the engine is owned[r], and atom i is row row_of[i] (empty: the order of LAMMPS); node of every
   * row and ghost; the ghost that gets the forces of each node of other ranks. */
  virtual void set_order(const std::vector<int> &owned, const std::vector<int> &row_of,
                         const std::vector<int32_t> &node, const std::vector<int> &ghost_of_node) = 0;
  /* Elements of rows and ghosts; returns true if one has changed. */
  virtual bool update_species(const Atoms &atoms) = 0;
  /* Rows of the candidates within reach, for atoms of the list that have an element; returns the number of pairs. */
  virtual int64_t copy_list(NeighList *list, const Atoms &atoms, double reach) = 0;
  /* Sets the graph's arrays; on return they are complete. */
  virtual void fill(mlff_graph &view) = 0;
  /* Adds scale times forces [n_local] to f of owned atoms and, with_ghosts, the rows behind them to those of ghosts.
   * on_host: where `forces` is, else where the arrays are. */
  virtual void add_forces(const double *forces, bool on_host, double scale, int n_local, bool with_ghosts) = 0;
  /* On return that is done: a GPU may read `forces` after add_forces has returned. */
  virtual void wait() = 0;

  /* Elements where the host reads them. */
  virtual const int32_t *species_on_host(int n_all) = 0;
  /* The graph where the host reads it; valid until the next call of any of these. */
  virtual mlff_graph graph_on_host(const mlff_graph &view) = 0;
  /* Brings Atom's positions, types, IDs and bonded neighbours up to date. */
  virtual void sync_atom() = 0;
  virtual double memory_usage() const = 0;
};

/* If `problem` is not empty on any rank, stops all of them with the text of the lowest such rank. Collective. */
void mlff_stop_together(class LAMMPS *lammps, const std::string &problem);

class MLFFIO : protected Pointers {
 public:
  /* The style that LAMMPS calls back while it communicates is a pair style, or a fix that evaluates a second model. */
  MLFFIO(class LAMMPS *lammps, Pair *style);
  MLFFIO(class LAMMPS *lammps, Fix *style);

  /* Units of the input script; nullptr when they are not supported. */
  static const MLFFUnits *find_units(const char *name);
  static std::string supported_units();

  /* mapping[t]: index of atom type t into the model's elements, -1 = not ours. Entry 0 is unused. */
  void set_model(const mlff_info *info, const std::vector<int> &mapping);

  /* Features travel from GPU to GPU; only with an MPI that takes their memory, and not as 16-bit integers. After set_model. */
  void set_direct(bool wanted) { exchange.forward_device = wanted ? pass_features : nullptr; }

  /* Features travel as 16-bit integers (half_rows.h); only for models in single precision. After set_model. */
  void set_half(bool wanted) { features.set_half(wanted); }
  /* Whether features of ranks of one machine travel through memory that they share; says how they do. Collective. */
  std::string set_node_memory(bool wanted) { return features.share_memory(wanted); }

  /* Atoms and lists are in these arrays from now on; nullptr: in those of Atom and of a plain list. Not owned. */
  void set_arrays(MLFFArrays *others);

  /* This step's graph. Collective when the lists are new; a problem on any rank stops all of them. */
  const mlff_graph *graph(NeighList *list);
  /* Makes the next graph read the list again although it is not new: for a style that does not see all steps. */
  void forget_list() { last_list = nullptr; }
  /* Exchange of features between ranks; nullptr on a single rank. */
  const mlff_halo *halo() const { return comm_needed ? &exchange : nullptr; }

  struct Wanted {
    bool atom_energy, atom_virial, atom_centroid, spread, members;
  };
  /* Cleared result with the arrays that are wanted. */
  mlff_result *result(const Wanted &wanted);

  /* Before the same graph is evaluated again: until its results are in the arrays of LAMMPS. */
  void wait_for_arrays()
  {
    if (arrays) arrays->wait();
  }

  /* Results into the arrays of LAMMPS. add_forces and the virials are collective. */
  void add_forces();
  /* Forces of owned atoms [n_local][3] in eV/A, with the contributions of other ranks. Collective. */
  const double (*owned_forces())[3];
  /* Sums values [n_local + n_ghost][3] of ghosts into their owners, as LAMMPS does with forces. Collective. */
  void add_ghosts(double (*values)[3]);
  double energy() const { return units->per_ev * results.energy; }
  void add_virial(double *virial) const;
  void add_atom_energies(double *eatom) const;
  void add_atom_virials(double **vatom);
  void add_centroid_virials(double **cvatom);
  /* Brings the spread of each atom to the script's units. */
  void scale_spread();
  /* Ensemble: std of the total energy, rms and largest std of an atom's energy; on rank 0, zeros elsewhere, because
   * LAMMPS sums over ranks. Collective. */
  void reduce_spread(double *three);
  /* Forces [n_local][3] of owned atoms, and virials [6] of this rank's share, of member k alone, in eV and A, when they
   * were wanted. Collective. */
  const double (*owned_member_forces(int k))[3];
  /* The same once more, without communication. */
  const double *member_forces_of(int k) const
  {
    return &member_forces[3 * static_cast<size_t>(view.n_nodes) * static_cast<size_t>(k)];
  }
  const double *member_virial(int k) const { return &member_virials[6 * static_cast<size_t>(k)]; }
  const mlff_graph &last_graph() const { return view; }
  /* The same where the host reads it. */
  mlff_graph graph_on_host() const { return arrays ? arrays->graph_on_host(view) : view; }
  const int32_t *species_on_host() const { return arrays ? arrays->species_on_host(view.n_all) : view.species; }
  double per_ev() const { return units->per_ev; }
  /* [n_local] std of each atom's energy over the ensemble; nullptr before the first evaluation. */
  double *atom_spread() { return spread.empty() ? nullptr : spread.data(); }

  void stop_together(const std::string &problem) { mlff_stop_together(lmp, problem); }
  /* Names the atoms behind a numerical failure, by their IDs; empty if none stands out. */
  std::string suspects() const;

  /* Called by the pair style's communication functions. */
  int pack_forward(int n, const int *atoms, double *buf) const;
  void unpack_forward(int n, int first, const double *buf);
  int pack_reverse(int n, int first, double *buf) const;
  void unpack_reverse(int n, const int *atoms, const double *buf);

  /* Doubles per atom that communication needs at most. */
  int forward_width() const;
  int reverse_comm_width() const;

  double memory_usage() const;

 private:
  static constexpr int VIRIAL_WIDTH = 9;
  static constexpr int FORWARD_WIDTH = 2;

  Pair *pair;    // one of the two
  Fix *fix;
  MLFFArrays *arrays;
  const MLFFUnits *units;
  std::vector<int> species_of_type;
  double cutoff;
  int exchange_width, reverse_comm, n_members;    // reverse_comm: numbers per atom that go home at most
  bool tags_needed, comm_needed, reorders;

  mlff_graph view;
  mlff_halo exchange;
  mlff_result results;

  const NeighList *last_list;
  bigint last_build;

  std::vector<int32_t> species, node, nbr;
  std::vector<int64_t> row, tags;
  std::vector<int> owner_rank, ghost_of_node, listed;
  std::vector<int> remote_rank, remote_index;    // of the nodes of other ranks that get features
  std::vector<int> row_of, owned;    // [n_local] row of owned atom i in the engine's arrays; and its inverse
  std::vector<char> at_boundary, wanted_ghost;
  std::vector<double> positions, ordered;
  std::vector<double> forces, virials, centroids, atom_energies, member_energies, spread, member_forces, member_virials;

  MLFFFeatureExchange features;
  void *reverse_rows;    // [n_nodes][reverse_width] of double or float, or of atoms
  int reverse_width;
  bool reverse_floats, reverse_atoms, travelling;

  MLFFIO(class LAMMPS *lammps, Pair *pair_style, Fix *fix_style);

  /* LAMMPS' index of atom a of the engine. */
  int atom_of(int a) const { return a < view.n_local ? owned[static_cast<size_t>(a)] : a; }

  static mlff_status forward_features(void *context, void *values, size_t bytes, mlff_error *problem);
  static mlff_status begin_features(void *context, void *values, size_t bytes, mlff_error *problem);
  static mlff_status finish_features(void *context, mlff_error *problem);
  static void move_features(void *context);
  static mlff_status pass_features(void *context, const void *packed, void *arrivals, size_t bytes,
                                   mlff_error *problem);
  mlff_status check_features(size_t bytes, mlff_error *problem) const;
  void no_room_for_features() const;
  static mlff_status reverse_features(void *context, void *values, int width, size_t real_size, mlff_error *problem);
  static mlff_status reduce_values(void *context, double *values, int n, mlff_error *problem);
  void forward_owners();
  void reverse(void *values, int width, bool floats);
  template <class Real> int pack_rows(int n, int first, double *buf) const;
  template <class Real> void add_rows(int n, const int *atoms, const double *buf);
  void set_boundary();
  const double (*this_step())[3];
  void copy_tags();
  bool update_species();
  void find_owners();
  MLFFArrays::Atoms atoms_now() const { return {species_of_type, view.n_local, view.n_all}; }
  double reach() const;
  template <class Use> void for_neighbours(const NeighList *list, int i, Use use) const;
  void find_boundary(NeighList *list);
  std::string assign_nodes();
  void order_atoms();
  std::string check_special_bonds() const;
  void copy_list(const NeighList *list);
  void take_list(NeighList *list);
  bool forces_go_home() const;
  void add_plain_forces();
  std::string atom_name(int i) const;
};

}    // namespace LAMMPS_NS

#endif
