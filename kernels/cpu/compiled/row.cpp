// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/row_kernels.h"

template const unmask::cpu::row_kernels& unmask::cpu::row_kernels_of<unmask::cpu::vec>();
