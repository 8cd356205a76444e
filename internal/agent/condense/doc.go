// Package condense keeps what a model reads within bounds: it says which events of
// a conversation a summary takes the place of, asks a model for that summary, and
// makes do without a model where none can give one (agent protocol 4.6).
//
// It is pure: no calls, no clock, no log. The engine makes the calls and appends
// the events; the log itself keeps everything. What it promises:
//
//   - View never breaks what providers demand of a history, whatever a condensation
//     of the log says: calls and results stay together, an answer's calls too, and
//     the system prompt stays.
//   - A Job ends after a bounded number of calls. If the history must become
//     shorter, it ends with a Condensation that is shorter, without a model if need
//     be, until nothing is left to leave out.
//
// It does not promise that a summary is good or true; that is up to the model. It
// expects that no tool call is open: the result of a call that was forgotten before
// it was answered is not shown.
package condense
