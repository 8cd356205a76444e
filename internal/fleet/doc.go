// Package fleet keeps the sandboxes of this installation: it makes, adopts after
// a restart, pauses, resumes and removes them, and sweeps orphans.
package fleet
