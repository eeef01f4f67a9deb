/* kokkos_arrays.h: MLFFArrays (arrays.h) for the package KOKKOS, in the memory of DeviceType (host or GPU).
 *
 * Loops over atoms and pairs run in Kokkos, and the engine gets pointers to the results; mlff_graph.on_device is set on
 * a GPU. Positions are the array of Kokkos if it stores doubles in rows, otherwise a copy of each step.
 */
#ifndef LMP_MLFF_KOKKOS_ARRAYS_H
#define LMP_MLFF_KOKKOS_ARRAYS_H

#include "../arrays.h"

#include "atom.h"
#include "atom_kokkos.h"
#include "atom_masks.h"
#include "neigh_list_kokkos.h"

#include <type_traits>
#include <utility>

namespace LAMMPS_NS {

/* ----------------------------------------------------------------------
   loops over atoms and pairs; free functions, which nvcc requires
------------------------------------------------------------------------- */

/* Data of atom i of LAMMPS and row r of the engine. owned, row_of: empty if i = r. */
template <class DeviceType> struct MLFFKokkosRows {
  using Ints = Kokkos::View<int *, typename DeviceType::memory_space>;
  typename ArrayTypes<DeviceType>::t_neighbors_2d neighbors;
  typename ArrayTypes<DeviceType>::t_int_1d counts, type;
  std::decay_t<decltype(std::declval<AtomKokkos &>().k_x.template view<DeviceType>())> x;
  Ints element_of_type, owned, row_of, listed, nbr;
  Kokkos::View<int64_t *, typename DeviceType::memory_space> row;
  double reach2;
  int n_local;
  bool reorders;

  /* 1 when neighbor j of atom i is a candidate. */
  KOKKOS_INLINE_FUNCTION bool has(const int i, const int j) const
  {
    if (element_of_type(type(j)) < 0) return false;
    const double dx = static_cast<double>(x(j, 0)) - x(i, 0), dy = static_cast<double>(x(j, 1)) - x(i, 1);
    const double dz = static_cast<double>(x(j, 2)) - x(i, 2);
    // keeps NaN, which the engine reports
    return !(dx * dx + dy * dy + dz * dz > reach2);
  }

  /* Number of candidates of row r, which are written to `to` unless it is null. */
  KOKKOS_INLINE_FUNCTION int64_t find(const int r, int *to) const
  {
    const int i = reorders ? owned(r) : r;
    int64_t n = 0;
    if (!listed(i)) return 0;
    for (int k = 0; k < counts(i); k++) {
      const int j = neighbors(i, k) & NEIGHMASK;
      if (!has(i, j)) continue;
      if (to) to[n] = reorders && j < n_local ? row_of(j) : j;
      n++;
    }
    return n;
  }
};

/* species[r] = element of its type; returns the number of changes. */
template <class DeviceType, class Ints>
int mlff_kokkos_species(const MLFFKokkosRows<DeviceType> &rows, const Ints &species, int n_all)
{
  int n_changed = 0;
  Kokkos::parallel_reduce(
      Kokkos::RangePolicy<DeviceType>(0, n_all),
      KOKKOS_LAMBDA(const int r, int &changed) {
        const int i = rows.reorders && r < rows.n_local ? rows.owned(r) : r;
        const int element = rows.element_of_type(rows.type(i));
        if (species(r) == element) return;
        species(r) = element;
        changed++;
      },
      n_changed);
  return n_changed;
}

/* listed[i] = 1 for atoms that have a row and an element. */
template <class DeviceType, class Atoms>
void mlff_kokkos_listed(const MLFFKokkosRows<DeviceType> &rows, const Atoms &atoms, int n)
{
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, rows.n_local), KOKKOS_LAMBDA(const int i) { rows.listed(i) = 0; });
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, n), KOKKOS_LAMBDA(const int ii) {
        const int i = atoms(ii);
        if (rows.element_of_type(rows.type(i)) >= 0) rows.listed(i) = 1;
      });
}

/* marks[i] = 1 for owned atoms with candidates j of other ranks, and marks[j] = 1; initially 0. Threads may write the
 * same element. */
template <class DeviceType, class Ints, class Marks>
void mlff_kokkos_mark(const MLFFKokkosRows<DeviceType> &rows, const Ints &owners, int me, const Marks &marks)
{
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, rows.n_local), KOKKOS_LAMBDA(const int i) {
        if (!rows.listed(i)) return;
        for (int k = 0; k < rows.counts(i); k++) {
          const int j = rows.neighbors(i, k) & NEIGHMASK;
          if (j < rows.n_local || owners(j) == me || !rows.has(i, j)) continue;
          Kokkos::atomic_store(&marks(i), 1);
          Kokkos::atomic_store(&marks(j), 1);
        }
      });
}

