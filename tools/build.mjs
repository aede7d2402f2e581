/**
 * @file Builds `dist/`: compiles the sources, makes the workflow bundle that every worker runs, the shim's, the light verbs' and the console's page.
 *
 * Skips what is newer than its inputs, so that a second call costs a fraction of a second.
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const ROOMS = [
  "domain",
  "lib",
  "scheduling",
  "planning",
  "tuning",
  "protocol",
  "machines",
  "agent",
  "streams",
  "models",
  "solvers",
  "simulator",
  "world",
  "workflows",
  "activities",
  "workers",
  "access",
  "client",
  "console",
  "api",
  "cli",
  "bench",
];
/**
 * What is loaded once for all workflows of a worker and not once for each: the machines with all that they import, which hold no state of a
 * run, and the one module of the sandbox that all runs of a thread share.
 */
const preloaded = () => [
  ...sourcesUnder(path.join(ROOT, "machines")).map((file) =>
    path.relative(ROOT, file).replace(/\.ts$/, ".js"),
  ),
  "workflows/runtime/task-age.js",
];

export async function build({ say = () => {} } = {}) {
  for (const name of Object.keys(PROGRAMS)) buildProgram(name, say);
  const stamp = inputStamp();
  const stampFile = path.join(ROOT, "dist", ".stamp");
  if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return;
  say("compiling");
  const tsc = spawnSync(
    process.execPath,
    [
      path.join(ROOT, "node_modules/typescript/bin/tsc"),
      "-p",
      path.join(ROOT, "tsconfig.build.json"),
    ],
    {
      stdio: ["ignore", "pipe", "inherit"],
      encoding: "utf8",
    },
  );
  if (tsc.status !== 0) throw new Error(`the sources do not compile:\n${tsc.stdout}`);
  const main = path.join(ROOT, "dist/cli/main.js");
  if (existsSync(main)) chmodSync(main, 0o755);
  say("bundling the workflows");
  const { bundleWorkflowCode } = await import(
    pathToFileURL(path.join(ROOT, "node_modules/@temporalio/worker/lib/index.js")).href
  );
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(ROOT, "dist/workflows/index.js"),
    payloadConverterPath: path.join(ROOT, "dist/workflows/runtime/payload-converter.js"),
    failureConverterPath: path.join(ROOT, "dist/workflows/runtime/failure-converter.js"),
    workflowInterceptorModules: [
      // The guard judges an activation before its signals are taken off.
      path.join(ROOT, "dist/workflows/runtime/activation-guard.js"),
      path.join(ROOT, "dist/workflows/runtime/sealed-run.js"),
      path.join(ROOT, "dist/workflows/runtime/signal-intake.js"),
    ],
    preloadModules: preloaded().map((file) => path.join(ROOT, "dist", file)),
    logger: quietLogger(),
  });
  mkdirSync(path.join(ROOT, "dist"), { recursive: true });
  writeFileSync(path.join(ROOT, "dist/workflow-bundle.js"), withOwnGlobals(code));
  await bundleShim();
  say("bundling the command line");
  await bundleVerbs();
  await bundlePage();
  writeFileSync(stampFile, stamp);
}

/**
 * The programs in C, where there is a compiler. The native supervisor is static, so that nothing of a job's environment is looked at before its program; the
 * shim in Node does its work where there is none. The program that asks NVML loads the driver's library; `nvidia-smi` is asked where there is none.
 */
const PROGRAMS = {
  supervisor: {
    folder: "agent/native",
    flags: ["-static"],
    libraries: [],
    without: "no native supervisor, launches take the one in Node",
  },
  nvml: {
    folder: "agent/nvml",
    flags: [],
    libraries: ["-ldl"],
    without: "NVML is not asked, nvidia-smi alone is",
  },
};

/** Beside the stamp, because a compiler may come later than the build. */
function buildProgram(name, say) {
  if (process.platform !== "linux") return;
  const folder = path.join(ROOT, PROGRAMS[name].folder);
  // This file has the flags of the compiler.
  const sources = [
    ...readdirSync(folder).map((file) => path.join(folder, file)),
    fileURLToPath(import.meta.url),
  ];
  const out = path.join(ROOT, "dist/agent/native", `${name}-linux-${process.arch}`);
  const builtAt = existsSync(out) ? statSync(out).mtimeMs : 0;
  if (sources.every((file) => statSync(file).mtimeMs < builtAt)) return;
  mkdirSync(path.dirname(out), { recursive: true });
  const aside = `${out}.${process.pid}`;
  const done = compileProgram(name, aside);
  // An agent may be running the old one.
  if (done.status === 0) renameSync(aside, out);
  else {
    // One of older sources would be taken for the present one.
    rmSync(out, { force: true });
    const why = done.error === undefined ? done.stderr.trim() : "no C compiler (cc)";
    say(`${PROGRAMS[name].without}: ${why}`);
  }
}

