#include "generator/parse/compiler.h"

namespace modgen {

const std::string_view kStubLibrary = R"prelude(
#include <optional>

namespace std {

template <class T>
  requires(!__is_void(T))
class optional<T> {
 public:
  using value_type = T;

  constexpr optional() noexcept;
  constexpr optional(nullopt_t) noexcept;
  template <class... Arguments>
  constexpr explicit optional(in_place_t, Arguments&&... arguments);
  template <class Other = T>
    requires(!__is_same(__remove_cvref(Other), optional) && __is_constructible(T, Other))
  constexpr explicit(!__is_convertible(Other, T)) optional(Other&& value);
  template <class Other>
    requires(!__is_same(Other, T) && __is_constructible(T, const Other&))
  constexpr explicit(!__is_convertible(const Other&, T)) optional(const optional<Other>& other);

  optional& operator=(nullopt_t) noexcept;
  template <class Other = T>
    requires(!__is_same(__remove_cvref(Other), optional) && !(__is_scalar(T) && __is_same(__remove_cvref(Other), T)) &&
             __is_constructible(T, Other))
  optional& operator=(Other&& value);

  const T* operator->() const noexcept;
  T* operator->() noexcept;
  const T& operator*() const& noexcept;
  T& operator*() & noexcept;
  T&& operator*() && noexcept;
  constexpr explicit operator bool() const noexcept;
  constexpr bool has_value() const noexcept;
  const T& value() const&;
  T& value() &;
  T&& value() &&;
  template <class Other>
  T value_or(Other&& otherwise) const;
  template <class... Arguments>
  T& emplace(Arguments&&... arguments);
  void reset() noexcept;
  void swap(optional& other);

 private:
  alignas(T) char value_[sizeof(T)];  // libtorch asserts sizes
  bool has_value_;
};

}  // namespace std

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace torch::nn {

template <class Contained>
  requires(__is_base_of(Module, Contained))
class ModuleHolder<Contained> : torch::detail::ModuleHolderIndicator {
 protected:
  Contained* impl_;

 public:
  using ContainedType = Contained;

  ModuleHolder();
  ModuleHolder(std::nullptr_t);
  ModuleHolder(std::shared_ptr<Contained> module);
  template <class Head, class... Tail>
    requires(sizeof...(Tail) > 0 || !__is_base_of(ModuleHolder, __remove_cvref(Head)))
  explicit ModuleHolder(Head&& head, Tail&&... tail);

  explicit operator bool() const noexcept;
  Contained* operator->();
  const Contained* operator->() const;
  Contained& operator*();
  const Contained& operator*() const;
  const std::shared_ptr<Contained>& ptr() const;
  Contained* get();
  const Contained* get() const;
  template <class... Arguments, class Held = Contained>
  auto operator()(Arguments&&... arguments)
      -> decltype(static_cast<Held*>(nullptr)->forward(static_cast<Arguments&&>(arguments)...));
  template <class Index>
  auto operator[](Index&& index) {
    return (*impl_)[::std::forward<Index>(index)];
  }
  bool is_empty() const noexcept;
};

}  // namespace torch::nn
)prelude";

const std::string_view kStubPrelude = R"prelude(
namespace std {

template <class T>
  requires(__is_base_of(torch::nn::Module, T) && !__is_same(T, torch::nn::Module))
class shared_ptr<T> {
 public:
  using element_type = T;
  using weak_type = weak_ptr<T>;

  constexpr shared_ptr() noexcept;
  constexpr shared_ptr(nullptr_t) noexcept;
  template <class Other>
    requires(__is_convertible(Other*, T*))
  explicit shared_ptr(Other* module);
  template <class Other>
    requires(__is_convertible(Other*, T*))
  shared_ptr(const shared_ptr<Other>& other) noexcept;
  template <class Base>
    requires(__is_convertible(T*, Base*) && !__is_same(T, Base))
  operator shared_ptr<Base>() const noexcept;

  T* get() const noexcept;
  T& operator*() const noexcept;
  T* operator->() const noexcept;
  explicit operator bool() const noexcept;
  long use_count() const noexcept;
  void reset() noexcept;
  void swap(shared_ptr& other) noexcept;
};

}  // namespace std

namespace modular {

template <class Holder>
  requires(__is_class(Holder))
class ModuleListOfImpl<Holder> : public nn::Module {
 public:
  void push_back(Holder module);
  Holder* begin();
  Holder* end();
  Holder& operator[](size_t index);
  size_t size() const;
  int64_t index_of(const Holder& element) const;
};

template <class First, class... Others>
  requires(__is_class(First))
class OneOf<First, Others...> {
 public:
  OneOf(std::nullptr_t);
  template <class Impl>
    requires(__is_same(Impl, typename First::ContainedType) || (__is_same(Impl, typename Others::ContainedType) || ...))
  OneOf(std::shared_ptr<Impl> module);

