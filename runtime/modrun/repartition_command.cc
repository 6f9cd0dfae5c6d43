#include <fmt/format.h>

#include "runtime/data/data_formats.h"
#include "runtime/datasets/partitions.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"

namespace modular {

void repartition_data(const Arguments& arguments) {
  const RepartitionArguments& asked = arguments.repartition;
  std::vector<std::filesystem::path> files;
  for (const DataFile& file :
       find_data_files({.format = std::string(kParquetFormat.name), .paths = asked.files}).training)
    files.push_back(file.path);
  repartition(files, asked.rows, asked.out,
              [&](size_t done) { print_to(stdout, "{} of {} files\n", done, files.size()); });
  print_to(stdout, "{} holds {} files with row groups of {} rows\n", asked.out.string(), files.size(), asked.rows);
}

}  // namespace modular
