// SPDX-License-Identifier: MIT
// The program.
#include "verify/cli.h"

int main(int argc, char** argv) { return kvcheck::run_command_line(argc, argv); }
