import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// One file with everything in it, so that any file server, or none, can show the page.
export default defineConfig({
  base: "./",
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: {
    target: "es2022",
    outDir: "../python/l4slab/live/page",
    emptyOutDir: false,
    rolldownOptions: { input: "live.html" },
  },
  server: { open: "/live.html" },
});
