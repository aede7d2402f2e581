/** @file The environment of child processes; the user's Temporal settings never reach our own server. */

export type Environment = Readonly<Record<string, string | undefined>>;

/** `env` without any TEMPORAL_* variable: a laptop may point at production. */
export function withoutTemporal(env: Environment): Environment {
  return without(env, (name) => name.toUpperCase().startsWith("TEMPORAL_"));
}

/** `env` without the variables for which `isDropped` holds. */
export function without(env: Environment, isDropped: (name: string) => boolean): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isDropped(name)));
}
