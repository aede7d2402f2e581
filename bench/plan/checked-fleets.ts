/** @file Twelve small fleets of every kind of link, on which predicted steps are checked. */

import type { PlanHost, PlanSite, Way } from "../../planning/parallelism/site.ts";

const CARDS = {
  "V100-32": { memoryGiB: 32, teraflops: 125, nvlinkGbs: 112 },
  A100: { memoryGiB: 80, teraflops: 312, nvlinkGbs: 225 },
  A40: { memoryGiB: 48, teraflops: 150, nvlinkGbs: 0 },
  H100: { memoryGiB: 80, teraflops: 989, nvlinkGbs: 337 },
} as const;
type Card = keyof typeof CARDS;

interface FleetOf {
  /** `cluster count card`, one a host. */
  readonly hosts: readonly string[];
  readonly fabricGbs: number;
  readonly wanGbs?: number;
}

/** `us 8 H100` is a host of the cluster us. */
function siteOf({ hosts, fabricGbs, wanGbs = 0.625 }: FleetOf): PlanSite {
  const fabric: Way = { gbs: fabricGbs, latencyMs: 0.05 };
  return {
    hosts: hosts.map((text, at): PlanHost => {
      const [cluster = "", count, card] = text.split(" ");
      const facts = CARDS[cardNamed(card)];
      const hasNvlink = facts.nvlinkGbs > 0;
      return {
        id: `${cluster}/h${String(at)}`,
        cluster,
        gpuType: cardNamed(card),
        gpuCount: Number(count),
        memoryGiB: facts.memoryGiB,
        teraflops: facts.teraflops,
        inside: hasNvlink
          ? { gbs: facts.nvlinkGbs, latencyMs: 0.01 }
          : { gbs: 12, latencyMs: 0.02 },
        nvlinkGpus: hasNvlink ? Number(count) : 1,
      };
    }),
    fabric: () => fabric,
    between: (from, to) => ({
      // Sites with the letter z lie far away.
      gbs: from.includes("z") || to.includes("z") ? wanGbs / 2 : wanGbs,
      latencyMs: 10,
    }),
  };
}

function cardNamed(name: string | undefined): Card {
  const found = Object.keys(CARDS).find((card) => card === name);
  if (found === "V100-32" || found === "A100" || found === "A40" || found === "H100") return found;
  throw new RangeError(`no card ${String(name)}`);
}

const repeated = (text: string, count: number): readonly string[] =>
  Array.from({ length: count }, () => text);

export const CHECKED_FLEETS: ReadonlyMap<string, PlanSite> = new Map(
  Object.entries<FleetOf>({
    "one host": { hosts: ["a 8 A100"], fabricGbs: 1 },
    "one host by PCIe": { hosts: ["a 4 A40"], fabricGbs: 1 },
    "two hosts, slow Ethernet": { hosts: repeated("a 8 A100", 2), fabricGbs: 1 },
    "two hosts, InfiniBand": { hosts: repeated("a 8 H100", 2), fabricGbs: 200 },
    "uneven hosts": { hosts: ["a 4 A100", "a 2 A100"], fabricGbs: 12.5 },
    "two sites": { hosts: ["eu 8 H100", "us 8 H100"], fabricGbs: 50, wanGbs: 0.625 },
    "two sites, narrow": { hosts: ["eu 8 H100", "us 8 H100"], fabricGbs: 1, wanGbs: 0.1 },
    "two sites, wide": {
      hosts: ["eu 8 A100", "eu 8 A100", "us 8 A100", "us 8 A100"],
      fabricGbs: 25,
      wanGbs: 12.5,
    },
    "two kinds of GPU": { hosts: ["a 4 A100", "b 4 V100-32"], fabricGbs: 3, wanGbs: 1.25 },
    "three sites": { hosts: ["eu 4 A100", "us 4 A100", "zz 4 A100"], fabricGbs: 12.5, wanGbs: 2.5 },
    "four hosts by PCIe": { hosts: repeated("a 4 A40", 4), fabricGbs: 6 },
    "eight hosts": { hosts: repeated("a 8 H100", 8), fabricGbs: 50 },
  }).map(([name, fleet]) => [name, siteOf(fleet)]),
);
