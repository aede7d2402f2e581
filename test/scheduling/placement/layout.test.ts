/** @file Where each GPU of a fleet lies: order, racks, clusters, sites, and the NVLink domains of a host. */
import { describe, expect, test } from "vitest";
import { domainsOf, layOut } from "../../../scheduling/placement/layout.ts";
import { host } from "../builders.ts";
import { fleetOf, HALVES } from "./fleets.ts";

describe("the layout of a fleet", () => {
  const fleet = fleetOf([
    { site: "paris", cluster: "c0", rack: "r1", hosts: 1 },
    { site: "paris", cluster: "c0", rack: "r0", hosts: 2 },
    { site: "oslo", cluster: "c1", hosts: 2 },
    { site: "paris", cluster: "c2", rack: "r0", hosts: 1, kind: { gpuType: "A100" } },
  ]);
  const layout = layOut(fleet);

  test("numbers racks, clusters and sites over the fleet; hosts without a rack share one", () => {
    const found = [...layout.values()].map((at) => [
      at.host,
      at.rack,
      at.cluster,
      at.site,
      at.rackName,
    ]);
    expect(found).toEqual([
      ["c0/h0", 0, 0, 0, "r1"],
      ["c0/h1", 1, 0, 0, "r0"],
      ["c0/h2", 1, 0, 0, "r0"],
      ["c1/h0", 2, 1, 1, undefined],
      ["c1/h1", 2, 1, 1, undefined],
      ["c2/h0", 3, 2, 0, "r0"],
    ]);
  });

  test("orders the hosts of a cluster by id, whatever the order of the file", () => {
    const turned = fleet.clusters.map((each) => ({ ...each, hosts: [...each.hosts].reverse() }));
    const ordersOf = (shape: typeof fleet): readonly (readonly [string, number])[] =>
      [...layOut(shape).values()].map(({ host: id, order }) => [id, order]);
    expect(ordersOf({ clusters: turned })).toEqual(ordersOf(fleet));
    expect(ordersOf(fleet).map(([, order]) => order)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("hosts of one type and shape share their kind, others do not", () => {
    const kindOf = (name: string): number | undefined => layout.get(host(name))?.kind.number;
    expect(layout.get(host("c0/h0"))?.kind).toBe(layout.get(host("c1/h1"))?.kind);
    expect([kindOf("c0/h0"), kindOf("c2/h0")]).toEqual([0, 1]);
    const halved = layOut(
      fleetOf([
        { cluster: "c0", hosts: 1 },
        { cluster: "c0", hosts: 1, kind: HALVES },
      ]),
    );
    const kinds = [...halved.values()].map(({ kind }) => [kind.domains, kind.numaNodes]);
    expect(kinds).toEqual([
      [[0b11111111], [0b11111111]],
      [
        [0b00001111, 0b11110000],
        [0b00001111, 0b11110000],
      ],
    ]);
  });

  test("knows the site, the watts and whether there is a fabric", () => {
    const [cluster] = fleet.clusters;
    if (cluster === undefined) throw new Error("no cluster");
    const { fabricGbps, ...plain } = cluster;
    const places = (shape: typeof fleet) => [...layOut(shape).values()][0];
    expect(fabricGbps).toBeDefined();
    expect(places(fleet)).toMatchObject({ siteName: "paris", gpuWatts: 700, hasFabric: true });
    expect(places({ clusters: [plain] })).toMatchObject({ clusterId: "c0", hasFabric: false });
  });
});

describe("NVLink domains of a host", () => {
  test.each([
    {
      name: "as the file says",
      host: { gpuType: "A40", nvlinkDomains: [3, 12] },
      want: [3, 12, 16, 32, 64, 128],
    },
    { name: "an SXM board is one", host: { gpuType: "H100" }, want: [0b11111111] },
    {
      name: "a type of one's own that says SXM",
      host: { gpuType: "A100-SXM4-64GB" },
      want: [0b11111111],
    },
    { name: "PCIe: halves", host: { gpuType: "L40S" }, want: [15, 240] },
    {
      name: "PCIe: NUMA nodes where known",
      host: { gpuType: "L40S", numaNodes: [240, 15] },
      want: [15, 240],
    },
    { name: "four on PCIe are one", host: { gpuType: "A10", gpuCount: 4 }, want: [15] },
    {
      name: "a known topology without NVLink",
      host: { gpuType: "H100", gpuCount: 4, nvlinkDomains: [1, 2, 4, 8], numaNodes: [3, 12] },
      want: [3, 12],
    },
  ])("$name", ({ host, want }) => {
    expect(domainsOf({ gpuCount: 8, ...host })).toEqual(want);
  });
});
