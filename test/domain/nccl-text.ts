/** @file Made-up nccl-tests logs, written the ways that its versions and the launchers around it write them. */

export interface NcclTextStyle {
  /** Written before each line; `line` counts from 0. */
  readonly prefix: (line: number) => string;
  /** Documentation drops the leading number sign. */
  readonly hasHash: boolean;
  readonly wrongWord: "#wrong" | "wrong" | "error";
  readonly wrong: "0" | "N/A" | "1.57286e+06";
  /** Versions before 2.1 knew no root for all_reduce. */
  readonly hasRoot: boolean;
  /** Newer versions: spread over the iterations, and a time stamp at the end. */
  readonly hasIterations: boolean;
  readonly hasTimestamp: boolean;
  readonly lineEnd: "\n" | "\r\n";
  readonly hasVersion: boolean;
}

export const PLAIN_NCCL: NcclTextStyle = {
  prefix: () => "",
  hasHash: true,
  wrongWord: "#wrong",
  wrong: "0",
  hasRoot: true,
  hasIterations: false,
  hasTimestamp: false,
  lineEnd: "\n",
  hasVersion: true,
};

export interface MadeRow {
  readonly bytes: number;
  readonly outUs: number;
  readonly inUs: number;
}

/** An all_reduce over `ranks` GPUs of one host, eight to a host. */
export function ncclText(rows: readonly MadeRow[], ranks: number, style: NcclTextStyle): string {
  const figures = (bytes: number, us: number): string => {
    const algbw = bytes / us / 1000;
    const busbw = (algbw * 2 * (ranks - 1)) / ranks;
    const spread = style.hasIterations ? "   1.00   2.00   1.50   0.10" : "";
    return `  ${us.toFixed(1)}  ${algbw.toFixed(2)}  ${busbw.toFixed(2)}  ${style.wrong}${spread}`;
  };
  const words = `   time   algbw   busbw ${style.wrongWord}${style.hasIterations ? " i_min i_max i_p99 i_cv%" : ""}`;
  const busbws = rows.flatMap(({ bytes, outUs, inUs }) =>
    [outUs, inUs].map((us) => ((bytes / us / 1000) * 2 * (ranks - 1)) / ranks),
  );
  const average = busbws.reduce((sum, gbs) => sum + gbs, 0) / busbws.length;
  const minBytes = rows[0]?.bytes ?? 0;
  const settings = `nThread 1 nGpus 1 minBytes ${minBytes} maxBytes ${rows.at(-1)?.bytes ?? 0} step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0`;
  const hashed = [
    ...(style.hasVersion ? [" nccl-tests version 2.17.6 nccl-headers=1 nccl-library=1"] : []),
    ...(style.hasVersion ? [" Collective test starting: all_reduce_perf"] : []),
    ` ${settings}`,
    "",
    " Using devices",
    ...Array.from(
      { length: ranks },
      (_, rank) =>
        `  Rank ${rank} Group  0 Pid ${4000 + rank} on made-up-${rank >> 3} device  ${rank % 8} [0000:1b:00] MADE-UP 80GB`,
    ),
    "",
    "                            out-of-place                       in-place",
    `       size         count      type   redop${style.hasRoot ? "    root" : ""}${words}${words}${style.hasTimestamp ? " timestamp" : ""}`,
    "        (B)    (elements)               (us)  (GB/s)  (GB/s)",
  ];
  const table = rows.map(
    ({ bytes, outUs, inUs }) =>
      `${`${bytes}`.padStart(12)}  ${`${bytes / 4}`.padStart(12)}  float  sum${style.hasRoot ? "  -1" : ""}${figures(bytes, outUs)}${figures(bytes, inUs)}${style.hasTimestamp ? "  2024-01-31 12:00:00" : ""}`,
  );
  const footer = [
    " Out of bounds values : 0 OK",
    ` Avg bus bandwidth    : ${average.toPrecision(6)}`,
  ];
  const hash = style.hasHash ? "#" : "";
  const lines = [
    ...hashed.map((line) => hash + line),
    ...table,
    ...footer.map((line) => hash + line),
    ...(style.hasVersion ? [`${hash} Collective test concluded: all_reduce_perf`] : []),
  ];
  return lines.map((line, index) => style.prefix(index) + line).join(style.lineEnd) + style.lineEnd;
}

export interface MadeRun {
  readonly op: string;
  /** GPU indices by host. */
  readonly gpusByHost: Readonly<Record<string, readonly number[]>>;
  readonly gbs: number;
}

/** A run over several hosts with one row of 16 MiB. */
export function ncclRunText({ op, gpusByHost, gbs }: MadeRun): string {
  const gpus = Object.entries(gpusByHost).flatMap(([host, own]) =>
    own.map((gpu) => [host, gpu] as const),
  );
  const figures = `100.0  ${gbs.toFixed(2)}  ${gbs.toFixed(2)}  0`;
  return [
    `# Collective test starting: ${op}_perf`,
    "# nThread 1 nGpus 1 minBytes 16777216 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
    "# Using devices",
    ...gpus.map(
      ([host, gpu], rank) =>
        `#  Rank ${rank} Group  0 Pid ${4000 + rank} on ${host} device  ${gpu} [0x07] NVIDIA H100 80GB HBM3`,
    ),
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    `    16777216       4194304     float     sum      -1    ${figures}    ${figures}`,
    "# Out of bounds values : 0 OK",
    `# Avg bus bandwidth    : ${gbs.toFixed(2)}`,
    "",
  ].join("\n");
}
