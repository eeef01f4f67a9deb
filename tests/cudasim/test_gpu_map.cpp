/* test_gpu_map.cpp: log lines for models that several ranks of two machines open on simulated GPUs. */
#include "../../src/pair_mlff/exchange/gpu_map.h"

extern "C" {
#include "testmodel.h"
}
#include "cudasim.h"

#include <cstring>

using namespace LAMMPS_NS;

/* As filled by MLFFLoader for rank `local_rank` of a machine. */
static MLFFRankDevice open_rank(const test_model &file, int rank, int local_rank, const char *host, const char *device)
{
  mlff_model *model = nullptr;
  mlff_error error = {};
  mlff_options options = {};
  options.device = device;
  options.local_rank = local_rank;
  options.skip_self_test = 1;
  test_ok(test_model_try(&file, &options, &model, &error), error);
  MLFFRankDevice r = {};
  r.rank = rank;
  r.local_rank = local_rank;
  r.number = mlff_model_info(model)->device_number;
  snprintf(r.id, sizeof r.id, "%s", mlff_model_info(model)->device_id);
  snprintf(r.host, sizeof r.host, "%s", host);
  mlff_model_close(model);
  return r;
}

static std::vector<MLFFRankDevice> open_ranks(int n, int n_gpus, const char *device)
{
  test_model file = test_model_painn(test_model_options{});
  std::vector<MLFFRankDevice> ranks;
  cudasim_reset();
  cudasim_set_devices(n_gpus);
  for (int k = 0; k < n; k++) ranks.push_back(open_rank(file, k, k % 4, k < 4 ? "one" : "two", device));
  test_model_free(&file);
  return ranks;
}

START_TEST(every_rank_is_listed)
{
  const std::string text = mlff_gpu_table(open_ranks(6, 2, "cuda"));
  ck_assert_str_eq(text.c_str(), "  GPUs:         rank 0, host one, local rank 0: cuda:0 (0000:10:00)\n"
                                 "                rank 1, host one, local rank 1: cuda:1 (0000:11:00)\n"
                                 "                rank 2, host one, local rank 2: cuda:0 (0000:10:00)\n"
                                 "                rank 3, host one, local rank 3: cuda:1 (0000:11:00)\n"
                                 "                rank 4, host two, local rank 0: cuda:0 (0000:10:00)\n"
                                 "                rank 5, host two, local rank 1: cuda:1 (0000:11:00)\n");
  const std::string cpu = mlff_gpu_table(open_ranks(1, 2, "cpu"));
  ck_assert_msg(cpu.find("local rank 0: cpu\n") != std::string::npos, "%s", cpu.c_str());
}
END_TEST

START_TEST(long_tables_end)
{
  std::vector<MLFFRankDevice> ranks(1000, open_ranks(1, 1, "cuda")[0]);
  for (int k = 0; k < 1000; k++) ranks[(size_t) k].rank = k;
  const std::string text = mlff_gpu_table(ranks);
  ck_assert(text.find("rank 63,") != std::string::npos && text.find("rank 64,") == std::string::npos);
  ck_assert(text.find("1000 ranks\n") != std::string::npos);
}
END_TEST

/* A line for more ranks than GPUs; none for enough GPUs and for the CPU. */
START_TEST(shared_gpus_are_said)
{
  ck_assert(mlff_shared_gpus(open_ranks(6, 4, "cuda")).empty());
  ck_assert(mlff_shared_gpus(open_ranks(6, 4, "cpu")).empty());
  const std::string two = mlff_shared_gpus(open_ranks(6, 2, "cuda")),
                    all = mlff_shared_gpus(open_ranks(3, 2, "cuda:1"));
  ck_assert_msg(two.find("4 ranks of host one use 2 GPUs, up to 2 of them cuda:0 (0000:10:00)") != std::string::npos,
                "%s", two.c_str());
  ck_assert_msg(all.find("3 ranks of host one use 1 GPU, up to 3 of them cuda:1 (0000:11:00)") != std::string::npos,
                "%s", all.c_str());
}
END_TEST

static Suite *make_suite()
{
  Suite *suite = suite_create("gpu_map");
  TCase *tcase = tcase_create("all");
  tcase_add_test(tcase, every_rank_is_listed);
  tcase_add_test(tcase, long_tables_end);
  tcase_add_test(tcase, shared_gpus_are_said);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main()
{
  return test_main(make_suite);
}
