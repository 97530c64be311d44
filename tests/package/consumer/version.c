#include <metac/metac.h>
#include <stdio.h>

int main(void) { return puts(metac_version()) < 0; }
