// The families that are held against transformers.
#pragma once

#include "generated/gemma.h"
#include "generated/llama.h"
#include "generated/mistral.h"
