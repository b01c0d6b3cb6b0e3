// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/attention_kernel.h"

template const unmask::cpu::attention_kernels&
unmask::cpu::attention_kernels_of<unmask::cpu::vec>();
