/* prof_beside.h: host memory that this process takes for something beside the run, told apart from the run's own.
 *
 * The resident set is read before and after whatever is done beside the run; the sum of the differences is what that
 * holds. What the run allocates, grows by or loses lies between these parts and stays with the run.
 */
#ifndef LMP_MLFF_PROF_BESIDE_H
#define LMP_MLFF_PROF_BESIDE_H

#include <cstdint>

namespace LAMMPS_NS {

class ProfBeside {
 public:
  /* What is done beside the run in a scope. Scopes may nest: the outermost counts. */
  class Part {
   public:
    explicit Part(ProfBeside &of) : whole(of) { whole.begin(); }
    Part(const Part &) = delete;
    Part &operator=(const Part &) = delete;
    ~Part() { whole.end(); }

   private:
    ProfBeside &whole;
  };

  /* Bytes held; not negative. */
  int64_t held() const { return sum > 0 ? sum : 0; }
  /* Resident set and its peak less what is held. A peak of the process within a part is none of the run's: then it is
   * the largest that the run is known to have had outside of them. */
  void take_off(int64_t &resident, int64_t &peak);

 private:
  int depth = 0;
  int64_t sum = 0, before = 0, peak_after = 0, peak_of_run = 0;
  void begin();
  void end();
  void note_peak(int64_t peak);
};

}    // namespace LAMMPS_NS

#endif
