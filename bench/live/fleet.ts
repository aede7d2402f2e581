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

/** One cluster of single hosts, each with an agent of its own. */
export const idleFleet = (hosts: number): string => `
name: idle
clusters:
  - name: idle
    site: here
    jurisdiction: EU
    fabric: { bandwidth: 400 Gbps }
    hosts:
      - { name: "i[1-${String(hosts)}]", gpus: 8, type: H100 }
`;
