// Package engine is the application service: live conversations, commands in,
// appended events out, start tasks, leases, idle eviction and recovery. It is
// the only writer of logs and knows no protocol version.
package engine
