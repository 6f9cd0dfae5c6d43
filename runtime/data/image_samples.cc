#include "runtime/data/image_samples.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <ranges>
#include <set>
#include <thread>
#include <utility>

#include "runtime/data/image_file.h"

namespace modular {
namespace {

std::string get_class(const DataFile& file) { return file.path.parent_path().filename().string(); }

/// [channels, 1, 1]
at::Tensor by_channel(const std::vector<double>& values, int64_t channels) {
  return at::tensor(values, at::kFloat).expand({channels}).view({channels, 1, 1});
}

}  // namespace

std::vector<std::string> image_classes(const std::vector<DataFile>& files) {
  std::set<std::string> names;
  for (const DataFile& file : files) names.insert(get_class(file));
  return {names.begin(), names.end()};
}

ImageSamples::ImageSamples(std::vector<DataFile> files, const std::map<std::string, int64_t>& classes, ImageShape shape)
    : files_(std::move(files)), shape_(std::move(shape)) {
  for (const DataFile& file : files_) {
    const auto found = classes.find(get_class(file));
    if (found == classes.end())
      throw DataError(fmt::format("{}: its folder is not one of the classes {}", file.path.string(),
                                  fmt::join(std::views::keys(classes), ", ")));
    labels_.push_back(found->second);
  }
}

at::Tensor ImageSamples::image(int64_t number) const {
  const DataFile& file = files_[static_cast<size_t>(number)];
  if (std::error_code error; static_cast<int64_t>(std::filesystem::file_size(file.path, error)) != file.bytes)
    throw DataError(fmt::format("{} has changed since the run began: restore it", file.path.string()));
  const at::Tensor pixels = resized(read_image(file.path, shape_.channels), shape_.height, shape_.width);
  return (pixels.to(at::kFloat) / 255.0 - by_channel(shape_.mean, shape_.channels)) /
         by_channel(shape_.std, shape_.channels);
}

Batch ImageSamples::read(std::span<const SamplePosition> positions, int64_t samples) const {
  Batch batch;
  batch.pixel_values = at::zeros({samples, shape_.channels, shape_.height, shape_.width});
  batch.labels = at::full({samples}, kIgnoredTarget, at::kLong);
  const size_t count =
      std::clamp<size_t>(std::thread::hardware_concurrency() / 2, 1, std::max<size_t>(positions.size(), 1));
  std::vector<std::exception_ptr> errors(count);
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < count; ++thread)
      threads.emplace_back([&, thread] {
        try {
          const at::NoGradGuard no_grad;
          for (size_t row = thread; row < positions.size(); row += count)
            batch.pixel_values[static_cast<int64_t>(row)].copy_(image(positions[row].sample));
        } catch (...) {
          errors[thread] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  for (size_t row = 0; row < positions.size(); ++row)
    batch.labels[static_cast<int64_t>(row)] = labels_[static_cast<size_t>(positions[row].sample)];
  return batch;
}

}  // namespace modular
