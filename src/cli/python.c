/* python.c: commands of the Python package mlff_tools. */
#define _POSIX_C_SOURCE 200809L

#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs `python3 -m mlff_tools NAME` without the current folder on the path, so that a numpy.py there is not imported.
   (The option -P does this from Python 3.11 on.) */
static const char program[] =
    "import sys\n"
    "sys.path[:] = [place for place in sys.path if place]\n"
    "import importlib.util, runpy\n"
    "if not importlib.util.find_spec('mlff_tools'):\n"
    "    sys.exit(f'mlff {sys.argv[1]}: {sys.executable} has no package mlff_tools; run pip install . in the source '\n"
    "             'directory of mlff, or add its folder python to PYTHONPATH')\n"
    "runpy.run_module('mlff_tools', run_name='__main__', alter_sys=True)\n";

/* Python in the folder of this program, as in a virtual environment. Returns 0 if there is none. */
static int python_beside(char *path, size_t size)
{
  const ssize_t n = readlink("/proc/self/exe", path, size - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  char *slash = strrchr(path, '/');
  const size_t room = slash ? size - (size_t) (slash + 1 - path) : 0;
  return slash && snprintf(slash + 1, room, "python3") < (int) room && !access(path, X_OK);
}

/* Adds the package of the source tree, for a build that is not installed. */
static void add_source_path(void)
{
#ifdef MLFF_SOURCE_PYTHON
  char value[8192];
  const char *old = getenv("PYTHONPATH");
  if (access(MLFF_SOURCE_PYTHON, R_OK)) return;
  const int n =
      snprintf(value, sizeof value, "%s%s%s", old && *old ? old : "", old && *old ? ":" : "", MLFF_SOURCE_PYTHON);
  if (n > 0 && (size_t) n < sizeof value) setenv("PYTHONPATH", value, 1);
#endif
}

/* The Python of the build, if there is one. */
static const char *python_of_build(void)
{
#ifdef MLFF_BUILD_PYTHON
  if (!access(MLFF_BUILD_PYTHON, X_OK)) return MLFF_BUILD_PYTHON;
#endif
  return NULL;
}

int cli_python(const char *name, int argc, char **argv)
{
  char installed[PATH_MAX];
  const char *python = python_beside(installed, sizeof installed) ? installed : python_of_build();
  char **arguments = calloc((size_t) argc + 5, sizeof *arguments);
  if (!arguments) return CLI_FAILED;
  arguments[0] = (char *) (python ? python : "python3");
  arguments[1] = (char *) "-c";
  arguments[2] = (char *) program;
  arguments[3] = (char *) name;
  for (int k = 0; k < argc; k++) arguments[4 + k] = argv[k];
  add_source_path();
  execvp(arguments[0], arguments);
  fprintf(stderr, "mlff %s: cannot run %s: %s; install Python 3 next to this program or on the PATH\n", name,
          arguments[0], strerror(errno));
  free(arguments);
  return CLI_WRONG;
}
