// The training program, for all models the same text: what is trained stands in train_tables.cpp, how in runtime/train.
#include "runtime/train/train_program.h"

extern const metac::train::TrainTables train_tables;

int main(int count, char** values) { return metac::train::train_main(train_tables, count, values); }
