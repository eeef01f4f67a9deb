/* point_locale.h: numbers with a decimal point. A program that LAMMPS is a library of may have set a locale with
 * decimal commas, which printf follows. While such an object lives, this thread has points. */
#ifndef MLFF_BASE_POINT_LOCALE_H
#define MLFF_BASE_POINT_LOCALE_H

#include <locale.h>

class MLFFPointLocale {
 public:
  MLFFPointLocale() : point(newlocale(LC_NUMERIC_MASK, "C", static_cast<locale_t>(nullptr)))
  {
    before = uselocale(point);
  }
  MLFFPointLocale(const MLFFPointLocale &) = delete;
  MLFFPointLocale &operator=(const MLFFPointLocale &) = delete;
  ~MLFFPointLocale()
  {
    uselocale(before);
    if (point) freelocale(point);
  }

 private:
  locale_t point, before;
};

#endif
