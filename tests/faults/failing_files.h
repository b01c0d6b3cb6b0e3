// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A disk that fails, for tests: write, fsync, ftruncate and flock of files whose names hold ".jsonl" (of
// flock: of all files) fail as told, all others work. Linked into a test program, or loaded before the
// program (LD_PRELOAD, UNMASK_TEST_FAULTS=TEXT). The text holds, parted by commas:
//   write=K      the K-th write keeps 100 bytes at most and the next fails with ENOSPC; then there is room
//   full=K       every write from the K-th on fails with ENOSPC
//   fsync=K      the K-th fsync fails with EIO
//   truncate     ftruncate fails with EIO
//   flock        flock fails with ENOLCK, as on network file systems without locks
// UNMASK_TEST_OPENS=FILE adds a line to FILE for every file that the program opens by open().
#pragma once

extern "C" void unmask_test_faults(const char* text);
