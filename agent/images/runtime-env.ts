/**
 * @file The variables of the agent's own environment that a runtime for images needs: where it keeps its images, where its daemon listens, and by which way
 * it reaches a registry. The same ones wherever it is started: tried, told to fetch, told to start a process. Pure.
 *
 * An image that is fetched into one store cannot be started from another. Processes inside have none of them, but for those under apptainer, which passes
 * on what it has.
 */

import type { ImageRuntime } from "../../domain/job/job-image.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const XDG = ["XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
/** Of the agent's user; another user of the host has others. */
const PLACES: Readonly<Record<ImageRuntime, readonly string[]>> = {
  podman: [
    ...["CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"],
    ...["CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", ...XDG],
  ],
  docker: [
    ...["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY"],
    "DOCKER_CERT_PATH",
  ],
  apptainer: ["APPTAINER_CACHEDIR", "APPTAINER_CONFIGDIR", "APPTAINER_TMPDIR"],
  enroot: [
    ...["ENROOT_CACHE_PATH", "ENROOT_CONFIG_PATH", "ENROOT_DATA_PATH", "ENROOT_RUNTIME_PATH"],
    ...["ENROOT_TEMP_PATH", ...XDG],
  ],
  bubblewrap: [],
};
const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
const WAY_OUT: readonly string[] = [
  ...PROXIES,
  ...PROXIES.map((name) => name.toLowerCase()),
  ...["SSL_CERT_FILE", "SSL_CERT_DIR"],
];

export interface RuntimeUse {
  readonly runtime: ImageRuntime;
  /** `launch`: a process is started, for which only apptainer asks a registry. */
  readonly to: "fetch" | "launch";
  /** The runtime is another user's than the agent's. */
  readonly isOther: boolean;
}

export function runtimeEnv(
  env: Environment,
  { runtime, to, isOther }: RuntimeUse,
): Readonly<Record<string, string>> {
  const names = [
    ...(isOther ? [] : PLACES[runtime]),
    ...(to === "fetch" || runtime === "apptainer" ? WAY_OUT : []),
  ];
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
}
