import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// The server sends what is compressed here and never compresses itself; the plain
// files are not embedded.
function precompress(): Plugin {
  let out = '';
  return {
    name: 'precompress',
    apply: 'build',
    configResolved(config) {
      out = path.resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const entry of readdirSync(out, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(js|css|svg|html)$/.test(entry.name)) continue;
        const file = path.join(entry.parentPath, entry.name);
        const raw = readFileSync(file);
        writeFileSync(`${file}.gz`, gzipSync(raw, { level: 9 }));
        writeFileSync(`${file}.br`, brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
        rmSync(file);
      }
    },
  };
}

// The part that shows a conversation is loaded with the first one: it is what people
// open Parley for, and else it would be found only when the first has run.
function preloadConversation(): Plugin {
  return {
    name: 'preload-conversation',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler(html, { bundle }) {
        const chunks = Object.values(bundle ?? {}).filter((each) => each.type === 'chunk');
        const page = chunks.find((each) =>
          each.moduleIds.some((id) => id.endsWith('/conversation/ConversationPage.tsx')),
        );
        if (page === undefined) throw new Error('no chunk shows a conversation');
        return [page.fileName, ...page.imports]
          .filter((name) => !html.includes(name))
          .map((name) => ({
            tag: 'link',
            attrs: { rel: 'modulepreload', crossorigin: true, href: `./${name}` },
            injectTo: 'head' as const,
          }));
      },
    },
  };
}

export default defineConfig({
  // Relative addresses work below any base path.
  base: './',
  plugins: [react(), tailwind(), preloadConversation(), precompress()],
  build: {
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: 'es2022',
    modulePreload: { polyfill: false },
  },
  server: {
    proxy: Object.fromEntries(
      ['/api', '/agent', '/server_info'].map((at) => [at, process.env.PARLEY_URL ?? 'http://127.0.0.1:3000']),
    ),
  },
  test: { environment: 'jsdom', include: ['src/**/*.test.{ts,tsx}'] },
});
