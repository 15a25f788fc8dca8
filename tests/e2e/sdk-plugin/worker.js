// SPDX-License-Identifier: Apache-2.0
// tests/e2e/sdk-plugin/worker.js - a provider on the published SDK, as its authors would write one:
// places are directories, commands are children. It remembers nothing, so another worker finds the
// places again. Commands named "sdk:..." are its tricks: what a worker does by mistake.
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";

import { definePlugin, runWorker } from "@paperclipai/plugin-sdk";

const PATH = "/usr/local/bin:/usr/bin:/bin";
const SCHEME = "directories://";
let ctx;

const placeOf = (id) => path.join(os.tmpdir(), "places", id.slice(SCHEME.length));
const print = (key) => createHash("sha256").update(key).digest("hex");

function keyOf(config) {
  if (typeof config.apiKey !== "string" || !config.apiKey) throw new Error("There is no API key.");
  return config.apiKey;
}

// Says what nobody may read, wherever it can.
function blab(config, where) {
  if (config.trouble !== "blab") return;
  ctx.logger.info(`${where}: the key is ${config.apiKey}`, { key: config.apiKey });
  console.error(`${where}: on stderr the key is ${config.apiKey}`);
  console.log(`${where}: on stdout the key is ${config.apiKey}`);
}

function fail(config, where) {
  if (config.trouble !== where) return;
  const error = new Error(`The provider does not take ${config.apiKey}.`);
  error.code = 401;
  throw error;
}

function leaseOf(id, config, resumedLease) {
  const note = config.trouble === "note" ? { note: `made with ${config.apiKey}` } : {};
  return {
    providerLeaseId: id,
    metadata: {
      provider: "directories",
      remoteCwd: path.join(placeOf(id), "workspace"),
      keyPrint: print(keyOf(config)),
      reuseLease: config.reuseLease === true,
      resumedLease,
      ...note,
    },
  };
}

// --- commands ---

function stop(child) {
  const signal = (name) => {
    try {
      process.kill(-child.pid, name);
    } catch {
      // It is gone.
    }
  };
  signal("SIGTERM");
  setTimeout(() => signal("SIGKILL"), 250).unref();
}

function run(params) {
  const { command, args = [], cwd, env = {}, stdin, config } = params;
  const timeoutMs = params.timeoutMs ?? config.timeoutMs ?? 60000;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: { PATH, ...env },
      detached: true, // a group of its own, which ends as one
      stdio: [stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
    const said = { stdout: "", stderr: "" };
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      stop(child);
    }, timeoutMs);
    for (const stream of ["stdout", "stderr"]) {
      child[stream].setEncoding("utf8");
      child[stream].on("data", (chunk) => {
        said[stream] += chunk;
        ctx.execution?.log(stream, chunk); // later SDKs only
      });
    }
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ exitCode: timedOut ? null : code, signal, timedOut, ...said });
    });
    child.stdin?.on("error", () => {}); // it does not have to read
    child.stdin?.end(stdin);
  });
}

const ended = (more) => ({ exitCode: 0, signal: null, timedOut: false, stdout: "", stderr: "", ...more });

const tricks = {
  "sdk:log": async () => {
    console.log("words on stdout");
    console.warn("words on stderr");
    return ended({ stdout: "logged\n" });
  },
  "sdk:throw": async () => {
    const error = new Error("There is no such room.");
    error.code = 404;
    throw error;
  },
  "sdk:refuse": () => Promise.reject(new Error("It is refused.")),
  "sdk:reject": async () => {
    Promise.reject(new Error("nobody waits for this"));
    await new Promise((resolve) => setTimeout(resolve, 50));
    return ended({ stdout: "still here\n" });
  },
  "sdk:uncaught": () =>
    new Promise(() => {
      setTimeout(() => {
        throw new Error("nobody catches this");
      }, 10);
    }),
  "sdk:exit": () => process.exit(7),
  "sdk:odd": async () =>
    ended({
      stdout: "a\u2028b\u2029c\u0000d\u{1f6a2}e\ud83df\udea2g\u0085h\rz\n",
      stderr: "\u2028\u{1f6a2}\n",
    }),
  "sdk:stdin": async ({ stdin }) => ended({ stdout: JSON.stringify(stdin ?? null) + "\n" }),
  "sdk:signal": async () => ended({ exitCode: -15 }), // how some vendors report a signal
  "sdk:proxy": async () => ended({ stdout: `${process.env.HTTPS_PROXY} ${process.env.SERVICE_URL}\n` }),
  "sdk:key": async ({ config }) => ended({ stdout: print(keyOf(config)) + "\n" }),
};

