#include "runtime/data/image_dataset.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/files.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_image_error(const fs::path& path, const std::string& why) {
  throw DataError(fmt::format("{}: {}: write complete JPEG or PNG files", path.string(), why));
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

/// [height, width, channels], filled row by row.
struct Rows {
  at::Tensor pixels;
  explicit Rows(int64_t height, int64_t width, int64_t channels)
      : pixels(at::empty({height, width, channels}, at::kByte)) {}
  uint8_t* row(int64_t number) { return pixels.mutable_data_ptr<uint8_t>() + number * pixels.size(1) * pixels.size(2); }
};

/// libjpeg reports errors by longjmp, so no C++ object with a destructor may be alive in its calls.
struct JpegError {
  jpeg_error_mgr manager;
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX] = {};
};

/// Reads the header, or the image after it, and returns whether that succeeded; `rows` is null for the header.
bool read_jpeg_part(jpeg_decompress_struct& jpeg, JpegError& error, std::FILE* file, int64_t channels, Rows* rows) {
  if (setjmp(error.out)) return false;
  if (!rows) {
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    if (jpeg.num_components == 4) {
      std::snprintf(error.message, sizeof(error.message), "it has four color channels (CMYK), and three are required");
      return false;
    }
    jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&jpeg);
    return true;
  }
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = rows->row(jpeg.output_scanline);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return jpeg.err->num_warnings == 0;  // libjpeg only warns if data ends early
}

at::Tensor read_jpeg(std::FILE* file, const fs::path& path, int64_t channels) {
  jpeg_decompress_struct jpeg = {};
  JpegError error = {};
  jpeg.err = jpeg_std_error(&error.manager);
  error.manager.error_exit = [](j_common_ptr common) {
    auto* const own = reinterpret_cast<JpegError*>(common->err);
    common->err->format_message(common, own->message);
    std::longjmp(own->out, 1);
  };
  error.manager.emit_message = [](j_common_ptr common, int level) {
    auto* const own = reinterpret_cast<JpegError*>(common->err);
    if (level < 0 && ++common->err->num_warnings == 1) common->err->format_message(common, own->message);
  };
  jpeg_create_decompress(&jpeg);
  const auto destroy = [](jpeg_decompress_struct* handle) { jpeg_destroy_decompress(handle); };
  const std::unique_ptr<jpeg_decompress_struct, decltype(destroy)> destroyed(&jpeg, destroy);
  if (!read_jpeg_part(jpeg, error, file, channels, nullptr)) throw_image_error(path, error.message);
  Rows rows(jpeg.output_height, jpeg.output_width, channels);
  if (!read_jpeg_part(jpeg, error, file, channels, &rows)) throw_image_error(path, error.message);
  return rows.pixels;
}

at::Tensor read_png(std::FILE* file, const fs::path& path, int64_t channels) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  const auto release = [](png_image* handle) { png_image_free(handle); };
  const std::unique_ptr<png_image, decltype(release)> released(&png, release);
  if (!png_image_begin_read_from_stdio(&png, file)) throw_image_error(path, png.message);
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit sRGB, which libpng would otherwise treat as linear
  png.format = PNG_FORMAT_RGBA;            // with this format libpng leaves colors unchanged, whatever is transparent
  const auto height = static_cast<int64_t>(png.height), width = static_cast<int64_t>(png.width);
  Rows rows(height, width, 4);
  if (!png_image_finish_read(&png, nullptr, rows.row(0), 0, nullptr)) throw_image_error(path, png.message);
  const at::Tensor colours = rows.pixels.narrow(2, 0, 3);
  if (channels == 3) return colours;
  // Pillow's conversion to "L" (ITU-R 601-2 luma).
  const at::Tensor wide = colours.to(at::kInt);
  const at::Tensor luma = wide.select(2, 0) * 19595 + wide.select(2, 1) * 38470 + wide.select(2, 2) * 7471 + 0x8000;
  return luma.__rshift__(16).to(at::kByte).unsqueeze(2);
}

}  // namespace

bool is_image_name(const fs::path& path) {
  std::string suffix = path.extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png";
}

at::Tensor read_image(const fs::path& path, int64_t channels) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) throw_image_error(path, std::strerror(errno));
  std::array<unsigned char, 8> begin = {};
  const size_t read = std::fread(begin.data(), 1, begin.size(), file.get());
  std::rewind(file.get());
  const bool is_png = read == begin.size() && png_sig_cmp(begin.data(), 0, begin.size()) == 0;
  const bool is_jpeg = read >= 2 && begin[0] == 0xff && begin[1] == 0xd8;
  if (!is_png && !is_jpeg) throw_image_error(path, "it is not an image");
  return (is_png ? read_png : read_jpeg)(file.get(), path, channels).permute({2, 0, 1}).contiguous();
}

at::Tensor resized(const at::Tensor& image, int64_t height, int64_t width) {
  if (image.size(1) == height && image.size(2) == width) return image;
  return at::_upsample_bilinear2d_aa(image.unsqueeze(0), {height, width}, /*align_corners=*/false).squeeze(0);
}

}  // namespace modular
