// The model families, one function each: config.json's text part in, a ModelShape out.
//
// What is missing or impossible goes to the fields' status. Adding a family: a function in the file
// of its theme, a line in shape.cc's table.
#pragma once

#include "launcher/model/fields.h"
#include "launcher/model/shape.h"

namespace am::model {

using FamilyFunction = void (*)(Fields& fields, ModelShape& shape);

// families_dense.cc
void Llama(Fields& fields, ModelShape& shape);
void Qwen2(Fields& fields, ModelShape& shape);
void Qwen3(Fields& fields, ModelShape& shape);
void Gemma2(Fields& fields, ModelShape& shape);
void Gemma3(Fields& fields, ModelShape& shape);
void Phi3(Fields& fields, ModelShape& shape);

// families_moe.cc: experts behind grouped-query attention.
void Qwen3Moe(Fields& fields, ModelShape& shape);
void Mixtral(Fields& fields, ModelShape& shape);
void GptOss(Fields& fields, ModelShape& shape);
void Glm4Moe(Fields& fields, ModelShape& shape);
void MimoV2(Fields& fields, ModelShape& shape);
void Laguna(Fields& fields, ModelShape& shape);

// families_mla.cc: latent and compressed attention.
void DeepseekV3(Fields& fields, ModelShape& shape);
void GlmMoeDsa(Fields& fields, ModelShape& shape);
void DeepseekV4(Fields& fields, ModelShape& shape);
void DeepseekV41(Fields& fields, ModelShape& shape);

// families_hybrid.cc: linear attention between softmax attention.
void Qwen3Next(Fields& fields, ModelShape& shape);
void Qwen35(Fields& fields, ModelShape& shape);
void Qwen4Exp(Fields& fields, ModelShape& shape);
void KimiLinear(Fields& fields, ModelShape& shape);
void Glm5Next(Fields& fields, ModelShape& shape);

// families_mamba.cc: state spaces between attention and experts.
void NemotronH(Fields& fields, ModelShape& shape);

// families_image.cc
void HunyuanImage3(Fields& fields, ModelShape& shape);
void QwenImage(Fields& fields, ModelShape& shape);

// towers.cc: what vision_config adds to a language model of a family whose towers are known.
void ReadTowers(Fields& config, ModelShape& shape);

}  // namespace am::model
