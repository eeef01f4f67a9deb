/* find_model.cpp: see find_model.h. The program and Python search in the same order: src/cli/find.c, modelfile.py. */
#include "find_model.h"

#include "utils.h"

#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <set>
#include <sstream>
#include <unistd.h>
#include <vector>

using namespace LAMMPS_NS;

static void add_list(const char *list, std::vector<std::string> &folders)
{
  std::istringstream words(list ? list : "");
  for (std::string folder; std::getline(words, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
}

/* Folders of models that are known by name. */
static std::vector<std::string> folders_of_models()
{
  std::vector<std::string> folders;
  Dl_info here = {};
  add_list(getenv("MLFF_MODELS"), folders);
  // the wheel has them next to the package with this plugin
  if (dladdr(reinterpret_cast<void *>(&mlff_find_model), &here) && here.dli_fname) {
    const std::string file = here.dli_fname;
    const size_t slash = file.rfind('/');
    folders.push_back((slash == std::string::npos ? "." : file.substr(0, slash)) + "/../mlff_tools/models");
  }
#ifdef MLFF_SOURCE_MODELS
  folders.push_back(MLFF_SOURCE_MODELS);
#endif
  return folders;
}

std::string LAMMPS_NS::mlff_find_model(const std::string &name)
{
  for (const std::string &file : {name, name + ".yaml"}) {
    const std::string found = utils::get_potential_file_path(file);
    if (!found.empty()) return found;
  }
  if (name.find('/') != std::string::npos) return "";
  for (const std::string &folder : folders_of_models())
    for (const char *ending : {"", ".yaml"}) {
      const std::string path = folder + "/" + name + ending;
      if (!access(path.c_str(), R_OK)) return path;
    }
  return "";
}

std::string LAMMPS_NS::mlff_model_names()
{
  static const std::string ending = ".safetensors";
  std::vector<std::string> folders = {"."};
  std::set<std::string> names;
  add_list(getenv("LAMMPS_POTENTIALS"), folders);
  const std::vector<std::string> more = folders_of_models();
  folders.insert(folders.end(), more.begin(), more.end());
  for (const std::string &folder : folders) {
    DIR *open = opendir(folder.c_str());
    while (const dirent *entry = open ? readdir(open) : nullptr) {
      const std::string file = entry->d_name;
      if (file.size() <= ending.size() || file.compare(file.size() - ending.size(), ending.size(), ending)) continue;
      const std::string name = file.substr(0, file.size() - ending.size());
      if (!access((folder + "/" + name + ".yaml").c_str(), R_OK)) names.insert(name);
    }
    if (open) closedir(open);
  }
  std::string text;
  for (const std::string &name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}
