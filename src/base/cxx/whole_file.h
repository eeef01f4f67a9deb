/* whole_file.h: a text file that grows by whole pieces. A piece is written at once, or not at all; after the first one
 * that cannot be, nothing more is written. */
#ifndef MLFF_BASE_WHOLE_FILE_H
#define MLFF_BASE_WHOLE_FILE_H

#include <string>

class MLFFWholeFile {
 public:
  MLFFWholeFile() = default;
  MLFFWholeFile(const MLFFWholeFile &) = delete;
  MLFFWholeFile &operator=(const MLFFWholeFile &) = delete;
  ~MLFFWholeFile() { close(); }

  /* Begins an empty file in the place of the one before. Each of these returns "" or what went wrong. */
  std::string open(const std::string &path);
  std::string append(const std::string &text);
  std::string close();
  bool is_open() const { return fd >= 0; }

 private:
  int fd = -1;
};

#endif
