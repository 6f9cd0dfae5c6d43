// Run by the build: prints a header that identifies the generator sources that a program is built with.
//   build_identity GENERATOR_FOLDER NAME VALUE…
#include <cstdio>
#include <exception>

#include "checks/digest.h"

int main(int count, char** arguments) try {
  if (count < 2 || count % 2 != 0) return 2;
  std::printf("#define MODULAR_GENERATOR_DIGEST \"%s\"\n", modgen::digest_of_sources(arguments[1]).c_str());
  for (int index = 2; index < count; index += 2)
    std::printf("#define %s \"%s\"\n", arguments[index], arguments[index + 1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "build_identity: %s\n", error.what());
  return 1;
}
