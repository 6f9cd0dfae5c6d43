// The tables of node classes have exactly the classes of Clang's own lists.
#include "generator/resolve/core_language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace modgen {
namespace {

const std::vector<std::string_view> kStatements = {
#define ABSTRACT_STMT(Type)
#define STMT(Type, Base) #Type,
#include <clang/AST/StmtNodes.inc>
};
const std::vector<std::string_view> kDeclarations = {
#define ABSTRACT_DECL(Type)
#define DECL(Type, Base) #Type,
#include <clang/AST/DeclNodes.inc>
};
const std::vector<std::string_view> kTypes = {
#define ABSTRACT_TYPE(Class, Base)
#define TYPE(Class, Base) #Class,
#include <clang/AST/TypeNodes.inc>
};
const std::vector<std::string_view> kCasts = {
#define CAST_OPERATION(Name) #Name,
#include <clang/AST/OperationKinds.def>
};
const std::vector<std::string_view> kBinaryOperators = {
#define BINARY_OPERATION(Name, Spelling) #Name,
#include <clang/AST/OperationKinds.def>
};
const std::vector<std::string_view> kUnaryOperators = {
#define UNARY_OPERATION(Name, Spelling) #Name,
#include <clang/AST/OperationKinds.def>
};

/// The names of `some` that are not in `others`, each followed by a space.
std::string missing(const std::vector<std::string_view>& some, const std::vector<std::string_view>& others) {
  std::string names;
  for (const std::string_view name : some)
    if (std::ranges::find(others, name) == others.end()) names.append(name) += ' ';
  return names;
}

struct List {
  const char* name;
  NodeList list;
  const std::vector<std::string_view>& of_clang;
};

class CoreLanguage : public testing::TestWithParam<List> {};

TEST_P(CoreLanguage, HasEveryClassOfClangOnce) {
  const std::vector<std::string_view> table = table_names(GetParam().list);
  ASSERT_FALSE(GetParam().of_clang.empty());
  EXPECT_EQ(missing(GetParam().of_clang, table), "") << "add a row to generator/resolve/core_language_*.def for each";
  EXPECT_EQ(missing(table, GetParam().of_clang), "") << "Clang has no such class: remove its row";
  EXPECT_EQ(table.size(), GetParam().of_clang.size());
}

INSTANTIATE_TEST_SUITE_P(Lists, CoreLanguage,
                         testing::Values(List{"statements", NodeList::statements, kStatements},
                                         List{"declarations", NodeList::declarations, kDeclarations},
                                         List{"types", NodeList::types, kTypes}, List{"casts", NodeList::casts, kCasts},
                                         List{"binary_operators", NodeList::binary_operators, kBinaryOperators},
                                         List{"unary_operators", NodeList::unary_operators, kUnaryOperators}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace modgen
