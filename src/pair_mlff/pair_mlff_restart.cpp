/* pair_mlff_restart.cpp: restart files have the hashes of weights and header, so that going on with another model is
 * noticed, and the keywords. */
#include "pair_mlff.h"

#include "pair_mlff_impl.h"

#include "comm.h"
#include "error.h"
#include "utils.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace LAMMPS_NS;

// Of what this style wrote, where sha256 has room: earlier releases wrote nothing as a sub-style of hybrid.
static constexpr char MARK = 'M';
static constexpr int MARK_AT = 66;

void PairMLFF::write_restart(FILE *fp)
{
  write_restart_settings(fp);
}

void PairMLFF::read_restart(FILE *fp)
{
  MLFFIdentity &before = impl->before;
  if (comm->me == 0) utils::sfread(FLERR, &before, sizeof(before), 1, fp, nullptr, error);
  take_identity(fp);
}

void PairMLFF::read_restart_settings(FILE *fp)
{
  MLFFIdentity &before = impl->before;
  if (comm->me == 0) {
    const long here = ftell(fp);
    if (fread(&before, sizeof(before), 1, fp) != 1 || before.sha256[MARK_AT] != MARK) {
      before = {};
      fseek(fp, here, SEEK_SET);
    }
  }
  take_identity(fp);
}

void PairMLFF::write_restart_settings(FILE *fp)
{
  MLFFIdentity mine = impl->before;
  if (impl->info) {
    snprintf(mine.sha256, sizeof(mine.sha256), "%s", impl->info->sha256);
    snprintf(mine.name, sizeof(mine.name), "%s", impl->info->name);
    snprintf(mine.header_sha256, sizeof(mine.header_sha256), "%s", impl->info->header_sha256);
  }
  std::string keywords;
  for (const std::string &word : impl->keywords) keywords += word + '\0';
  mine.sha256[MARK_AT] = MARK;
  mine.n_keywords = impl->again.empty() ? static_cast<int32_t>(keywords.size()) + 1 : 0;
  fwrite(&mine, sizeof(mine), 1, fp);
  if (mine.n_keywords > 1) fwrite(keywords.data(), keywords.size(), 1, fp);
}

/* Rank 0 has read what the file has of the model. */
void PairMLFF::take_identity(FILE *fp)
{
  MLFFIdentity &before = impl->before;
  MPI_Bcast(&before, sizeof(before), MPI_BYTE, 0, world);
  before.sha256[sizeof(before.sha256) - 1] = before.name[sizeof(before.name) - 1] = '\0';
  before.header_sha256[sizeof(before.header_sha256) - 1] = '\0';
  if (strspn(before.header_sha256, "0123456789abcdef") != 64) before.header_sha256[0] = '\0';
  if (!allocated) allocate();
  read_keywords(fp, before.n_keywords);
}

/* The keywords of the run that wrote the file hold on, but for files that would be written over. */
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
  for (size_t at = 0; at < text.size(); at += keywords.back().size() + 1) keywords.emplace_back(text.c_str() + at);
  take_keywords(keywords);
  const MLFFSettings &now = impl->settings;
  impl->again = "";
  if (n == 0) impl->again = "the file is from a release that did not write them";
  if (!now.out_file.empty() || now.devi_dump > 0.0)
    impl->again = "its out_file and dump_file would be written over; give them other names";
}
