// Families that together have config fields of every kind, and most tasks as entries.
#include "generated/gemma3_text.h"
#include "generated/llama.h"
#include "generated/llava.h"
#include "generated/session.h"
#include "generated/t5.h"
