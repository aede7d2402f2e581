/**
 * @file How much the GPUs of a fleet are used, at the moment of a scrape: by host, and by the class and tenant of the leases. No series where no agent
 * says it. Cost: O(hosts + leases).
 */

import { Gauge, type OpenMetricsContentType, type Registry } from "prom-client";
import { sumOfUse, type GpuUse, type UseSum } from "../../domain/lease/gpu-use.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { FleetUse } from "../use/follow-use.ts";
import { useOfLease } from "../use/idle-jobs.ts";

const MIB = 2 ** 20;
/** Shorter pauses are no waste that anybody could have. */
const IDLE_MS = 600_000;

interface Measure {
  readonly name: string;
  readonly help: string;
  readonly of: (sum: UseSum) => number | undefined;
}

const MEASURES: readonly Measure[] = [
  {
    name: "use_ratio",
    help: "Part of the time in which a kernel ran, mean over the GPUs.",
    of: ({ use }) => use,
  },
  {
    name: "tensor_active_ratio",
    help: "Part of the time in which tensor cores worked, mean over the GPUs.",
    of: ({ tensor }) => tensor,
  },
  {
    name: "memory_used_bytes",
    help: "Memory that is taken on the GPUs.",
    of: ({ memoryMiB }) => memoryMiB && memoryMiB * MIB,
  },
  { name: "power_watts", help: "Power that the GPUs draw.", of: ({ watts }) => watts },
];

/** The answer sets all of them to what is known now. */
export function useGauges(
  registry: Registry<OpenMetricsContentType>,
  tenantOf: (tenant: string) => string,
): (ledger: Ledger, use: FleetUse) => void {
  const gauges = (kind: string, where: string, labelNames: string[]) =>
    MEASURES.map(({ name, help, of }) => ({
      of,
      gauge: new Gauge({
        name: `orbweaver_${kind}_gpu_${name}`,
        help: `${help} ${where}`,
        labelNames,
        registers: [registry],
      }),
    }));
  const ofHosts = gauges("host", "By host.", ["cluster", "host"]);
  const ofLeases = gauges("leased", "Of leased GPUs.", ["class", "tenant"]);
  const idle = new Gauge({
    name: "orbweaver_leased_gpus_idle",
    help: "Leased GPUs that nobody has used for ten minutes.",
    labelNames: ["class", "tenant"],
    registers: [registry],
  });

  return ({ leases }, use) => {
    for (const { gauge } of [...ofHosts, ...ofLeases]) gauge.reset();
    idle.reset();
    for (const [id, gpus] of use) {
      const [cluster = "", host = ""] = id.split("/");
      set(ofHosts, { cluster, host }, sumOfUse(gpus.flatMap((gpu) => gpu ?? [])));
    }
    const held = new Map<
      string,
      { readonly class: string; readonly tenant: string; gpus: GpuUse[] }
    >();
    for (const lease of leases.values()) {
      const gpus = useOfLease(lease, use);
      if (gpus === undefined) continue;
      const labels = { class: lease.class, tenant: tenantOf(lease.tenant) };
      const key = `${labels.class} ${labels.tenant}`;
      const former = held.get(key) ?? { ...labels, gpus: [] };
      former.gpus.push(...gpus);
      held.set(key, former);
    }
    for (const { gpus, ...labels } of held.values()) {
      set(ofLeases, labels, sumOfUse(gpus));
      idle.set(labels, gpus.filter(({ idleMs }) => idleMs >= IDLE_MS).length);
    }
  };
}

function set(
  gauges: readonly { readonly of: Measure["of"]; readonly gauge: Gauge }[],
  labels: Readonly<Record<string, string>>,
  sum: UseSum,
): void {
  if (sum.gpus === 0) return;
  for (const { of, gauge } of gauges) {
    const value = of(sum);
    if (value !== undefined) gauge.set(labels, value);
  }
}
