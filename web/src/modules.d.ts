/** The core as WebAssembly, base64 of gzip; null where it could not be built (vite.config.ts). */
declare module "virtual:core" {
  const packed: string | null;
  export default packed;
}
