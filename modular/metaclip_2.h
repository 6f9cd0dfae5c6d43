// MetaCLIP 2 (Chuang et al., 2025), as in Hugging Face transformers: CLIP trained on pairs in all languages.
#pragma once

#include "modular/clip.h"

namespace modular::metaclip_2 {
MODULAR_FAMILY(MetaClip2, .title = "CLIP");

struct MetaClip2TextModelImpl : clip::CLIPTextModelImpl {
  Tensor ends(const Tensor& input_ids) { return input_ids.eq(config.eos_token_id).to(torch::kInt).argmax(-1); }
};

using MetaClip2Model MODEL_ENTRY("contrastive-pairs") = clip::CLIPModel;
using MetaClip2ForImageClassification MODEL_ENTRY("image-classification") = clip::CLIPForImageClassification;

}  // namespace modular::metaclip_2
