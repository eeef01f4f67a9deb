/* whole_file.cpp: see whole_file.h. */
#include "whole_file.h"

#include "../writer.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

std::string MLFFWholeFile::open(const std::string &path)
{
  close();
  fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  return fd < 0 ? strerror(errno) : "";
}

std::string MLFFWholeFile::append(const std::string &text)
{
  if (fd < 0) return "";
  int is_torn;
  const int problem = mlff_append(fd, text.data(), text.size(), &is_torn);
  if (!problem) return "";
  close();
  return std::string(strerror(problem)) + (is_torn ? "; its end is incomplete" : "");
}

std::string MLFFWholeFile::close()
{
  const int open = fd;
  fd = -1;
  return open >= 0 && ::close(open) != 0 ? strerror(errno) : "";
}