/* row[0] to row[n_local]; returns the number of pairs. */
template <class DeviceType> int64_t mlff_kokkos_count(const MLFFKokkosRows<DeviceType> &rows)
{
  int64_t n_pairs = 0;
  const int n_local = rows.n_local;
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, n_local), KOKKOS_LAMBDA(const int r) { rows.row(r) = rows.find(r, nullptr); });
  Kokkos::parallel_scan(
      Kokkos::RangePolicy<DeviceType>(0, n_local + 1),
      KOKKOS_LAMBDA(const int r, int64_t &before, const bool is_last) {
        const int64_t n = r < n_local ? rows.row(r) : 0;
        if (is_last) rows.row(r) = before;
        before += n;
      },
      n_pairs);
  return n_pairs;
}

template <class DeviceType> void mlff_kokkos_fill(const MLFFKokkosRows<DeviceType> &rows)
{
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, rows.n_local),
      KOKKOS_LAMBDA(const int r) { rows.find(r, rows.nbr.data() + rows.row(r)); });
}

/* to[r] = position of its atom. */
template <class DeviceType, class Positions, class Ints>
void mlff_kokkos_copy(const Positions &x, const Kokkos::View<double *, typename DeviceType::memory_space> &to,
                      const Ints &owned, int n_owned, int n_all)
{
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, n_all), KOKKOS_LAMBDA(const int r) {
        const int i = r < n_owned ? owned(r) : r;
        for (int d = 0; d < 3; d++) to(3 * static_cast<size_t>(r) + d) = x(i, d);
      });
}

/* f[i] += scale forces[row of i];  f[ghosts[k]] += scale forces[n_local + k]. Ghosts are unique. */
template <class DeviceType, class Forces, class Ints>
void mlff_kokkos_add(const Forces &f, const double *forces, double scale, const Ints &row_of, int n_rows, int n_local,
                     const Ints &ghosts, int n_ghosts)
{
  Kokkos::parallel_for(
      Kokkos::RangePolicy<DeviceType>(0, n_local + n_ghosts), KOKKOS_LAMBDA(const int k) {
        const int i = k < n_local ? k : ghosts(k - n_local), r = k < n_rows ? row_of(k) : k;
        for (int d = 0; d < 3; d++) f(i, d) += scale * forces[3 * static_cast<size_t>(r) + d];
      });
}

/* ---------------------------------------------------------------------- */

template <class DeviceType> class MLFFKokkosArrays : public MLFFArrays {
 public:
  static constexpr bool ON_GPU =
      !Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename DeviceType::memory_space>::accessible;

  explicit MLFFKokkosArrays(AtomKokkos *atoms) : atom(atoms) {}

  void find_boundary(NeighList *list, const Atoms &atoms, double reach, const std::vector<int> &owner_rank, int me,
                     std::vector<char> &at_boundary, std::vector<char> &wanted_ghost) override;
  void set_order(const std::vector<int> &owned_atoms, const std::vector<int> &row_of_atom,
                 const std::vector<int32_t> &node_of_atom, const std::vector<int> &ghost_of_node) override;
  bool update_species(const Atoms &atoms) override;
  int64_t copy_list(NeighList *list, const Atoms &atoms, double reach) override;
  void fill(mlff_graph &view) override;
  void add_forces(const double *forces, bool on_host, double scale, int n_local, bool with_ghosts) override;
  void wait() override { DeviceType().fence(); }
  const int32_t *species_on_host(int n_all) override;
  mlff_graph graph_on_host(const mlff_graph &view) override;
  void sync_atom() override { atom->sync(Host, X_MASK | TYPE_MASK | TAG_MASK | SPECIAL_MASK); }
  double memory_usage() const override;

 private:
  template <class T> using Array = Kokkos::View<T *, typename DeviceType::memory_space>;
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;

  AtomKokkos *atom;
  std::vector<int> mapping;    // content of element_of_type
  bool reorders = false;       // owned and row_of are set
  int n_ghosts = 0;            // that receive forces
  Array<int> element_of_type, owned, row_of, node, species, nbr, listed, ghosts, owners, marks;
  Array<int64_t> row;
  Array<double> positions, forces_here;    // copies if needed
  std::vector<int32_t> host_species, host_node, host_nbr;
  std::vector<int64_t> host_row;
  std::vector<double> host_positions;

  void set_elements(const std::vector<int> &species_of_type);
  MLFFKokkosRows<DeviceType> rows_of(NeighList *list, const Atoms &atoms, double reach);
  const double *find_positions(int n_local, int n_all);

  /* Room for n elements; contents are lost if the array grows. */
  template <class T> static void reserve(Array<T> &array, size_t n)
  {
    if (array.extent(0) >= n && array.data()) return;
    const size_t wanted = array.extent(0) ? n + n / 4 : n;
    array = Array<T>();    // free first
    array = Array<T>(Kokkos::view_alloc(Kokkos::WithoutInitializing, "mlff"), wanted);
  }

  template <class T> static void upload(Array<T> &array, const T *from, size_t n)
  {
    reserve(array, n + 1);
    if (n == 0) return;
    const Kokkos::View<const T *, Kokkos::HostSpace, Unmanaged> host(from, n);
    Kokkos::deep_copy(Kokkos::subview(array, std::make_pair(size_t(0), n)), host);
  }

  template <class T> static void download(std::vector<T> &to, const T *from, size_t n)
  {
    to.resize(n + 1);
    if (n == 0) return;
    const Kokkos::View<const T *, typename DeviceType::memory_space, Unmanaged> there(from, n);
    Kokkos::deep_copy(Kokkos::View<T *, Kokkos::HostSpace, Unmanaged>(to.data(), n), there);
  }
};

