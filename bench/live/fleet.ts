/** @file The fleets that the live figures are measured on: quiet ones, with simulated GPUs on this machine. */

/** One simulated cluster of 8 hosts with 8 GPUs each, behind one agent. */
export const BENCH_FLEET = `
name: bench
clusters:
  - name: sim
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 400 Gbps }
    hosts:
      - { name: "s[1-8]", gpus: 8, type: H100 }
`;

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
