#include "generator/abridged.h"

namespace modgen {

const std::string_view kAbridgedLibrary = R"prelude(
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
)prelude";

const std::string_view kAbridged = R"prelude(
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

namespace torch::nn {

template <class Contained>
  requires(__is_base_of(Module, Contained))
class ModuleHolder<Contained> : torch::detail::ModuleHolderIndicator {
 protected:
  std::shared_ptr<Contained> impl_;

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

}  // namespace modgen
