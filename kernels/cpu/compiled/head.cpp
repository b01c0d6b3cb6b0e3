// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/head_kernels.h"

template const unmask::cpu::head_kernels& unmask::cpu::head_kernels_of<unmask::cpu::vec>();