/** The result of the compiler, `error` where there is none. */
export function compileProgram(name, out) {
  const { flags, libraries } = PROGRAMS[name];
  const folder = path.join(ROOT, PROGRAMS[name].folder);
  const sources = readdirSync(folder).filter((file) => file.endsWith(".c"));
  return spawnSync(
    "cc",
    [
      ...flags,
      ...["-O2", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong"],
      ...["-s", "-o", out, ...sources.sort().map((file) => path.join(folder, file))],
      ...libraries,
    ],
    { encoding: "utf8" },
  );
}

/**
 * In the sandbox of workflows each look at a global asks an interceptor, a tenth of a microsecond or more: loops that call `Math.min` took twenty times
 * as long. So the bundle looks once, on its first line, which leaves the lines of the source map where they are. Nothing that the SDK replaces or
 * forbids in a workflow is among these names (`Math.random` is replaced inside `Math`).
 *
 * `Error` is one of them for another reason. For each promise the SDK makes an error of the sandbox's global `Error`, and notes its stack in the words of
 * the sources, for the query `__stack_trace`: a third of the time of a job's tasks. It finds a class without a stack there and notes nothing. What the
 * bundle throws, and what the engine does, keeps its stack. The SDK freezes what all runs of a thread share by the names of the globals, so the true
 * `Error` is frozen here.
 */
function withOwnGlobals(code) {
  const start = "(() => { // webpackBootstrap";
  if (!code.includes(start))
    throw new Error("the bundle of the workflows does not begin as expected");
  const names =
    "Array, BigInt, Boolean, Error, JSON, Map, Math, Number, Object, Reflect, Set, String, Symbol";
  return code.replace(
    start,
    `(() => { const { ${names} } = globalThis, Infinity = 1 / 0, NaN = 0 / 0; Object.freeze(Error); globalThis.Error = class {}; // webpackBootstrap`,
  );
}

/** The shim as one CommonJS file: every launch starts one, and loading a dozen modules costs a third of that. */
async function bundleShim() {
  // The bundler of the workflows, where its owner has it.
  const webpack = createRequire(path.join(ROOT, "node_modules/@temporalio/worker/lib/index.js"))(
    "webpack",
  );
  const compiler = webpack({
    mode: "production",
    target: "node20",
    entry: path.join(ROOT, "dist/workers/shim.js"),
    output: { path: path.join(ROOT, "dist/workers"), filename: "shim.cjs" },
    // Its stack traces go to a log that people read.
    optimization: { minimize: false },
  });
  const stats = await promisify(compiler.run.bind(compiler))();
  await promisify(compiler.close.bind(compiler))();
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
}

/** The verbs that only ask the server, and the one that serves a model, as a CommonJS file each. */
async function bundleVerbs() {
  const { LIGHT_VERBS, SERVING_VERB } = await import(
    pathToFileURL(path.join(ROOT, "dist/cli/light-verbs.js")).href
  );
  await bundleProgram("light.cjs", {
    verbs: [...LIGHT_VERBS.values()],
    packages: /^(@temporalio\/worker|onnxruntime-node|highs|libsql)$/,
    heavy:
      /^\.\.\/(models|solvers)\/|^\.\.\/workers\/recorded-fleet\.js$|^history\/|^command\/what-if\.js$/,
    words: ["list", "--address", "127.0.0.1:1", "--isolated"],
  });
  await bundleProgram("serve.cjs", {
    verbs: [SERVING_VERB],
    // Only an error that ends the service asks whether it is one of Temporal's client.
    packages: /^(@temporalio\/|onnxruntime-node$)/,
    heavy: /^serving\/run-replicas\.js$|^command\/session\.js$|^verbs\/service\/completion\.js$/,
    words: ["serve", "--model", "none.onnx"],
  });
}

/**
 * The command line with some verbs as one CommonJS file of `dist/cli`. Outside stay other verbs, the `heavy` files of our own, and `packages`: those with native
 * parts, and what is hardly needed. `words`: a run that needs no server, whose compiled code is kept.
 */
async function bundleProgram(filename, { verbs, packages, heavy, words }) {
  const near = createRequire(path.join(ROOT, "node_modules/@temporalio/worker/lib/index.js"));
  const webpack = near("webpack");
  const Minimizer = createRequire(near.resolve("webpack"))("minimizer-webpack-plugin");
  const held = new Set(verbs.map((file) => `./verbs/${file}.js`));
  const folder = path.join(ROOT, "dist/cli");
  const compiler = webpack({
    mode: "production",
    target: "node20",
    context: ROOT,
    entry: path.join(folder, "program.js"),
    output: { path: folder, filename, library: { type: "commonjs2" } },
    // Half of the text is comments and indentation, which every start would read. Stack traces name functions and modules, and the text is ASCII: a character
    // beyond it would double the memory of the whole and the time to read it.
    optimization: {
      moduleIds: "named",
      minimizer: [
        new Minimizer({
          extractComments: false,
          terserOptions: {
            mangle: false,
            compress: false,
            format: { ascii_only: true, semicolons: false, comments: /@license|@preserve|^!/ },
          },
        }),
      ],
    },
    module: {
      parser: {
        javascript: {
          dynamicImportMode: "eager",
          createRequire: false,
          url: false,
          unknownContextCritical: false,
          exprContextCritical: false,
        },
      },
      rules: [
        // Our modules do nothing by being loaded, so an index loads only what is used of it.
        { include: path.join(ROOT, "dist"), sideEffects: false },
        {
          test: /@temporalio[\\/]proto[\\/]protos[\\/]json-module\.js$/,
          loader: path.join(ROOT, "tools/slim-messages.cjs"),
          options: { isCalled: calledByClients() },
        },
        {
          include: path.join(ROOT, "node_modules/protobufjs/src/type.js"),
          loader: path.join(ROOT, "tools/lazy-types.cjs"),
        },
      ],
    },
    externals: [
      ({ request, context }, done) => {
        const outside = outsideOfBundle(request, context, { held, packages, heavy });
        // Compiled code of an earlier time cannot import; packages are required, and verbs with files of their own are no light ones.
        return outside === undefined
          ? done()
          : done(null, `${/^[.]/.test(outside) ? "import" : "commonjs"} ${outside}`);
      },
    ],
    plugins: [
      new webpack.DefinePlugin({
        // Of the module's own file, beside which it may look for others.
        "import.meta.url": webpack.DefinePlugin.runtimeValue(({ module }) => {
          const own = JSON.stringify(path.relative(folder, module.resource));
          return `require('node:url').pathToFileURL(require('node:path').join(__dirname, ${own})).href`;
        }),
      }),
    ],
    node: { __filename: false, __dirname: false },
    performance: { hints: false },
  });
  const stats = await promisify(compiler.run.bind(compiler))();
  await promisify(compiler.close.bind(compiler))();
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
  if (readFileSync(path.join(folder, filename)).some((byte) => byte > 0x7f))
    throw new Error(`${filename} is not ASCII alone, as cli/bundled.ts takes it to be`);
  keepCompiled(path.join(folder, filename), words);
}

/** Which methods of Temporal's services the light verbs may call: those that our client's side or the client library names. */
function calledByClients() {
  const sources = ["client", "cli", "workers", "access", "protocol"].flatMap((room) =>
    sourcesUnder(path.join(ROOT, room)),
  );
  const library = ["workflow-client.js", "connection.js"].map((file) =>
    path.join(ROOT, "node_modules/@temporalio/client/lib", file),
  );
  const text = [...sources, ...library].map((file) => readFileSync(file, "utf8")).join("\n");
  const named = new Set([...text.matchAll(/\.\s*(\w+)/g)].map(([, name]) => name));
  return (method) => named.has(method);
}

/** How the bundle in `dist/cli` imports what it does not hold; undefined for what it holds. */
function outsideOfBundle(request, context, { held, packages, heavy }) {
  if (packages.test(request)) return request;
  if (!request.startsWith(".") || context.includes("node_modules")) return undefined;
  const cli = path.join(ROOT, "dist/cli");
  const file = path.relative(cli, path.resolve(context, request)).split(path.sep).join("/");
  const isHeavyVerb = context === cli && file.startsWith("verbs/") && !held.has(`./${file}`);
  return heavy.test(file)
    ? file.startsWith("../")
      ? file
      : `./${file}`
    : isHeavyVerb
      ? `./${file}`
      : undefined;
}

/** What V8 has compiled once a verb has been set up; see `cli/bundled.ts`. */
function keepCompiled(file, words) {
  const script = `
    const vm = require("node:vm"), { readFileSync, writeFileSync } = require("node:fs"), { wrap, createRequire } = require("node:module");
    const file = ${JSON.stringify(file)}, folder = ${JSON.stringify(path.dirname(file))};
    const importModuleDynamically = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER;
    const script = new vm.Script(wrap(readFileSync(file, "utf8")), { filename: file, importModuleDynamically });
    const module_ = { exports: {} };
    script.runInThisContext().call(module_.exports, module_.exports, createRequire(file), module_, file, folder);
    const quiet = { write: () => true };
    const io = { stdout: quiet, stderr: quiet, env: {}, cwd: "/", nowMs: () => 0, readInput: async () => "", interrupted: new AbortController().signal };
    module_.exports.runCli(${JSON.stringify(words)}, { io }).then(() => {
      writeFileSync(file + ".code", script.createCachedData());
      process.exit(0);
    });`;
  const kept = spawnSync(process.execPath, ["-e", script], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (kept.status !== 0) throw new Error(`${file} does not load`);
}

/** The page of the console: one script, checked against the browser's types, and the files beside it. */
async function bundlePage() {
  const checked = spawnSync(
    process.execPath,
    [path.join(ROOT, "node_modules/typescript/bin/tsc"), "-p", path.join(ROOT, "page")],
    { stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" },
  );
  if (checked.status !== 0) throw new Error(`the page does not compile:\n${checked.stdout}`);
  const near = createRequire(path.join(ROOT, "node_modules/@temporalio/worker/lib/index.js"));
  const compiler = near("webpack")({
    mode: "production",
    target: ["web", "es2022"],
    entry: path.join(ROOT, "page/main.ts"),
    output: { path: path.join(ROOT, "dist/page"), filename: "page.js" },
    module: {
      rules: [
        {
          test: /\.ts$/,
          loader: near.resolve("swc-loader"),
          options: {
            jsc: { parser: { syntax: "typescript" }, target: "es2022" },
            sourceMaps: false,
          },
        },
      ],
    },
    performance: { hints: false },
  });
  const stats = await promisify(compiler.run.bind(compiler))();
  await promisify(compiler.close.bind(compiler))();
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
  for (const file of ["index.html", "page.css", "icon.svg"])
    copyFileSync(path.join(ROOT, "page/static", file), path.join(ROOT, "dist/page", file));
}

/** Changes whenever a source, a setting or an installed version changes. */
function inputStamp() {
  const hash = createHash("sha256");
  const files = [...ROOMS, "page"].flatMap((room) => sourcesUnder(path.join(ROOT, room)));
  for (const file of [
    ...files,
    path.join(ROOT, "tsconfig.json"),
    path.join(ROOT, "tsconfig.build.json"),
    path.join(ROOT, "package.json"),
    fileURLToPath(import.meta.url),
    path.join(ROOT, "tools/slim-messages.cjs"),
    path.join(ROOT, "tools/lazy-types.cjs"),
  ].sort()) {
    hash.update(path.relative(ROOT, file)).update(readFileSync(file));
  }
  return hash.digest("hex");
}

function sourcesUnder(dir) {
  if (!existsSync(dir)) return [];
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(dir, entry.name);
    return entry.isDirectory()
      ? sourcesUnder(file)
      : /\.(c?ts|html|css|svg)$/.test(entry.name)
        ? [file]
        : [];
  });
}

function quietLogger() {
  const say = (level) => (message) =>
    (level === "error" || level === "warn") && process.stderr.write(`${message}\n`);
  return {
    log: (level, message) => say(level.toLowerCase())(message),
    trace: say("trace"),
    debug: say("debug"),
    info: say("info"),
    warn: say("warn"),
    error: say("error"),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await build({ say: (what) => process.stderr.write(`${what}\n`) });
}
