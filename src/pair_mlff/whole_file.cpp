/* whole_file.cpp: see whole_file.h. */
#include "whole_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace LAMMPS_NS;

std::string MLFFWholeFile::open(const std::string &path)
{
  close();
  fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  return fd < 0 ? strerror(errno) : "";
}

std::string MLFFWholeFile::append(const std::string &text)
{
  if (fd < 0) return "";
  const off_t begin = lseek(fd, 0, SEEK_END);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t more = write(fd, text.data() + done, text.size() - done);
    if (more > 0)
      done += static_cast<size_t>(more);
    else if (more == 0 || errno != EINTR)
      break;
  }
  if (done == text.size()) return "";
  std::string problem = strerror(errno);
  if (done && ftruncate(fd, begin) != 0) problem += "; its end is incomplete";
  close();
  return problem;
}

std::string MLFFWholeFile::close()
{
  const int open = fd;
  fd = -1;
  return open >= 0 && ::close(open) != 0 ? strerror(errno) : "";
}
