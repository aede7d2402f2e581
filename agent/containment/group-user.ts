/**
 * @file Who uses the groups of a host: an empty group beside those of its launches, whose name says which process the agent is and where the host's
 * state lies.
 *
 * Groups hold no files, and the kernel removes a group only where nothing lies in it. So a name is the one note that whoever shares the hierarchy
 * can read, and while it is there nobody can remove what holds it. No folder of a launch begins with its first sign. Pure.
 */

export interface GroupUser {
  /** In which pids count (`Processes.space`). */
  readonly space: string;
  readonly pid: number;
  readonly started: string;
  /** The host's folder; absent where its name is too long, and for trials, which have none. */
  readonly stateDir?: string;
}

const SIGN = "@";
/** The longest name of a group, as of a file. */
const LONGEST_NAME = 255;

export const isUserName = (name: string): boolean => name.startsWith(SIGN);

export function userName({ space, pid, started, stateDir }: GroupUser): string {
  const who = SIGN + [space, String(pid), started].map(encodeURIComponent).join(",");
  const whole = stateDir === undefined ? who : `${who},${encodeURIComponent(stateDir)}`;
  return whole.length <= LONGEST_NAME ? whole : who;
}

/** Undefined for what is no such name. */
export function parseUser(name: string): GroupUser | undefined {
  if (!isUserName(name)) return undefined;
  const words = name.slice(SIGN.length).split(",");
  const [space, pid, started, stateDir] = words.map(decoded);
  if (words.length > 4 || space === undefined || started === undefined) return undefined;
  if (pid === undefined || !/^\d+$/.test(pid)) return undefined;
  return { space, pid: Number(pid), started, ...(stateDir !== undefined && { stateDir }) };
}

function decoded(word: string): string | undefined {
  try {
    return decodeURIComponent(word);
  } catch {
    return undefined;
  }
}
