/* prof_beside.h: separates host memory of side work, such as a second model, from that of the run.
 *
 * The resident set without pages of files is read before and after each part of the side work; the sum of the
 * differences is its memory.
 * Changes between the parts belong to the run.
 */
#ifndef LMP_MLFF_PROF_BESIDE_H
#define LMP_MLFF_PROF_BESIDE_H

#include <cstdint>

namespace LAMMPS_NS {

class ProfBeside {
 public:
  /* Side work in a scope. Scopes may nest; the outermost counts. */
  class Part {
   public:
    explicit Part(ProfBeside &memory) : whole(memory) { whole.begin(); }
    Part(const Part &) = delete;
    Part &operator=(const Part &) = delete;
    ~Part() { whole.end(); }

   private:
    ProfBeside &whole;
  };

  /* Bytes held; not negative. */
  int64_t held() const { return sum > 0 ? sum : 0; }
  /* Subtracts the memory of the side work from resident set and peak. A peak of the process within side work is
   * replaced by the largest known peak of the run. */
  void subtract(int64_t &resident, int64_t &peak);

 private:
  int depth = 0;
  int64_t sum = 0, bytes_at_begin = 0, peak_after = 0, peak_of_run = 0;
  void begin();
  void end();
  void note_peak(int64_t peak);
};

}    // namespace LAMMPS_NS

#endif