  template <class... Arguments>
    requires(__is_same(decltype(std::declval<Others&>()(std::declval<Arguments>()...)),
                       decltype(std::declval<First&>()(std::declval<Arguments>()...))) &&
             ...)
  auto operator()(Arguments&&... arguments)
      -> decltype(std::declval<First&>()(static_cast<Arguments&&>(arguments)...));
  template <class Holder>
  typename Holder::ContainedType* get();
  explicit operator bool() const;
};

}  // namespace modular
)prelude";

const std::string_view kUsedByMost = R"prelude(
namespace modular::used_by_most {

struct UsedConfig : Config {
  int64_t size = 1;
  double factor = 0.5;
  std::optional<int64_t> given;
  std::optional<std::string> named;
  std::string name = "name";
  bool flag = false;
  RopeParameters rope_parameters;
  std::vector<int64_t> sizes = {1, 2};
  std::vector<double> factors = {0.5, 1.0};
  std::vector<std::string> names = {"name"};
  std::optional<std::vector<double>> given_factors;
  static std::vector<StoredAs> stored_as() { return {{"name", {"other"}}}; }
  void finish() {
    if (size < 1) throw ConfigError("text");
    if (!given) given = size;
    if (name == "other" || name != "another") name = std::string("text").append(name.substr(1));
    if (names.empty()) names = std::vector<std::string>(1, name), names.push_back("name");
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) throw ConfigError(std::string("text").append(name));
    for (const std::string& one : names) name = one + name;
  }
};

class UsedImpl : public Module {
 public:
  explicit UsedImpl(const UsedConfig& config)
      : config(config),
        weight(register_parameter("weight", torch::empty({config.size, config.size}))),
        projection(register_module("projection", linear(config.size, *config.given, config.flag))),
        table(register_module("table", embedding(config.size, config.size, std::nullopt))),
        norm(register_module("norm", LayerNorm(config.size, config.factor))),
        patches(register_module("patches", patch_projection(config.size, config.size, config.size, /*bias=*/true))),
        scale(1.0 / std::sqrt(static_cast<double>(config.size))) {
    if (config.flag) extra = register_module("extra", linear(config.size, config.size, /*bias=*/false));
  }

  Tensor forward(const Tensor& x, const Batch& batch) {
    const int64_t rows = x.size(0), columns = x.size(1);
    Tensor y = projection(x).view({rows, columns, config.size, -1}).transpose(1, 2);
    y = y + table(batch.input_ids) * scale - x.slice(-1, 0, 1).unsqueeze(0) / 2.0;
    const auto [cos, sin] = RotaryTables(x.cos(), x.sin());
    const AttentionMask mask = causal_mask(batch, /*window=*/0);
    y = attention(rotary(y, cos, sin), y, y, mask, scale);
    y = y.index_select(0, at::arange(rows, x.options().dtype(torch::kLong)));
    y = gated_activation(config.name, extra(x), patches(norm(y))).clamp_min(0).masked_fill(x.lt(0), 0.0);
    if (batch.labels.defined()) return at::cat({y, -x}, -1).to(at::kFloat);
    return rms_norm(y.flatten(2), weight, config.factor);
  }

  void reset_parameters() override { init::linear_and_embedding_(*this, config.factor); }

  UsedConfig config;
  Tensor weight;
  nn::Linear projection;
  nn::Linear extra{nullptr};
  nn::Embedding table;
  LayerNorm norm;
  nn::Conv2d patches;
  double scale;
};
TORCH_MODULE(Used);

class UsedListImpl : public Module {
 public:
  explicit UsedListImpl(const UsedConfig& config)
      : layers(register_module("layers", ModuleListOf<Used>())) {
    for (int64_t i = 0; i < config.size; ++i) layers->push_back(Used(config));
  }

  Outputs forward(const Batch& batch) {
    Tensor x = batch.input_ids;
    for (auto& layer : *layers) x = layer(x, batch);
    Outputs outputs;
    if (batch.labels.defined()) outputs.loss_sum = x;
    if (batch.want_logits) outputs.logits = x;
    return outputs;
  }

  ModuleListOf<Used> layers;
};
TORCH_MODULE(UsedList);

}  // namespace modular::used_by_most
)prelude";

}  // namespace modgen
