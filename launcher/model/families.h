// The model families, one function each: config.json's text part in, a ModelShape out.
//
// families_dense.cc, families_moe.cc, families_mla.cc, families_hybrid.cc, families_image.cc. What
// is missing or impossible goes to the fields' status.
#pragma once

#include "launcher/model/fields.h"
#include "launcher/model/shape.h"

namespace am::model {

using FamilyFunction = void (*)(Fields& fields, ModelShape& shape);

// Dense.
void Llama(Fields& fields, ModelShape& shape);
void Qwen2(Fields& fields, ModelShape& shape);
void Qwen3(Fields& fields, ModelShape& shape);

// Experts behind grouped-query attention.
void Qwen3Moe(Fields& fields, ModelShape& shape);
void Mixtral(Fields& fields, ModelShape& shape);
void GptOss(Fields& fields, ModelShape& shape);

// Latent attention.
void DeepseekV3(Fields& fields, ModelShape& shape);

}  // namespace am::model
