/* test_safetensors.c: damaged weights, and what is refused of good ones. */
#include "testmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static test_model a_file(void)
{
  test_model m = test_model_ani((test_model_options){.seed = 3});
  test_model_set_two_tensors(&m);
  return m;
}

START_TEST(wrong_hash)
{
  test_model m = a_file();
  mlff_error error = {.code = MLFF_OK};
  mlff_modelfile *file = NULL;
  ((char *) m.weights)[m.weights_size - 3] ^= 1;
  test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT, "dir/test.safetensors has hash");
  ((char *) m.weights)[m.weights_size - 3] ^= 1;
  m.weights_size -= 4;
  test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT, "truncated");
  test_model_free(&m);
}
END_TEST

/* A header in JSON and n_data bytes of zeros; the hash is that of the damaged file. */
static void check_header(const char *json, size_t n_data, const char *text)
{
  test_model m = a_file();
  mlff_error error = {.code = MLFF_OK};
  mlff_modelfile *file = NULL;
  const size_t n = strlen(json);
  unsigned char *bytes = calloc(1, 8 + n + n_data);
  for (int k = 0; k < 8; k++) bytes[k] = (unsigned char) (n >> 8 * k);
  memcpy(bytes + 8, json, n);
  test_model_set_weights(&m, bytes, 8 + n + n_data);
  if (text)
    test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT, text);
  else
    test_ok(test_model_parse(&m, &file, &error), error);
  mlff_modelfile_free(file);
  free(bytes);
  test_model_free(&m);
}

#define T(dtype, shape, begin, end) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

START_TEST(damaged_headers)
{
  check_header("{}", 0, NULL);
  check_header("{\"a\":" T("F32", "[2]", "0", "8") "}  ", 8, NULL);
  check_header("{ \"a\" :\n" T("F64", "[]", "0", "8") ", \"__metadata__\":{\"k\":\"v\\\"w\"}}", 8, NULL);
  check_header("{\"a\":" T("F32", "[2]", "0", "8") "}", 7, "truncated");
  check_header("{\"a\":" T("F32", "[2]", "0", "8") "}", 9, "1 bytes after the last tensor");
  check_header("{\"a\":" T("F32", "[3]", "0", "8") "}", 8, "its shape and type need 12");
  check_header("{\"a\":" T("F32", "[2]", "8", "0") "}", 8, "truncated or damaged");
  check_header("{\"a\":" T("F32", "[4294967296,4294967296,4294967296]", "0", "8") "}", 8, "is too large");
  check_header("{\"a\":" T("F32", "[99999999999999999999]", "0", "8") "}", 8, "number is too large");
  check_header("{\"a\":" T("F32", "[-2]", "0", "8") "}", 8, "whole number is missing");
  check_header("{\"a\":" T("F99", "[2]", "0", "8") "}", 8, "unknown type 'F99'");
  check_header("{\"a\":" T("F32", "[1]", "0", "4") ",\"b\":" T("F32", "[1]", "2", "6") "}", 6, "overlaps");
  check_header("{\"a\":" T("F32", "[1]", "0", "4") ",\"b\":" T("F32", "[1]", "8", "12") "}", 12, "gap");
  check_header("{\"a\":" T("F32", "[1]", "0", "4") ",\"a\":" T("F32", "[1]", "4", "8") "}", 8, "'a' is there twice");
  check_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}            ", 8, "lacks dtype, shape or data_offsets");
  check_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2]}}", 8, "repeated key");
  check_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1]}}", 8, "too many numbers");
  check_header("{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", 8, "'{' is missing");
  check_header("{\"a\\u0041\":" T("F32", "[2]", "0", "8") "}", 8, "escape");
  check_header("{\"a\":" T("F32", "[2]", "0", "8") "} x", 8, "text after the end");
  check_header("{\"a\":" T("F32", "[2]", "0", "8"), 8, "'}' is missing");
  check_header("{\"a", 8, "a string does not end");
  check_header("", 8, "'{' is missing");
}
END_TEST

START_TEST(impossible_header_length)
{
  static const unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  test_model m = a_file();
  mlff_error error = {.code = MLFF_OK};
  mlff_modelfile *file = NULL;
  test_model_set_weights(&m, huge, sizeof huge);
  test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT,
             "the file is truncated, damaged or not safetensors");
  test_model_set_weights(&m, huge, 5);
  test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT, "5 bytes are not a safetensors file");
  test_model_set_weights(&m, (unsigned char[9]){2, 0, 0, 0, 0, 0, 0, 0, '{'}, 9);
  test_fails(test_model_parse(&m, &file, &error), error, MLFF_E_FORMAT, "header of 2 bytes in a file of 9");
  test_model_free(&m);
}
END_TEST

START_TEST(wrong_tensors)
{
  test_model m = a_file();
  mlff_modelfile *file = test_model_must_parse(&m);
  mlff_error error = {.code = MLFF_OK};
  double *v = NULL;
  test_fails(mlff_modelfile_tensor(file, "c", 1, (int64_t[]){4}, &v, &error), error, MLFF_E_FORMAT,
             "tensor 'c' is missing");
  test_fails(mlff_modelfile_tensor(file, "a.weight", 2, (int64_t[]){3, 2}, &v, &error), error, MLFF_E_FORMAT,
             "has shape [2, 3], expected [3, 2]");
  test_fails(mlff_modelfile_tensor(file, "a.weight", 1, (int64_t[]){6}, &v, &error), error, MLFF_E_FORMAT,
             "expected [6]");
  test_fails(mlff_modelfile_tensor(file, "b", 0, NULL, &v, &error), error, MLFF_E_FORMAT, "expected []");
  ck_assert_ptr_null(v);
  mlff_modelfile_free(file);

  static const char *const types[] = {"F16", "BF16"};
  for (int k = 0; k < 2; k++) {
    char json[128];
    const int n = snprintf(json, sizeof json,
                           "        {\"h\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,4]}}....", types[k]);
    json[0] = (char) (n - 12);
    memset(json + 1, 0, 7);
    test_model_set_weights(&m, json, (size_t) n);
    file = test_model_must_parse(&m);
    test_fails(mlff_modelfile_tensor(file, "h", 1, (int64_t[]){2}, &v, &error), error, MLFF_E_UNSUPPORTED, types[k]);
    mlff_modelfile_free(file);
  }
  test_model_free(&m);
}
END_TEST

START_TEST(values_that_are_not_finite)
{
  static const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; k < 6; k++) {
    test_model m = a_file();
    mlff_error error = {.code = MLFF_OK};
    test_weights w = {.rng = {1}};
    double *values = test_weights_add(&w, 1, NULL, 1, (int64_t[]){5}, "t");
    void *data = NULL;
    size_t size = 0;
    values[3] = bad[k % 3];
    test_weights_pack(&w, k / 3, &data, &size);
    test_model_set_weights(&m, data, size);
    mlff_modelfile *file = test_model_must_parse(&m);
    test_fails(mlff_modelfile_tensor(file, "t", 1, (int64_t[]){5}, &values, &error), error, MLFF_E_FORMAT,
               "not finite at element 3");
    mlff_modelfile_free(file);
    free(data);
    test_weights_free(&w);
    test_model_free(&m);
  }
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("safetensors");
  TCase *weights = tcase_create("weights");
  tcase_add_test(weights, wrong_hash);
  tcase_add_test(weights, damaged_headers);
  tcase_add_test(weights, impossible_header_length);
  tcase_add_test(weights, wrong_tensors);
  tcase_add_test(weights, values_that_are_not_finite);
  suite_add_tcase(s, weights);
  return s;
}

int main(void)
{
  return test_main(suite);
}
