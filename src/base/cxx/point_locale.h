/* point_locale.h: while such an object lives, printf of this thread writes decimal points. A program that uses LAMMPS
 * as a library may have set a locale with decimal commas. */
#ifndef MLFF_BASE_POINT_LOCALE_H
#define MLFF_BASE_POINT_LOCALE_H

#include <locale.h>

class MLFFPointLocale {
 public:
  MLFFPointLocale() : point(newlocale(LC_NUMERIC_MASK, "C", static_cast<locale_t>(nullptr)))
  {
    previous = uselocale(point);
  }
  MLFFPointLocale(const MLFFPointLocale &) = delete;
  MLFFPointLocale &operator=(const MLFFPointLocale &) = delete;
  ~MLFFPointLocale()
  {
    uselocale(previous);
    if (point) freelocale(point);
  }

 private:
  locale_t point, previous;
};

#endif
