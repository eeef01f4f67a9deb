/* test_cudasim.cpp: tests of the simulator: results of correct kernels, detection of incorrect ones. */
#include "kernels.h"
#include "launch.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#include <check.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "support.h"
}

static mlff_backend *open_gpu(void)
{
  mlff_error error = {};
  mlff_backend *backend = nullptr;
  cudasim_reset();
  test_ok(mlff_cuda_open(0, "fp32", &backend, &error), error);
  return backend;
}

template <typename T> static T *on_device(const std::vector<T> &x)
{
  T *data = nullptr;
  ck_assert_int_eq(cudaMalloc(&data, x.size() * sizeof(T)), cudaSuccess);
  ck_assert_int_eq(cudaMemcpyAsync(data, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  return data;
}

template <typename T> static std::vector<T> to_host(const T *data, size_t n)
{
  std::vector<T> x(n);
  ck_assert_int_eq(cudaMemcpyAsync(x.data(), data, n * sizeof(T), cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
  return x;
}

static std::vector<float> numbers(int n)
{
  std::vector<float> x((size_t) n);
  for (int k = 0; k < n; k++) x[(size_t) k] = (float) (k % 17);
  return x;
}

static void check_ok(mlff_backend *backend)
{
  mlff_error error = {};
  test_ok(mlff_cuda_status(mlff_cuda_of(backend), &error), error);
}

START_TEST(blocks_and_threads_cover_everything)
{
  for (int n = 0; n < 200; n += 67) {
    mlff_backend *b = open_gpu();
    cudasim_set_shuffle((unsigned) _i);
    float *x = on_device(numbers(n + 1)), *y = on_device(std::vector<float>((size_t) n + 1, -1));
    launch_twice(b, x, y, n);
    check_ok(b);
    const std::vector<float> got = to_host(y, (size_t) n + 1);
    for (int k = 0; k < n; k++) ck_assert_float_eq(got[(size_t) k], 2 * (float) (k % 17));
    ck_assert_float_eq(got[(size_t) n], -1);
    cudaFree(x);
    cudaFree(y);
    mlff_backend_close(b);
    ck_assert_uint_eq(cudasim_bytes_in_use(), 0);
  }
}
END_TEST

START_TEST(barriers_and_shared_memory)
{
  mlff_backend *b = open_gpu();
  cudasim_set_shuffle((unsigned) _i);
  const std::vector<float> x = numbers(5 * 96);
  float *dx = on_device(x), *dy = on_device(std::vector<float>(5 * 96));
  launch_tree_sum(b, dx, dy, 5);
  check_ok(b);
  std::vector<float> got = to_host(dy, 5 * 96);
  for (int k = 0; k < 5; k++) {
    float sum = 0;
    for (int t = 0; t < 96; t++) sum += x[(size_t) (96 * k + t)];
    ck_assert_float_eq(got[(size_t) k], sum);
  }
  launch_reverse(b, dx, dy, 4, 120, 120 * (int) sizeof(float));
  check_ok(b);
  got = to_host(dy, 5 * 96);
  for (int k = 0; k < 480; k++) ck_assert_float_eq(got[(size_t) k], x[(size_t) (k / 120 * 120 + 119 - k % 120)]);
  launch_fresh_shared(b, dy);
  got = to_host(dy, 32);
  for (int k = 0; k < 32; k++)
    ck_assert_msg(std::isnan(got[(size_t) k]), "shared memory must not be carried to the next block");
  cudaFree(dx);
  cudaFree(dy);
  mlff_backend_close(b);
}
END_TEST

START_TEST(copies_arrive_when_waited_for)
{
  mlff_backend *b = open_gpu();
  cudasim_set_shuffle((unsigned) _i);
  const std::vector<float> x = numbers(64);
  float *dx = on_device(x), *dy = on_device(std::vector<float>(128));
  launch_async_copy(b, dx, dy);
  check_ok(b);
  const std::vector<float> got = to_host(dy, 128);
  int n_early = 0;
  for (size_t t = 0; t < 32; t++) {
    for (size_t group = 0; group < 2; group++) {
      const float before = got[64 * group + t];
      if (!std::isnan(before)) ck_assert_float_eq(before, x[32 * group + t]);
      n_early += !std::isnan(before);
    }
    ck_assert_float_eq(got[32 + t], x[t]);
    ck_assert_float_eq(got[96 + t], x[32 + t]);
  }
  ck_assert(_i ? n_early > 10 && n_early < 54 : n_early == 0);
  cudaFree(dx);
  cudaFree(dy);
  mlff_backend_close(b);
}
END_TEST

START_TEST(much_shared_memory_is_asked_for)
{
  enum { BYTES = 60000, TOO_MUCH = 1 << 20 };
  mlff_backend *b = open_gpu();
  mlff_error error = {};
  const std::vector<float> x = numbers(64);
  float *dx = on_device(x), *dy = on_device(std::vector<float>(64));
  ck_assert(allow_reverse(TOO_MUCH) != cudaSuccess);
  ck_assert(allow_reverse(BYTES) == cudaSuccess);
  launch_reverse(b, dx, dy, 1, 64, BYTES);
  check_ok(b);
  ck_assert_float_eq(to_host(dy, 64)[0], x[63]);
  launch_reverse(b, dx, dy, 1, 64, BYTES + 4);
  ck_assert(mlff_cuda_status(mlff_cuda_of(b), &error) == MLFF_E_DEVICE);
  cudaFree(dx);
  cudaFree(dy);
  mlff_backend_close(b);
}
END_TEST

START_TEST(shuffles_and_votes)
{
  mlff_backend *b = open_gpu();
  cudasim_set_shuffle((unsigned) _i);
  int *out[4];
  for (int k = 0; k < 4; k++) out[k] = on_device(std::vector<int>(64));
  unsigned *dv = on_device(std::vector<unsigned>(64));
  launch_shuffle(b, out[0], out[1], out[2], out[3], dv);
  check_ok(b);
  const std::vector<int> sum = to_host(out[0], 64), up = to_host(out[1], 64), down = to_host(out[2], 64),
                         from3 = to_host(out[3], 64);
  const std::vector<unsigned> votes = to_host(dv, 64);
  for (int t = 0; t < 64; t++) {
    const size_t k = (size_t) t;
    ck_assert_int_eq(sum[k], t < 32 ? 31 * 16 : 31 * 16 + 32 * 32);
    ck_assert_int_eq(up[k], t % 32 < 2 ? t : t - 2);
    ck_assert_int_eq(down[k], t % 8 < 5 ? t + 3 : t);
    ck_assert_int_eq(from3[k], t / 16 * 16 + 3);
    ck_assert_uint_eq(votes[k], 0x49249249u + (t % 32 < 20 ? 15 : 0));
  }
  for (int k = 0; k < 4; k++) cudaFree(out[k]);
  cudaFree(dv);
  mlff_backend_close(b);
}
END_TEST

/* Checks that x is a permutation of 0 .. n-1; returns 1 if it is in order. */
static int is_sorted(const int *x, int n)
{
  int sorted = 1, seen = 0;
  for (int k = 0; k < n; k++) {
    seen |= 1 << x[k];
    sorted &= x[k] == k;
  }
  ck_assert_int_eq(seen, (1 << n) - 1);
  return sorted;
}

/* Shuffled launches run all blocks and warps, in a different order. */
START_TEST(atomics_and_the_order_of_blocks)
{
  mlff_backend *b = open_gpu();
  for (unsigned seed = 0; seed < 4; seed++) {
    cudasim_set_shuffle(seed);
    int *counter = on_device(std::vector<int>{0, 1000}), *order = on_device(std::vector<int>(21));
    launch_atomic(b, counter, counter + 1, order, 20);
    check_ok(b);
    const std::vector<int> c = to_host(counter, 2), o = to_host(order, 21);
    ck_assert_int_eq(c[0], 20 * 63 * 32);
    ck_assert_int_eq(c[1], 37);
    ck_assert_int_eq(is_sorted(o.data() + 1, 20), seed == 0);
    cudaFree(counter);
    cudaFree(order);
  }
  mlff_backend_close(b);
}
END_TEST

START_TEST(the_order_of_warps)
{
  mlff_backend *b = open_gpu();
  for (unsigned seed = 0; seed < 4; seed++) {
    cudasim_set_shuffle(seed);
    int *order = on_device(std::vector<int>(17));
    launch_warp_order(b, order, 16);
    check_ok(b);
    ck_assert_int_eq(is_sorted(to_host(order, 17).data() + 1, 16), seed == 0);
    cudaFree(order);
  }
  mlff_backend_close(b);
}
END_TEST

/* Lanes are shuffled, too, also in partial warps, which reveals a missing barrier. */
START_TEST(a_missing_barrier_is_seen)
{
  mlff_backend *b = open_gpu();
  for (unsigned seed = 0; seed < 4; seed++) {
    cudasim_set_shuffle(seed);
    int *y = on_device(std::vector<int>(_i)), n_wrong = 0;
    launch_missing_barrier(b, y, _i);
    check_ok(b);
    const std::vector<int> found = to_host(y, _i);
    for (int k = 0; k < _i; k++) n_wrong += found[k] != (k ? k - 1 : 0);
    ck_assert_int_eq(n_wrong > 0, seed != 0);
    cudaFree(y);
  }
  mlff_backend_close(b);
}
END_TEST

START_TEST(kernels_of_few_blocks_start_early_in_a_step)
{
  mlff_backend *b = open_gpu();
  mlff_cuda_backend *cuda = mlff_cuda_of(b);
  const unsigned most = PDL_BLOCKS_PER_SM * (unsigned) cuda->n_multiprocessors;
  ck_assert(cuda->has_dependent_launch && !mlff_cuda_is_dependent_launch(cuda, 1));
  mlff_cuda_begin_step(cuda);
  ck_assert(mlff_cuda_is_dependent_launch(cuda, dim3(1, most)) && !mlff_cuda_is_dependent_launch(cuda, most + 1));
  cuda->has_dependent_launch = 0; /* as on older devices */
  ck_assert(!mlff_cuda_is_dependent_launch(cuda, 1));
  mlff_backend_close(b);
}
END_TEST

START_TEST(graphs_are_recorded_and_replayed)
{
  mlff_backend *b = open_gpu();
  cudaStream_t stream = mlff_cuda_of(b)->stream;
  float *x = on_device(numbers(70)), *y = on_device(std::vector<float>(70, 5)), *z = on_device(std::vector<float>(70));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  launch_twice(b, x, y, 70);
  launch_twice(b, y, z, 70);
  ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ck_assert_float_eq(to_host(y, 1)[0], 5); /* captured, not run */
  ck_assert_int_eq(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  for (int round = 1; round < 3; round++) {
    const std::vector<float> fresh(70, (float) round);
    cudaMemcpyAsync(x, fresh.data(), 70 * sizeof(float), cudaMemcpyHostToDevice, stream);
    ck_assert_int_eq(cudaGraphLaunch(exec, stream), cudaSuccess);
    const std::vector<float> got = to_host(z, 70);
    for (float v : got) ck_assert_float_eq(v, 4 * (float) round);
  }
  cudaGraphExecDestroy(exec);
  float *all[] = {x, y, z};
  for (float *p : all) cudaFree(p);
  mlff_backend_close(b);
}
END_TEST

/* Calls that are not allowed in a capture invalidate it; its copies need pinned memory. */
START_TEST(recordings_can_be_spoilt)
{
  mlff_backend *b = open_gpu();
  cudaStream_t stream = mlff_cuda_of(b)->stream;
  float *x = on_device(numbers(70)), *y = nullptr;
  cudaGraph_t graph;
  for (int which = 0; which < 4; which++) {
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaError_t error = cudaSuccess;
    if (which == 0) error = cudaStreamSynchronize(stream);
    if (which == 1) error = cudaMalloc(&y, 40);
    if (which == 2) error = cudaFree(x);
    if (which == 3) error = cudaDeviceSynchronize();
    ck_assert_int_eq(error, cudaErrorStreamCaptureUnsupported);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  }
  cudaGetLastError();
  cudaFree(x);
  mlff_backend_close(b);
}
END_TEST

START_TEST(pageable_memory_in_a_recording_is_stopped)
{
  mlff_backend *b = open_gpu();
  std::vector<float> host(70);
  float *x = on_device(numbers(70));
  cudaStreamBeginCapture(mlff_cuda_of(b)->stream, cudaStreamCaptureModeThreadLocal);
  cudaMemcpyAsync(host.data(), x, 280, cudaMemcpyDeviceToHost, mlff_cuda_of(b)->stream);
}
END_TEST

START_TEST(fresh_memory_is_nan_and_failures_come_when_asked)
{
  mlff_backend *b = open_gpu();
  float *x = nullptr;
  ck_assert_int_eq(cudaMalloc(&x, 40), cudaSuccess);
  ck_assert(std::isnan(to_host(x, 10)[9]));
  cudaFree(x);
  cudasim_fail_allocation(2);
  ck_assert_int_eq(cudaMalloc(&x, 40), cudaSuccess);
  float *second = nullptr;
  ck_assert_int_eq(cudaMalloc(&second, 40), cudaErrorMemoryAllocation);
  ck_assert_int_eq(cudaMalloc(&second, 40), cudaSuccess);
  cudaGetLastError();
  cudaFree(second);
  cudasim_set_memory(1 << 20);
  ck_assert_int_eq(cudaMalloc(&second, 1 << 20), cudaErrorMemoryAllocation);
  cudaGetLastError();
  cudasim_fail_launch(2);
  launch_twice(b, x, x, 10);
  check_ok(b);
  launch_twice(b, x, x, 10);
  mlff_error error = {};
  ck_assert_int_eq(mlff_cuda_status(mlff_cuda_of(b), &error), MLFF_E_DEVICE);
  ck_assert_msg(strstr(error.text, "twice_kernel") != nullptr, "%s", error.text);
  cudaFree(x);
  mlff_backend_close(b);
}
END_TEST

/* Known values, limits, ties, and round trips of all 65536 patterns. */
START_TEST(small_floats_round_to_nearest_even)
{
  static const struct {
    float x;
    unsigned half, bfloat;
  } known[] = {{0.0f, 0x0000, 0x0000},       {-0.0f, 0x8000, 0x8000},      {1.0f, 0x3c00, 0x3f80},
               {-2.5f, 0xc100, 0xc020},      {65504.0f, 0x7bff, 0x4780},   {65519.0f, 0x7bff, 0x4780},
               {65520.0f, 0x7c00, 0x4780},   {INFINITY, 0x7c00, 0x7f80},   {0x1p-24f, 0x0001, 0x3380},
               {0x1p-25f, 0x0000, 0x3300},   {0x1.8p-25f, 0x0001, 0x3340}, {0x1p-14f, 0x0400, 0x3880},
               {0x1.004p0f, 0x3c01, 0x3f80}, {0x1.002p0f, 0x3c00, 0x3f80}, {0x1.006p0f, 0x3c02, 0x3f80},
               {0x1.03p0f, 0x3c0c, 0x3f82},  {0x1.01p0f, 0x3c04, 0x3f80},  {3.4e38f, 0x7c00, 0x7f80}};
  for (const auto &k : known) {
    ck_assert_uint_eq(__float2half(k.x).bits, k.half);
    ck_assert_uint_eq(__float2bfloat16(k.x).bits, k.bfloat);
  }
  ck_assert(std::isnan(__half2float(__float2half(NAN))) && std::isnan(__bfloat162float(__float2bfloat16(NAN))));
  for (unsigned b = 0; b < 65536; b++) {
    __half h;
    __nv_bfloat16 q;
    h.bits = q.bits = (uint16_t) b;
    const float x = __half2float(h), y = __bfloat162float(q);
    if (!std::isnan(x)) ck_assert_uint_eq(__float2half(x).bits, b);
    if (!std::isnan(y)) ck_assert_uint_eq(__float2bfloat16(y).bits, b);
  }
  ck_assert_uint_eq(__hfma(__half(3.0), __half(0x1.004p0), __half(-3.0)).bits, __half(0x3p-10).bits);
  ck_assert_uint_eq((__half(1.0) / __half(3.0)).bits, 0x3555);
}
END_TEST

/* Returns 0 if CUDA fails, as in the driver, in a process forked after a call of CUDA. */
static int refused_in_child(float *x)
{
  int n = 7;
  float *y = nullptr;
  char why[200] = "";
  mlff_error error = {};
  mlff_backend *b = nullptr;
  if (cudaGetDeviceCount(&n) != cudaErrorInitializationError || n != 0) return 1;
  if (cudaMalloc(&y, 40) != cudaErrorInitializationError || y) return 2;
  if (cudaFree(x) != cudaErrorInitializationError) return 3;
  if (cudaSetDevice(0) != cudaErrorInitializationError) return 4;
  if (cudaGetLastError() != cudaErrorInitializationError) return 5;
  if (mlff_cuda_n_devices(why, sizeof why) != 0 || !strstr(why, "InitializationError")) return 6;
  if (mlff_cuda_open(0, "fp32", &b, &error) != MLFF_E_DEVICE) return 7;
  return 0;
}

START_TEST(forked_processes_are_refused)
{
  mlff_backend *b = open_gpu();
  float *x = on_device(numbers(70)), *y = on_device(std::vector<float>(70));
  int status = -1;
  const pid_t child = fork();
  if (child == 0) _exit(refused_in_child(x));
  ck_assert(child > 0 && waitpid(child, &status, 0) == child);
  ck_assert_msg(WIFEXITED(status), "%d", status);
  ck_assert_int_eq(WEXITSTATUS(status), 0);
  launch_twice(b, x, y, 70); /* nothing has happened to the parent */
  check_ok(b);
  ck_assert_float_eq(to_host(y, 70)[3], 6);
  cudaFree(x);
  cudaFree(y);
  mlff_backend_close(b);
}
END_TEST

/* ---- detected errors ---- */

START_TEST(wrong_kernels_are_stopped)
{
  mlff_backend *b = open_gpu();
  float *y = on_device(std::vector<float>(64));
  launch_wrong(b, _i, y);
}
END_TEST

START_TEST(barrier_in_independent_threads_is_stopped)
{
  mlff_backend *b = open_gpu();
  float *x = on_device(numbers(96));
  launch_tree_sum_as_independent(b, x, x);
}
END_TEST

START_TEST(host_pointer_in_a_kernel_is_stopped)
{
  mlff_backend *b = open_gpu();
  std::vector<float> x = numbers(70);
  launch_twice(b, x.data(), x.data(), 70);
}
END_TEST

/* In a program that is not position independent the heap may lie there. */
START_TEST(numbers_that_look_like_an_address)
{
  mlff_backend *b = open_gpu();
  alignas(8) const float pair[2] = {2.0f, 0.0f};
  void *const address = (void *) 0x40000000;
  ck_assert_int_eq(std::memcmp(pair, &address, sizeof pair), 0);
  mmap(address, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  const void *const arguments[] = {pair};
  const size_t sizes[] = {sizeof pair};
  cudasim_launch_info info = {};
  info.name = "pair_of_numbers", info.grid = {1, 1, 1}, info.block = {1, 1, 1};
  const cudaError_t error = cudasim_launch(
      info, nullptr, [] { cudasim_grid_dependency_wait(); }, arguments, sizes, 1);
  ck_assert_int_eq(error, cudaSuccess);
  mlff_backend_close(b);
}
END_TEST

START_TEST(freed_pointer_in_a_kernel_is_stopped)
{
  mlff_backend *b = open_gpu();
  float *x = on_device(numbers(70));
  cudaFree(x);
  launch_twice(b, x, x, 70);
}
END_TEST

START_TEST(copy_beyond_the_end_is_stopped)
{
  std::vector<float> x(11);
  float *y = on_device(numbers(10));
  cudaMemcpyAsync(y, x.data(), 44, cudaMemcpyHostToDevice, nullptr);
}
END_TEST

START_TEST(device_pointer_on_the_host_is_stopped)
{
  volatile float *x = on_device(numbers(70));
  x[0] = 1;
}
END_TEST

static Suite *make_suite(void)
{
  Suite *suite = suite_create("cudasim");
  TCase *right = tcase_create("right");
  tcase_add_loop_test(right, blocks_and_threads_cover_everything, 0, 3);
  tcase_add_loop_test(right, barriers_and_shared_memory, 0, 3);
  tcase_add_loop_test(right, copies_arrive_when_waited_for, 0, 3);
  tcase_add_test(right, much_shared_memory_is_asked_for);
  tcase_add_loop_test(right, shuffles_and_votes, 0, 3);
  tcase_add_test(right, atomics_and_the_order_of_blocks);
  tcase_add_test(right, the_order_of_warps);
  tcase_add_loop_test(right, a_missing_barrier_is_seen, 31, 33);
  tcase_add_test(right, kernels_of_few_blocks_start_early_in_a_step);
  tcase_add_test(right, graphs_are_recorded_and_replayed);
  tcase_add_test(right, recordings_can_be_spoilt);
  tcase_add_test(right, fresh_memory_is_nan_and_failures_come_when_asked);
  tcase_add_test(right, small_floats_round_to_nearest_even);
  tcase_add_test(right, forked_processes_are_refused);
  tcase_add_test(right, numbers_that_look_like_an_address);
  suite_add_tcase(suite, right);
  TCase *wrong = tcase_create("wrong");
  for (int which = WRONG_BLOCK; which <= WRONG_TURN; which++)
    tcase_add_loop_test_raise_signal(wrong, wrong_kernels_are_stopped, SIGABRT, which, which + 1);
  tcase_add_test_raise_signal(wrong, barrier_in_independent_threads_is_stopped, SIGABRT);
  tcase_add_test_raise_signal(wrong, host_pointer_in_a_kernel_is_stopped, SIGABRT);
  tcase_add_test_raise_signal(wrong, freed_pointer_in_a_kernel_is_stopped, SIGABRT);
  tcase_add_test_raise_signal(wrong, copy_beyond_the_end_is_stopped, SIGABRT);
  tcase_add_test_raise_signal(wrong, pageable_memory_in_a_recording_is_stopped, SIGABRT);
#if defined(__SANITIZE_ADDRESS__) /* ends the program with exit code 1 and a report */
  tcase_add_loop_exit_test(wrong, wrong_kernels_are_stopped, 1, WRONG_SHARED, WRONG_DEVICE + 1);
  tcase_add_exit_test(wrong, device_pointer_on_the_host_is_stopped, 1);
#else
  tcase_add_test_raise_signal(wrong, device_pointer_on_the_host_is_stopped, SIGSEGV);
#endif
  suite_add_tcase(suite, wrong);
  return suite;
}

int main(void)
{
  return test_main_forked(make_suite);
}
