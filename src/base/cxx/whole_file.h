/* whole_file.h: text file that grows by whole pieces. A piece is written completely or not at all. After the first
 * failure nothing more is written. */
#ifndef MLFF_BASE_WHOLE_FILE_H
#define MLFF_BASE_WHOLE_FILE_H

#include <string>

class MLFFWholeFile {
 public:
  MLFFWholeFile() = default;
  MLFFWholeFile(const MLFFWholeFile &) = delete;
  MLFFWholeFile &operator=(const MLFFWholeFile &) = delete;
  ~MLFFWholeFile() { close(); }

  /* Replaces an existing file. All three return "" or the error. */
  std::string open(const std::string &path);
  std::string append(const std::string &text);
  std::string close();
  bool is_open() const { return fd >= 0; }

 private:
  int fd = -1;
};

#endif
