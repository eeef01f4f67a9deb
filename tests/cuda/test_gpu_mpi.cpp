/* test_gpu_mpi.cpp: the choice of exchanges from GPU to GPU, by properties of the MPI library and by the user. */
#include "../../src/pair_mlff/exchange/gpu_mpi.h"

extern "C" {
#include "support.h"
}

#include <cstring>

using namespace LAMMPS_NS;

static int openmpi_answer, mpich_answer, mpich_status, mpich_kind;

static int query_openmpi()
{
  return openmpi_answer;
}

static int query_mpich(int kind, int *answer)
{
  mpich_kind = kind;
  *answer = mpich_answer;
  return mpich_status;
}

static void *find_none(const char *)
{
  return nullptr;
}

static void *find_openmpi(const char *name)
{
  return strcmp(name, "MPIX_Query_cuda_support") == 0 ? reinterpret_cast<void *>(query_openmpi) : nullptr;
}

static void *find_mpich(const char *name)
{
  return strcmp(name, "MPIX_GPU_query_support") == 0 ? reinterpret_cast<void *>(query_mpich) : nullptr;
}

static void expect(const MLFFGpuMPI &found, bool is_gpu_aware, const char *part)
{
  ck_assert_msg(found.is_gpu_aware == is_gpu_aware && found.text.find(part) != std::string::npos, "%d: %s",
                found.is_gpu_aware, found.text.c_str());
}

START_TEST(the_library_is_asked)
{
  expect(mlff_gpu_mpi("auto", find_none), false, "host memory (MPI does not report");
  openmpi_answer = 1;
  expect(mlff_gpu_mpi("auto", find_openmpi), true, "from GPU to GPU by MPI (MPIX_Query_cuda_support)");
  openmpi_answer = 0;
  expect(mlff_gpu_mpi("auto", find_openmpi), false, "MPIX_Query_cuda_support: MPI does not support GPU memory");
  mpich_answer = 1;
  mpich_kind = -1;
  expect(mlff_gpu_mpi("auto", find_mpich), true, "MPIX_GPU_query_support");
  ck_assert_int_eq(mpich_kind, 0); /* MPIX_GPU_SUPPORT_CUDA */
  mpich_status = 1;
  expect(mlff_gpu_mpi("auto", find_mpich), false, "MPIX_GPU_query_support: MPI does not support GPU memory");
  mpich_status = mpich_answer = 0;
  expect(mlff_gpu_mpi("auto", find_mpich), false, "host memory");
}
END_TEST

START_TEST(the_user_decides)
{
  openmpi_answer = 1;
  expect(mlff_gpu_mpi("no", find_openmpi), false, "gpu_mpi no");
  expect(mlff_gpu_mpi("yes", find_none), true, "gpu_mpi yes");
}
END_TEST

/* No MPI is linked into this program. */
START_TEST(without_mpi)
{
  expect(mlff_gpu_mpi("auto"), false, "MPI does not report");
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("gpu_mpi");
  TCase *tcase = tcase_create("all");
  tcase_add_test(tcase, the_library_is_asked);
  tcase_add_test(tcase, the_user_decides);
  tcase_add_test(tcase, without_mpi);
  suite_add_tcase(suite, tcase);
  return suite;
}

int main(void)
{
  return test_main(make_suite);
}
