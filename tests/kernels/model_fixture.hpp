// Folders and files for tests of the model loader.
#pragma once

#include "cpu_fixture.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dualpath::kernels::test {

/// A fresh folder that goes with its contents.
class scratch_dir {
public:
  scratch_dir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dualpath-model-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) FAIL("no folder for temporary files");
    dir_ = pattern;
  }
  ~scratch_dir() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  scratch_dir(const scratch_dir&) = delete;
  scratch_dir& operator=(const scratch_dir&) = delete;

  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream file{path(name), std::ios::binary | std::ios::trunc};
    file << content;
    file.close();
    if (!file) FAIL(path(name) << " cannot be written");
  }

private:
  std::string dir_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) FAIL(path << " cannot be read");
  return {std::istreambuf_iterator<char>{file}, {}};
}

} // namespace dualpath::kernels::test
