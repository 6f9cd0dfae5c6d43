// Families between which configs have fields of every kind, and entries most tasks.
#include "generated/gemma3_text.h"
#include "generated/llama.h"
#include "generated/llava.h"
#include "generated/session.h"
#include "generated/t5.h"
