/** @file The fleets that the live figures are measured on: quiet ones, with simulated GPUs on this machine. */

export const GPUS_PER_HOST = 8;

/** One simulated cluster of so many hosts with 8 GPUs each, behind one agent. */
export const simulatedFleet = (name: string, hosts: number): string =>
  [
    `name: ${name}`,
    "clusters:",
    ...clusterLines("sim"),
    `      - { name: "s[1-${String(hosts)}]", gpus: ${String(GPUS_PER_HOST)}, type: H100 }`,
    "",
  ].join("\n");

export const BENCH_FLEET = simulatedFleet("bench", 8);

/** Hosts with an agent of their own each, in clusters of so many. */
export function idleFleet(hosts: number, hostsPerCluster: number): string {
  const lines = ["name: idle", "clusters:"];
  for (let first = 1; first <= hosts; first += hostsPerCluster) {
    const last = Math.min(hosts, first + hostsPerCluster - 1);
    lines.push(
      `  - name: idle-${String(first)}`,
      "    site: here",
      "    jurisdiction: EU",
      "    fabric: { bandwidth: 400 Gbps }",
      `    hosts: [{ name: "i[${String(first)}-${String(last)}]", gpus: 8, type: H100 }]`,
    );
  }
  return `${lines.join("\n")}\n`;
}

/** Hosts of a type of which a gang may ask for one more than there are. */
export const SCARCE = { type: "A100-80", hosts: 9 } as const;
/** One host whose GPUs are the owner's, and which the guest may borrow. */
export const SHARED = { type: "L40S", gpus: 8, owner: "owner", guest: "guest" } as const;
const HOSTS_PER_RACK = 4;

/** A wide simulated cluster in racks, beside two small ones for what cannot be had and what was borrowed. */
export function shownFleet(hosts: number): string {
  const lines = [
    "name: shown",
    "tenants:",
    `  - { name: ${SHARED.owner}, quota: { ${SHARED.type}: ${String(SHARED.gpus)} } }`,
    `  - { name: ${SHARED.guest}, quota: { ${SHARED.type}: 0 }, borrowing: ${String(SHARED.gpus)} }`,
    "clusters:",
    ...clusterLines("wide"),
  ];
  for (let first = 1; first <= hosts; first += HOSTS_PER_RACK) {
    const last = Math.min(hosts, first + HOSTS_PER_RACK - 1);
    const names = `w[${String(first)}-${String(last)}]`;
    lines.push(`      - { name: "${names}", gpus: 8, type: H100, rack: r${String(first)} }`);
  }
  lines.push(
    ...clusterLines("scarce"),
    `      - { name: "c[1-${String(SCARCE.hosts)}]", gpus: 8, type: ${SCARCE.type} }`,
    ...clusterLines("shared"),
    `      - { name: l1, gpus: ${String(SHARED.gpus)}, type: ${SHARED.type} }`,
  );
  return `${lines.join("\n")}\n`;
}

function clusterLines(name: string): readonly string[] {
  return [
    `  - name: ${name}`,
    "    site: here",
    "    jurisdiction: EU",
    "    simulated: true",
    "    fabric: { bandwidth: 400 Gbps }",
    "    hosts:",
  ];
}
