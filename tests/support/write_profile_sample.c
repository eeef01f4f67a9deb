/* write_profile_sample.c: write_profile_sample N FILE: the report of a sample run of N steps. */
#include "profsample.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
  mlffprof_error error = {.code = MLFFPROF_OK};
  if (argc != 3) return 2;
  mlffprof_report *p = prof_sample(atoi(argv[1]));
  const mlffprof_status status = mlffprof_report_write(p, argv[2], &error);
  if (status) fprintf(stderr, "%s\n", error.text);
  mlffprof_report_free(p);
  return status != MLFFPROF_OK;
}