/* ---------------------------------------------------------------------- */

template <class DeviceType> void MLFFKokkosArrays<DeviceType>::set_elements(const std::vector<int> &species_of_type)
{
  if (mapping == species_of_type) return;
  mapping = species_of_type;
  upload(element_of_type, mapping.data(), mapping.size());
}

/* list: nullptr if not used. */
template <class DeviceType>
MLFFKokkosRows<DeviceType> MLFFKokkosArrays<DeviceType>::rows_of(NeighList *list, const Atoms &atoms, double reach)
{
  set_elements(atoms.species_of_type);
  MLFFKokkosRows<DeviceType> rows;
  rows.type = atom->k_type.template view<DeviceType>();
  rows.x = atom->k_x.template view<DeviceType>();
  rows.element_of_type = element_of_type;
  rows.owned = owned;
  rows.row_of = row_of;
  rows.reach2 = reach * reach;
  rows.n_local = atoms.n_local;
  rows.reorders = reorders;
  if (!list) return rows;
  const auto *neighbors = static_cast<NeighListKokkos<DeviceType> *>(list);
  reserve(listed, static_cast<size_t>(atoms.n_local) + 1);
  reserve(row, static_cast<size_t>(atoms.n_local) + 1);
  rows.neighbors = neighbors->d_neighbors;
  rows.counts = neighbors->d_numneigh;
  rows.listed = listed;
  rows.row = row;
  mlff_kokkos_listed(rows, neighbors->d_ilist, neighbors->inum);
  return rows;
}

template <class DeviceType>
void MLFFKokkosArrays<DeviceType>::find_boundary(NeighList *list, const Atoms &atoms, double reach,
                                                 const std::vector<int> &owner_rank, int me,
                                                 std::vector<char> &at_boundary, std::vector<char> &wanted_ghost)
{
  const auto n_all = static_cast<size_t>(atoms.n_all), n_local = static_cast<size_t>(atoms.n_local);
  const MLFFKokkosRows<DeviceType> rows = rows_of(list, atoms, reach);
  upload(owners, owner_rank.data(), n_all);
  reserve(marks, n_all + 1);
  Kokkos::deep_copy(marks, 0);
  mlff_kokkos_mark(rows, owners, me, marks);
  std::vector<int> found;
  download(found, marks.data(), n_all);
  for (size_t i = 0; i < n_local; i++) at_boundary[i] = static_cast<char>(found[i]);
  for (size_t j = n_local; j < n_all; j++) wanted_ghost[j] = static_cast<char>(found[j]);
}

template <class DeviceType>
void MLFFKokkosArrays<DeviceType>::set_order(const std::vector<int> &owned_atoms, const std::vector<int> &row_of_atom,
                                             const std::vector<int32_t> &node_of_atom,
                                             const std::vector<int> &ghost_of_node)
{
  reorders = !owned_atoms.empty();
  upload(owned, owned_atoms.data(), owned_atoms.size());
  upload(row_of, row_of_atom.data(), row_of_atom.size());
  upload(node, node_of_atom.data(), node_of_atom.size());
  upload(ghosts, ghost_of_node.data(), ghost_of_node.size());
  n_ghosts = static_cast<int>(ghost_of_node.size());
}

