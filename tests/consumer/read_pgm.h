/* Reads a plain PGM image ("P2", comments allowed) of exactly `count` pixels as floats; 0: good. For C and C++. */
#ifndef READ_PGM_H
#define READ_PGM_H
#include <stdio.h>
#include <string.h>

static int read_pgm(const char* path, float* pixels, int count) {
  FILE* file = fopen(path, "r");
  if (!file) return 1;
  char word[80];
  int numbers = -1, value; /* width, height and the greatest value come first; "P2" is number -1 */
  int bad = 0;
  while (!bad && fscanf(file, "%79s", word) == 1) {
    if (word[0] == '#') {
      if (fscanf(file, "%*[^\n]") == EOF) break;
    } else if (numbers < 0) {
      bad = strcmp(word, "P2") != 0;
      numbers = 0;
    } else {
      bad = sscanf(word, "%d", &value) != 1 || numbers - 3 >= count;
      if (!bad && numbers >= 3) pixels[numbers - 3] = (float)value;
      ++numbers;
    }
  }
  fclose(file);
  return bad || numbers != count + 3;
}
#endif
