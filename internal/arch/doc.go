// Package arch holds the rules of the house plan (docs/architecture.md) as a
// test that parses the tree: who may import whom, where certain things may be
// used, and how long a function may be. It has no code of its own to import.
package arch
