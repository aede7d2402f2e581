/** @file Which IP addresses are those of the public internet: not of this machine, its networks, its cloud's metadata, nor a way around to them. */

import { BlockList, isIPv4, isIPv6 } from "node:net";

/** By the special-purpose registries of IANA. */
const NOT_PUBLIC_V4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
] as const;
/** Inside of what is global: special uses, Teredo, documentation, 6to4, whose addresses carry ones of IPv4. */
const NOT_PUBLIC_V6 = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const;

const notPublic = new BlockList();
for (const [net, bits] of NOT_PUBLIC_V4) notPublic.addSubnet(net, bits, "ipv4");
for (const [net, bits] of NOT_PUBLIC_V6) notPublic.addSubnet(net, bits, "ipv6");
/** All else of IPv6 is local, mapped, translated, multicast or unassigned. */
const global = new BlockList();
global.addSubnet("2000::", 3, "ipv6");

export function isPublicAddress(ip: string): boolean {
  if (isIPv4(ip)) return !notPublic.check(ip, "ipv4");
  // A zone names an interface of this machine.
  return (
    isIPv6(ip) && !ip.includes("%") && global.check(ip, "ipv6") && !notPublic.check(ip, "ipv6")
  );
}
