/**
 * @file How many NVLinks of each GPU are up, as `nvidia-smi nvlink --status` says: below each GPU a line a link, with its speed or `<inactive>`; by NVML
 * `<active>`, without a speed. And how many errors its links have counted, as `nvidia-smi nvlink --errorcounters` says.
 *
 * How many there should be no driver says: a card without a bridge has inactive ones for ever. So only what was up before is missed.
 */

/** By the ids of GPUs; a GPU without NVLink is not there. */
export type LinksUp = ReadonlyMap<string, number>;

export function parseNvlinkStatus(text: string): LinksUp {
  const up = new Map<string, number>();
  let gpu = "";
  for (const line of text.split("\n")) {
    gpu = /^GPU \d+: .*\(UUID: (GPU-[^)]+)\)/.exec(line)?.[1] ?? gpu;
    const state = /^\s+Link \d+: (.+)$/.exec(line)?.[1];
    if (state === undefined || gpu === "") continue;
    up.set(gpu, (up.get(gpu) ?? 0) + (/^([\d.]+ GB\/s|<active>)/.test(state) ? 1 : 0));
  }
  return up;
}

/** The most of each GPU that were ever up. */
export const mostLinks = (before: LinksUp, now: LinksUp): LinksUp =>
  new Map(
    [...now, ...before].map(([gpu]) => [gpu, Math.max(before.get(gpu) ?? 0, now.get(gpu) ?? 0)]),
  );

/** What is wrong with the GPU's links; nothing where all are up that ever were, or the driver did not say. */
export function linksDown(
  gpu: string | undefined,
  { most, now }: { readonly most: LinksUp; readonly now: LinksUp },
): readonly string[] {
  const [should, up] = [most.get(gpu ?? "") ?? 0, now.get(gpu ?? "")];
  if (up === undefined || up >= should) return [];
  return [`${should - up} of ${should} NVLinks ${should - up === 1 ? "is" : "are"} down`];
}

/** What the links of a GPU have counted since the driver was loaded, summed over links and kinds of errors (replays, recoveries, CRC). By the ids of GPUs. */
export type LinkErrors = ReadonlyMap<string, number>;

export function parseNvlinkErrors(text: string): LinkErrors {
  const errors = new Map<string, number>();
  let gpu = "";
  for (const line of text.split("\n")) {
    gpu = /^GPU \d+: .*\(UUID: (GPU-[^)]+)\)/.exec(line)?.[1] ?? gpu;
    const count = /^\s+Link \d+: (?:Replay|Recovery|CRC) Errors: (\d+)$/.exec(line)?.[1];
    if (count !== undefined && gpu !== "") errors.set(gpu, (errors.get(gpu) ?? 0) + Number(count));
  }
  return errors;
}