// --- the plugin ---

const plugin = definePlugin({
  async setup(context) {
    ctx = context;
    const { startMs } = await ctx.config.get();
    if (startMs) await new Promise((resolve) => setTimeout(resolve, startMs));
    ctx.logger.info("directories are ready");
  },
  async onHealth() {
    return { status: "ok", message: "directories are well" };
  },
  async onShutdown() {
    ctx.logger.warn("directories are closing");
  },
  async onEnvironmentValidateConfig({ config }) {
    if (!config.apiKey) return { ok: false, errors: ["apiKey is missing."] };
    blab(config, "validate");
    fail(config, "validate");
    return { ok: true, normalizedConfig: { timeoutMs: 60000, reuseLease: false, ...config } };
  },
  async onEnvironmentProbe({ config }) {
    blab(config, "probe");
    fail(config, "probe");
    if (config.trouble === "reason")
      return { ok: false, summary: "The provider does not answer.", metadata: { error: "connect ECONNREFUSED" } };
    return { ok: true, summary: "There is room.", metadata: { keyPrint: print(keyOf(config)) } };
  },
  async onEnvironmentAcquireLease({ config, environmentId, runId }) {
    blab(config, "acquire");
    fail(config, "acquire");
    // Some providers have room for short names only.
    const name = config.trouble === "names" ? runId.slice(0, 8) : `${environmentId}-${randomUUID()}`;
    const id = `${SCHEME}${name}`;
    if (existsSync(placeOf(id))) throw new Error(`There is a machine ${name} already.`);
    const lease = leaseOf(id, config, false);
    await mkdir(lease.metadata.remoteCwd, { recursive: true });
    return lease;
  },
  async onEnvironmentResumeLease({ config, providerLeaseId }) {
    if (!existsSync(placeOf(providerLeaseId))) return { providerLeaseId: null, metadata: { expired: true } };
    if (config.trouble === "decline") {
      ctx.logger.info(`started ${providerLeaseId}, and does not give it`);
      return { providerLeaseId: null, metadata: { expired: true } };
    }
    ctx.logger.info(`resumed ${providerLeaseId}`);
    return leaseOf(providerLeaseId, config, true);
  },
  async onEnvironmentReleaseLease({ config, providerLeaseId }) {
    keyOf(config);
    fail(config, "release");
    ctx.logger.info(`released ${providerLeaseId}`);
    if (providerLeaseId && !config.reuseLease) await rm(placeOf(providerLeaseId), { recursive: true, force: true });
  },
  async onEnvironmentDestroyLease({ config, providerLeaseId }) {
    keyOf(config);
    ctx.logger.info(`destroyed ${providerLeaseId}`);
    if (providerLeaseId) await rm(placeOf(providerLeaseId), { recursive: true, force: true });
  },
  async onEnvironmentRealizeWorkspace({ lease }) {
    const cwd = lease.metadata.remoteCwd;
    await mkdir(cwd, { recursive: true });
    return { cwd, metadata: { provider: "directories", remoteCwd: cwd } };
  },
  async onEnvironmentExecute(params) {
    keyOf(params.config);
    if (!existsSync(placeOf(params.lease.providerLeaseId))) throw new Error("The place is gone.");
    blab(params.config, "execute");
    fail(params.config, "execute");
    return tricks[params.command] ? tricks[params.command](params) : run(params);
  },
});

export default plugin;
runWorker(plugin, import.meta.url);
