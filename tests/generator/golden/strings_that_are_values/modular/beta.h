// A string that code compares is a value and stays, also where it is the name of the family.
#pragma once
#include "modular/norm.h"
namespace modular::beta {
MODULAR_FAMILY(Beta);
using BetaBlock = norm::NormBlock;
}  // namespace modular::beta
