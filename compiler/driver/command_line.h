// Reads the command line and hands over to one command.
//
// Also a function that libmetac exports, for the program metac that is installed beside it: LLVM is there once then. No
// header of metac/ declares it: its users are programs of the same build.
#pragma once

extern "C" __attribute__((visibility("default"))) int metac_command_line(int argc, char** argv);  // the exit status