template <class DeviceType> bool MLFFKokkosArrays<DeviceType>::update_species(const Atoms &atoms)
{
  const void *before = species.data();
  reserve(species, static_cast<size_t>(atoms.n_all) + 1);
  if (species.data() != before) Kokkos::deep_copy(species, -2);    // not an element, so that all entries change
  return mlff_kokkos_species(rows_of(nullptr, atoms, 0.0), species, atoms.n_all) > 0;
}

/* Positions in rows of doubles: the array of Kokkos if possible, otherwise a copy. */
template <class DeviceType> const double *MLFFKokkosArrays<DeviceType>::find_positions(int n_local, int n_all)
{
  const auto x = atom->k_x.template view<DeviceType>();
  using Number = typename std::remove_const<typename decltype(x)::value_type>::type;
  if constexpr (std::is_same<Number, double>::value)
    if (!reorders && x.stride(0) == 3 && x.stride(1) == 1) return x.data();
  reserve(positions, 3 * static_cast<size_t>(n_all) + 3);
  mlff_kokkos_copy<DeviceType>(x, positions, owned, reorders ? n_local : 0, n_all);
  return positions.data();
}

template <class DeviceType>
int64_t MLFFKokkosArrays<DeviceType>::copy_list(NeighList *list, const Atoms &atoms, double reach)
{
  MLFFKokkosRows<DeviceType> rows = rows_of(list, atoms, reach);
  const int64_t n_pairs = mlff_kokkos_count(rows);
  reserve(nbr, static_cast<size_t>(n_pairs) + 1);
  rows.nbr = nbr;
  mlff_kokkos_fill(rows);
  return n_pairs;
}

template <class DeviceType> void MLFFKokkosArrays<DeviceType>::fill(mlff_graph &view)
{
  static_assert(sizeof(int) == sizeof(int32_t), "the engine's indices are LAMMPS' own");
  view.species = species.data();
  view.node = node.data();
  view.row = row.data();
  view.nbr = nbr.data();
  view.pos = reinterpret_cast<const double(*)[3]>(find_positions(view.n_local, view.n_all));
  view.on_device = ON_GPU;
  DeviceType().fence();    // the engine has a stream of its own
}

template <class DeviceType>
void MLFFKokkosArrays<DeviceType>::add_forces(const double *forces, bool on_host, double scale, int n_local,
                                              bool with_ghosts)
{
  const int n_more = with_ghosts ? n_ghosts : 0;
  if (ON_GPU && on_host) {
    upload(forces_here, forces, 3 * static_cast<size_t>(n_local + n_more));
    forces = forces_here.data();
  }
  mlff_kokkos_add<DeviceType>(atom->k_f.template view<DeviceType>(), forces, scale, row_of, reorders ? n_local : 0,
                              n_local, ghosts, n_more);
}

template <class DeviceType> const int32_t *MLFFKokkosArrays<DeviceType>::species_on_host(int n_all)
{
  if (!ON_GPU) return species.data();
  download(host_species, species.data(), static_cast<size_t>(n_all));
  return host_species.data();
}

template <class DeviceType> mlff_graph MLFFKokkosArrays<DeviceType>::graph_on_host(const mlff_graph &view)
{
  mlff_graph graph = view;
  if (!view.on_device) return graph;
  const size_t n_all = static_cast<size_t>(view.n_all);
  download(host_species, view.species, n_all);
  download(host_node, view.node, n_all);
  download(host_row, view.row, static_cast<size_t>(view.n_local) + 1);
  download(host_nbr, view.nbr, static_cast<size_t>(view.n_pairs));
  download(host_positions, &view.pos[0][0], 3 * n_all);
  graph.species = host_species.data();
  graph.node = host_node.data();
  graph.row = host_row.data();
  graph.nbr = host_nbr.data();
  graph.pos = reinterpret_cast<const double(*)[3]>(host_positions.data());
  graph.on_device = 0;
  return graph;
}

template <class DeviceType> double MLFFKokkosArrays<DeviceType>::memory_usage() const
{
  if (ON_GPU) return 0.0;    // host memory only
  return 4.0 * static_cast<double>(element_of_type.extent(0) + node.extent(0) + species.extent(0) + nbr.extent(0) +
                                   listed.extent(0) + ghosts.extent(0) + owned.extent(0) + row_of.extent(0) +
                                   owners.extent(0) + marks.extent(0)) +
         8.0 * static_cast<double>(row.extent(0) + positions.extent(0));
}

}    // namespace LAMMPS_NS

#endif
