import { existsSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// What crates/wasm/build.py writes, or does not where there is no compiler for it.
const CORE = `${import.meta.dirname}/core.wasm`;
const FOLDER = `${import.meta.dirname}/../python/l4slab/live/page`;

/** The core as a module of the page: text, which is what one file can hold, and packed, as it is most of it. */
function core(): Plugin {
  const name = "virtual:core";
  return {
    name: "core",
    resolveId: (id) => (id === name ? `\0${name}` : null),
    load(id) {
      if (id !== `\0${name}`) return null;
      const packed = existsSync(CORE) ? gzipSync(readFileSync(CORE), { level: 9 }).toString("base64") : null;
      return `export default ${JSON.stringify(packed)};`;
    },
  };
}

/** Says how large it has become. */
function sizes(): Plugin {
  const kB = (bytes: Buffer) => `${Math.round(bytes.length / 1000)} kB`;
  const both = (file: string) =>
    `${kB(readFileSync(file))} (${kB(gzipSync(readFileSync(file), { level: 9 }))} gzipped)`;
  return {
    name: "sizes",
    apply: "build",
    closeBundle: () => {
      const inside = existsSync(CORE) ? `in it the simulator, ${both(CORE)}` : "without the simulator";
      console.log(`live.html: ${both(`${FOLDER}/live.html`)}, ${inside}`);
    },
  };
}

// One file with everything in it, so that any file server, or none, can show the page.
export default defineConfig({
  base: "./",
  plugins: [core(), viteSingleFile({ removeViteModuleLoader: true }), sizes()],
  build: {
    target: "es2022",
    outDir: FOLDER,
    emptyOutDir: false,
    rolldownOptions: { input: "live.html" },
  },
  server: { open: "/live.html" },
});
