/* cells.h: cell list. The edge of a cell is at least `reach`, so all points within reach of a point lie in 27 cells.
 * Cells are larger if there would be many more cells than points. */
#ifndef MLFF_BASE_CELLS_H
#define MLFF_BASE_CELLS_H

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

class MLFFCells {
 public:
  using Vector = std::array<double, 3>;

  /* Bounding box; low > high if there are no points. */
  struct Bounds {
    Vector low, high;
  };

  /* coordinates [n][3], kept by reference. Points that are not finite are in some cell. */
  MLFFCells(const std::vector<double> &coordinates, double reach) :
      points(coordinates), bounds(bounds_of(coordinates)), edge{}, n{}, members(coordinates.size() / 3)
  {
    const double most = std::cbrt(static_cast<double>(points.size())) + 1.0;
    size_t n_cells = 1;
    for (int d = 0; d < 3; d++) {
      const double length = bounds.high[d] - bounds.low[d];
      n[d] = static_cast<int>(std::max(1.0, std::floor(std::min(most, length / reach))));
      edge[d] = std::max(reach, length / n[d]);
      n_cells *= static_cast<size_t>(n[d]);
    }
    first.assign(n_cells + 1, 0);
    for (size_t k = 0; k < points.size(); k += 3) first[index(&points[k]) + 1]++;
    for (size_t c = 0; c < n_cells; c++) first[c + 1] += first[c];
    std::vector<int> next(first.begin(), first.end() - 1);
    for (size_t k = 0; k < points.size(); k += 3) members[next[index(&points[k])]++] = static_cast<int>(k / 3);
  }

  static Bounds bounds_of(const std::vector<double> &x)
  {
    constexpr double FAR = std::numeric_limits<double>::max();
    Bounds b = {{FAR, FAR, FAR}, {-FAR, -FAR, -FAR}};
    for (size_t k = 0; k < x.size(); k++) {
      if (!std::isfinite(x[k])) continue;
      b.low[k % 3] = std::min(b.low[k % 3], x[k]);
      b.high[k % 3] = std::max(b.high[k % 3], x[k]);
    }
    return b;
  }

  /* Calls use(j, r^2) for all points in the 27 cells around x, including x itself and points beyond the reach. */
  template <class Use> void for_near(const double *x, Use use) const
  {
    std::array<int, 3> begin, end;
    for (int d = 0; d < 3; d++) {
      const int here = cell_index(d, x[d]);
      begin[d] = std::max(0, here - 1);
      end[d] = std::min(n[d], here + 2);
    }
    for (int c = begin[2]; c < end[2]; c++)
      for (int b = begin[1]; b < end[1]; b++) {
        const size_t row = (static_cast<size_t>(c) * n[1] + b) * n[0];
        for (int k = first[row + begin[0]]; k < first[row + end[0]]; k++) {
          const auto j = static_cast<size_t>(members[k]);
          const double *y = &points[3 * j];
          const double dx = y[0] - x[0], dy = y[1] - x[1], dz = y[2] - x[2];
          use(j, dx * dx + dy * dy + dz * dz);
        }
      }
  }

 private:
  const std::vector<double> &points;
  Bounds bounds;
  Vector edge;
  std::array<int, 3> n;
  std::vector<int> first, members;    // points of cell c: members[first[c]] to members[first[c + 1] - 1]

  int cell_index(int d, double x) const
  {
    const double c = (x - bounds.low[d]) / edge[d];
    return c > 0.0 ? static_cast<int>(std::min(c, n[d] - 1.0)) : 0;
  }
  size_t index(const double *x) const
  {
    return (static_cast<size_t>(cell_index(2, x[2])) * n[1] + cell_index(1, x[1])) * n[0] + cell_index(0, x[0]);
  }
};

#endif
