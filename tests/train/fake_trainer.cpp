// The program of fake_model.h as a process of its own, to be killed: fake_trainer FOLDER MICROSECONDS [OPTION]...
#include "fake_model.h"

int main(int count, char** values) {
  if (count < 3) return 2;
  const fake::Model model(values[1], 3);
  fake::microseconds = std::atoi(values[2]);
  values[2] = values[0];
  return metac::train::train_main(model.tables, count - 2, values + 2);
}
