/**
 * @file Addresses of web servers in one written form, and which of them lie under which. Two readers of such a text cannot take it for two addresses:
 * what a parser of URLs would rewrite (upper case, dots, other forms of IP addresses, escaped slashes) is refused.
 */

export interface WebAddress {
  readonly scheme: "http" | "https";
  /** A name in lower case, an IPv4 address in its usual form, or an IPv6 address in brackets. */
  readonly host: string;
  readonly port: number;
  /** Begins with a slash; without the query. */
  readonly path: string;
  readonly hasQuery: boolean;
}

export const MAX_ADDRESS_CHARS = 2_000;

const FORM =
  /^(?<scheme>https?):\/\/(?<host>\[[0-9a-f:]{2,39}\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::(?<port>[1-9]\d{0,4}))?(?<path>\/[\w.~!$&'()*+,;=:@%/-]*)?(?<query>\?[\w.~!$&'()*+,;=:@%/?-]*)?$/;
/** A slash, a backslash, a dot or a percent sign in disguise (also as UTF-8 that is too long), a control character, and what is no escape at all. */
const DISGUISE = /%(?:2f|5c|2e|25|c[01]|[01][0-9a-f]|7f|(?![0-9a-f]{2}))/i;
/** Some servers leave out what follows a semicolon before they resolve dots. */
const DOTS = /^\.\.?(?:;|$)/;
const BYTE = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`);
/** Parsers of URLs take a host for a number by its last label. */
const NUMBER_LIKE = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/;
const MAX_PORT = 65_535;
const USUAL_PORT = { http: 80, https: 443 } as const;

/** Undefined where the text is no such address. */
export function readWebAddress(text: string): WebAddress | undefined {
  if (text.length > MAX_ADDRESS_CHARS) return undefined;
  const { scheme, host = "", port, path = "/", query } = FORM.exec(text)?.groups ?? {};
  if (scheme !== "http" && scheme !== "https") return undefined;
  if (NUMBER_LIKE.test(host) && !IPV4.test(host)) return undefined;
  if (host.includes("..") || DISGUISE.test(path)) return undefined;
  if (path.split("/").some((part) => DOTS.test(part))) return undefined;
  const number = port === undefined ? USUAL_PORT[scheme] : Number(port);
  if (number > MAX_PORT) return undefined;
  return { scheme, host, port: number, path, hasQuery: query !== undefined };
}

/** Whether it is the other one or lies below it: `https://a/b` covers `https://a/b/c` and not `https://a/bc`. A query changes nothing. */
export function liesUnder(address: WebAddress, under: WebAddress): boolean {
  const { scheme, host, port, path } = address;
  if (scheme !== under.scheme || host !== under.host || port !== under.port) return false;
  const folder = under.path.endsWith("/") ? under.path : `${under.path}/`;
  return path === under.path || path.startsWith(folder);
}
