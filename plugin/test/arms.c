/**
 * @file Prints a policy as the plugin's reader understands it: `arms FILE NODES RANKS COLLECTIVE BYTES CALLS` prints the arm of each of the
 * first calls of that kind, one a line. The tests compare it with the reader in TypeScript.
 */

#include <stdio.h>
#include <stdlib.h>

#include "policy.h"

int main(int argc, char **argv) {
  static struct policy policy;
  static char text[POLICY_BYTES + 1];
  if (argc != 7) return 2;
  FILE *file = fopen(argv[1], "r");
  if (file == NULL) return 2;
  size_t length = fread(text, 1, sizeof text, file);
  fclose(file);
  if (!policy_read(&policy, text, length)) {
    puts("no policy");
    return 0;
  }
  const struct section *section =
      policy_section(&policy, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
  uint64_t bytes = strtoull(argv[5], NULL, 10), calls = strtoull(argv[6], NULL, 10);
  const struct row *row = NULL;
  for (int at = 0; section != NULL && at < section->rows; at += 1) {
    const struct row *each = &policy.row[section->first_row + at];
    if (each->collective == atoi(argv[4]) && each->min_bytes <= bytes && bytes <= each->max_bytes)
      row = each;
  }
  for (uint64_t call = 0; call < calls; call += 1)
    puts(row == NULL ? "no row" : ARMS[policy_arm(row, call)].name);
  return 0;
}
