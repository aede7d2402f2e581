/**
 * @file Loads a program that the build has put into one file, with the compiled code of an earlier time where Node keeps such.
 *
 * From Node 22.1 on Node keeps it itself. Before, the build has put it beside the bundle; V8 refuses what another version of it has compiled, or
 * for other flags, and the bundle is then compiled as any other file.
 */

import { existsSync, readFileSync } from "node:fs";
import nodeModule from "node:module";
import { dirname } from "node:path";
import * as vm from "node:vm";

/** What the bundle exports; undefined where it was not built. `Exports`: the type of the file that it was made from. */
export function loadBundled<Exports>(file: string): Exports | undefined {
  if (!existsSync(file)) return undefined;
  const require = nodeModule.createRequire(file);
  const { enableCompileCache } = nodeModule as { readonly enableCompileCache?: () => unknown };
  enableCompileCache?.();
  const script = enableCompileCache === undefined ? compiledScript(file) : undefined;
  if (script === undefined) return require(file) as Exports; // of our own build
  const module = { exports: {} };
  const run = script.runInThisContext() as (...parts: readonly unknown[]) => void; // the wrapper of `nodeModule.wrap`
  run.call(module.exports, module.exports, require, module, file, dirname(file));
  return module.exports as Exports;
}

/** Compiled here where the code of an earlier time is not taken: of another V8, or for other flags. Undefined where the build has kept none. */
function compiledScript(filename: string): vm.Script | undefined {
  const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  if (loader === undefined || !existsSync(`${filename}.code`)) return undefined;
  const cachedData = readFileSync(`${filename}.code`);
  // ASCII alone, as the build sees to: other decoders look at each byte first.
  const source = nodeModule.wrap(readFileSync(filename, "latin1"));
  return new vm.Script(source, { filename, cachedData, importModuleDynamically: loader });
}
