// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/gemm_kernel.h"

template const unmask::cpu::gemm_kernels& unmask::cpu::gemm_kernels_of<unmask::cpu::vec>();
