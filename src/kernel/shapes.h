// What each op demands of its arguments, checked at the door of every implementation.
#pragma once

#include "contract/ops.h"

namespace longhaul::kernel {

void check_shapes(const Matmul& a) noexcept;
void check_shapes(const RmsNormForward& a) noexcept;
void check_shapes(const RmsNormBackward& a) noexcept;
void check_shapes(const RopeTable& a) noexcept;
void check_shapes(const Rope& a) noexcept;
void check_shapes(const GatedForward& a) noexcept;
void check_shapes(const GatedBackward& a) noexcept;
void check_shapes(const EmbeddingForward& a) noexcept;
void check_shapes(const EmbeddingBackward& a) noexcept;
void check_shapes(const CrossEntropy& a) noexcept;
void check_shapes(const AdamW& a) noexcept;

}  // namespace longhaul::kernel
