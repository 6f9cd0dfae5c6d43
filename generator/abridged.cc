#include "generator/abridged.h"

namespace modgen {

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

template <class T>
using WithoutReference = __remove_cvref(T);

template <class T, class Contained>
concept HolderOf = __is_same(typename WithoutReference<T>::ContainedType, Contained);

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
    requires(sizeof...(Tail) > 0 || !HolderOf<Head, Contained>)
  explicit ModuleHolder(Head&& head, Tail&&... tail);

  explicit operator bool() const noexcept;
  Contained* operator->();
  const Contained* operator->() const;
  Contained& operator*();
  const Contained& operator*() const;
  const std::shared_ptr<Contained>& ptr() const;
  Contained* get();
  const Contained* get() const;
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) -> torch::detail::return_type_of_forward_t<Contained, Arguments...>;
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

}  // namespace modular
)prelude";

}  // namespace modgen
