/** @file GPUs of a bit mask as people write them. */

/** `0b1001111` → `0-3,6`. */
export function gpuList(mask: number): string {
  const runs: string[] = [];
  for (let gpu = 0; gpu < 31; gpu += 1) {
    if (((mask >>> gpu) & 1) === 0) continue;
    const first = gpu;
    while (((mask >>> (gpu + 1)) & 1) === 1) gpu += 1;
    runs.push(first === gpu ? String(gpu) : `${String(first)}-${String(gpu)}`);
  }
  return runs.join(",");
}
