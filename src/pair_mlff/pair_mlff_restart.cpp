/* pair_mlff_restart.cpp: restart files contain the keywords and the hashes of the model, so that a run does not
 * continue with another one. */
#include "pair_mlff.h"

#include "pair_mlff_impl.h"

#include "comm.h"
#include "error.h"
#include "utils.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace LAMMPS_NS;

// Marks data of this style in sha256. Earlier releases wrote nothing as a sub-style of hybrid.
static constexpr char MARK = 'M';
static constexpr int MARK_INDEX = 66;

void PairMLFF::write_restart(FILE *fp)
{
  write_restart_settings(fp);
}

void PairMLFF::read_restart(FILE *fp)
{
  MLFFIdentity &found = impl->restart_model;
  if (comm->me == 0) utils::sfread(FLERR, &found, sizeof(found), 1, fp, nullptr, error);
  read_identity(fp);
}

void PairMLFF::read_restart_settings(FILE *fp)
{
  MLFFIdentity &found = impl->restart_model;
  if (comm->me == 0) {
    const long here = ftell(fp);
    if (fread(&found, sizeof(found), 1, fp) != 1 || found.sha256[MARK_INDEX] != MARK) {
      found = {};
      fseek(fp, here, SEEK_SET);
    }
  }
  read_identity(fp);
}

void PairMLFF::write_restart_settings(FILE *fp)
{
  MLFFIdentity mine = impl->restart_model;
  if (impl->main.info) {
    snprintf(mine.sha256, sizeof(mine.sha256), "%s", impl->main.info->sha256);
    snprintf(mine.name, sizeof(mine.name), "%s", impl->main.info->name);
    snprintf(mine.header_sha256, sizeof(mine.header_sha256), "%s", impl->main.info->header_sha256);
  }
  std::string keywords;
  for (const std::string &word : impl->keywords) keywords += word + '\0';
  mine.sha256[MARK_INDEX] = MARK;
  mine.n_keywords = impl->restart_problem.empty() ? static_cast<int32_t>(keywords.size()) + 1 : 0;
  fwrite(&mine, sizeof(mine), 1, fp);
  if (mine.n_keywords > 1) fwrite(keywords.data(), keywords.size(), 1, fp);
}

/* After rank 0 has read the identity. */
void PairMLFF::read_identity(FILE *fp)
{
  MLFFIdentity &found = impl->restart_model;
  MPI_Bcast(&found, sizeof(found), MPI_BYTE, 0, world);
  found.sha256[sizeof(found.sha256) - 1] = found.name[sizeof(found.name) - 1] = '\0';
  found.header_sha256[sizeof(found.header_sha256) - 1] = '\0';
  if (strspn(found.header_sha256, "0123456789abcdef") != 64) found.header_sha256[0] = '\0';
  if (!allocated) allocate();
  read_keywords(fp, found.n_keywords);
}

/* Applies the keywords of the file. Keywords that would overwrite files must be given again. */
void PairMLFF::read_keywords(FILE *fp, int n)
{
  static constexpr int MOST = 1 << 20;
  if (n < 0 || n > MOST)
    error->all(FLERR, "pair_style mlff: the restart file is damaged: keywords of " + std::to_string(n) + " bytes");
  std::string text(static_cast<size_t>(std::max(n - 1, 0)), '\0');
  if (n > 1) {
    if (comm->me == 0) utils::sfread(FLERR, text.data(), 1, text.size(), fp, nullptr, error);
    MPI_Bcast(text.data(), n - 1, MPI_CHAR, 0, world);
  }
  std::vector<std::string> keywords;
  for (size_t k = 0; k < text.size(); k += keywords.back().size() + 1) keywords.emplace_back(text.c_str() + k);
  apply_keywords(keywords);
  const MLFFSettings &now = impl->settings;
  impl->restart_problem = "";
  if (n == 0) impl->restart_problem = "the restart file was written by a release that did not store them";
  if (!now.out_file.empty() || now.devi_dump > 0.0)
    impl->restart_problem = "the run would overwrite the out_file and dump_file of the previous run; give new names";
}
