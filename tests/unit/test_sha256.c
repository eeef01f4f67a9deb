/* test_sha256.c: SHA-256 in plain C and by the processor's instructions: examples of the standard, and both alike. */
#include "model/sha256.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* Test vectors of NIST: text, number of copies, hash. */
static const struct {
  const char *text;
  size_t n_copies;
  const char *hash;
} examples[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};
enum { N_EXAMPLES = sizeof examples / sizeof *examples };

START_TEST(examples_of_the_standard)
{
  const size_t n = strlen(examples[_i].text);
  char *data = malloc(n * examples[_i].n_copies + 1), hex[65];
  for (size_t k = 0; k < examples[_i].n_copies; k++) memcpy(data + k * n, examples[_i].text, n);
  mlff_sha256_hex(data, n * examples[_i].n_copies, hex);
  ck_assert_str_eq(hex, examples[_i].hash);
  ck_assert_int_eq(mlff_sha256_hex_by(0, data, n * examples[_i].n_copies, hex), 1);
  ck_assert_str_eq(hex, examples[_i].hash);
  free(data);
}
END_TEST

/* All sizes around one, two and three blocks, from any address. */
START_TEST(instructions_agree_with_plain_c)
{
  enum { MOST = 200 };
  unsigned char data[MOST + 8];
  char plain[65], by[65] = "";
  uint64_t rng = 5;
  for (int k = 0; k < MOST + 8; k++) {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    data[k] = (unsigned char) (rng >> 56);
  }
  for (size_t n = 0; n <= MOST; n++) {
    const unsigned char *first = data + n % 8;
    mlff_sha256_hex_by(0, first, n, plain);
    if (!mlff_sha256_hex_by(1, first, n, by)) {
      test_skip("this processor or build has no instructions for SHA-256");
      return;
    }
    ck_assert_str_eq(by, plain);
  }
}
END_TEST

static Suite *suite(void)
{
  Suite *s = suite_create("sha256");
  TCase *t = tcase_create("sha256");
  tcase_add_loop_test(t, examples_of_the_standard, 0, N_EXAMPLES);
  tcase_add_test(t, instructions_agree_with_plain_c);
  suite_add_tcase(s, t);
  return s;
}

int main(void)
{
  return test_main(suite);
}
