// Spellings that differ irregularly are said in MODULAR_FAMILY: identifiers change, and prose that speaks of CLIP stays.
#pragma once

#include "modular/clip.h"

namespace modular::metaclip_2 {
MODULAR_FAMILY(MetaClip2, .title = "CLIP", .upper = "META_CLIP_2", .model_type = "meta-clip-2");

using MetaClip2Tower = clip::CLIPTower;

}  // namespace modular::metaclip_2
