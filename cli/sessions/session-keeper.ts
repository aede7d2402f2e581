/**
 * @file The two command lines of a job that runs a command with somebody's input: its own process, and what the session starts beside it.
 *
 * The command is the session's, so that its input and terminal reach it. The job's own process waits for it and ends with its status. So the GPUs are given
 * back whatever becomes of the command, the session or the user: a session that nobody is at is hung up (agent/sessions). Both meet in a folder
 * that the job's process makes for its user alone, under a name that nobody can know before.
 */

import { randomBytes } from "node:crypto";

export interface SessionKeeper {
  readonly ofJob: readonly string[];
  readonly ofSession: readonly string[];
}

/** Seconds in which the session must come. */
const COMES_WITHIN_S = 120;
/** Tenths of seconds in which the job's process makes its folder, once the job is said to run. */
const MEETS_WITHIN = 100;

const JOB = `
umask 077
trap 'rm -rf "$0"; exit 143' TERM INT HUP
mkdir "$0" || exit 1
n=0
until [ -s "$0/pid" ]; do
  n=$((n + 1))
  if [ "$n" -gt ${String(COMES_WITHIN_S * 5)} ]; then
    echo "orbweaver: nobody came for the command within ${String(COMES_WITHIN_S)} s" >&2
    rm -rf "$0"
    exit 1
  fi
  sleep 0.2
done
read -r pid < "$0/pid"
while kill -0 "$pid" 2> /dev/null; do sleep 0.2; done
status=129
if [ -s "$0/status" ]; then read -r status < "$0/status"; fi
rm -rf "$0"
exit "$status"`;

/** Signals are the command's: this shell outlives them to note its status. */
const SESSION = `
umask 077
n=0
until [ -O "$0" ]; do
  n=$((n + 1))
  if [ "$n" -gt ${String(MEETS_WITHIN)} ]; then
    echo "orbweaver: the job's own process did not begin" >&2
    exit 1
  fi
  sleep 0.1
done
trap : INT QUIT TERM HUP USR1 USR2
echo "$$" > "$0/pid.new"
mv "$0/pid.new" "$0/pid"
umask 022
"$@"
status=$?
echo "$status" > "$0/status" 2> /dev/null
exit "$status"`;

export function sessionKeeper(
  command: readonly string[],
  name: string = randomBytes(18).toString("hex"),
): SessionKeeper {
  const folder = `/tmp/.orbweaver-${name}`;
  return {
    ofJob: ["sh", "-c", JOB, folder],
    ofSession: ["sh", "-c", SESSION, folder, ...command],
  };
}
