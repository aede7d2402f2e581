/** @file Hosts in URLs. */

/** As a URL names it: an IPv6 address stands in brackets. */
export const hostInUrl = (host: string): string => (host.includes(":") ? `[${host}]` : host);
