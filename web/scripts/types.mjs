// Types of the API, from the document that a running server hands out:
//
//   node scripts/types.mjs openapi.json           writes src/api/schema.d.ts
//   node scripts/types.mjs openapi.json --check   fails if it is not current
//
// Only the paths of src/api/paths.json are kept, with the schemas they use: what the UI
// does not use may change without it.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const at = (path) => new URL(path, import.meta.url);
const [file, mode] = process.argv.slice(2);
if (!file) throw new Error('usage: node scripts/types.mjs openapi.json [--check]');

const document = JSON.parse(readFileSync(file, 'utf8'));
const wanted = JSON.parse(readFileSync(at('../src/api/paths.json'), 'utf8'));

const paths = {};
for (const [path, methods] of Object.entries(wanted)) {
  const item = document.paths[path];
  if (!item) throw new Error(`the server has no ${path}`);
  paths[path] = item.parameters ? { parameters: item.parameters } : {};
  for (const method of methods) {
    if (!item[method]) throw new Error(`the server has no ${method} ${path}`);
    paths[path][method] = item[method];
  }
}

// What is used, by reference, from the paths on.
const used = new Set();
const visit = (node) => {
  if (Array.isArray(node)) return node.forEach(visit);
  if (node === null || typeof node !== 'object') return;
  if (typeof node.$ref === 'string' && !used.has(node.$ref)) {
    used.add(node.$ref);
    visit(
      node.$ref
        .slice(2)
        .split('/')
        .reduce((at, key) => at?.[key], document),
    );
  }
  Object.values(node).forEach(visit);
};
visit(paths);
const components = {};
for (const [kind, members] of Object.entries(document.components)) {
  const kept = Object.entries(members).filter(([name]) => used.has(`#/components/${kind}/${name}`));
  if (kept.length > 0) components[kind] = Object.fromEntries(kept);
}

// Prose changes more often than types.
const bare = (node) => {
  if (Array.isArray(node)) return node.map(bare);
  if (node === null || typeof node !== 'object') return node;
  const members = Object.entries(node).filter(
    ([key, value]) => !['description', 'summary'].includes(key) || typeof value !== 'string',
  );
  return Object.fromEntries(members.map(([key, value]) => [key, bare(value)]));
};

const tree = await openapiTS(bare({ openapi: '3.1.0', info: { title: 'Parley', version: '1' }, paths, components }), {
  alphabetize: true,
  emptyObjectsUnknown: true,
});
const text = `// Written by scripts/types.mjs from the server's own document. Do not edit.\n${astToString(tree)}`;
const target = at('../src/api/schema.d.ts');
if (mode === '--check') {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('src/api/schema.d.ts is not current: run scripts/web types');
    process.exit(1);
  }
} else writeFileSync(target, text);
